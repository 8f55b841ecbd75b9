// A program that locks the pages of its keys in memory, wherever they lie; it ends with 77 where it
// may not lock so many: locked_pages [PAGES].
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

__attribute__((noinline)) static int keep(char *key) {
    int failed = mlock(key, 32);
    return failed;
}

int main(int argc, char **argv) {
    long pages = argc > 1 ? atol(argv[1]) : 2000;
    char *heap = mmap(0, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (heap == MAP_FAILED) return perror("mmap"), 1;
    for (long i = 1; i < pages; i += 2)
        if (keep(heap + i * 4096)) return perror("mlock"), 77;
    return 0;
}
