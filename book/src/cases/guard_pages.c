// An allocator that puts a guard page behind every chunk of 16 KiB: guard_pages [CHUNKS].
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

int main(int argc, char **argv) {
    long chunks = argc > 1 ? atol(argv[1]) : 10000;
    char *pool = mmap(0, chunks * 20480, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pool == MAP_FAILED) return perror("mmap"), 1;
    for (long i = 0; i < chunks; i++) {
        if (mprotect(pool + i * 20480 + 16384, 4096, PROT_NONE)) return perror("mprotect"), 1;
    }
    return 0;
}
