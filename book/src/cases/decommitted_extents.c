// An allocator that gives memory back by mapping a range without access over it, and keeps the
// addresses: decommitted_extents [EXTENTS].
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { EXTENT = 64 << 10 };

__attribute__((noinline)) static int decommit(char *extent) {
    void *at = mmap(extent, EXTENT, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return at == MAP_FAILED;
}

int main(int argc, char **argv) {
    long extents = argc > 1 ? atol(argv[1]) : 10000;
    char *heap = mmap(0, 2 * extents * EXTENT + EXTENT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (heap == MAP_FAILED) return perror("mmap"), 1;
    for (long i = 0; i < extents; i++)
        if (decommit(heap + (2 * i + 1) * EXTENT)) return perror("decommit"), 1;
    return 0;
}
