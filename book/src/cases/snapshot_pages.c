// A program that keeps a snapshot of its memory: all pages become read-only, and each that is
// written again becomes writable alone: snapshot_pages [PAGES].
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static char *memory;

__attribute__((noinline)) static int written(long page) {
    int failed = mprotect(memory + page * 4096, 4096, PROT_READ | PROT_WRITE);
    return failed;
}

int main(int argc, char **argv) {
    long pages = argc > 1 ? atol(argv[1]) : 10000;
    memory = mmap(0, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, pages * 4096, PROT_READ)) return perror("snapshot"), 1;
    for (long i = 1; i < pages; i += 2)
        if (written(i)) return perror("mprotect"), 1;
    return 0;
}
