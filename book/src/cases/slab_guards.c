// A hardened allocator: one reservation for a size, and in it each slab is made usable with a guard
// left behind it: slab_guards [SLABS].
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { SLAB = 16 << 10, STEP = 2 * SLAB };

static char *region;

__attribute__((noinline)) static int new_slab(long i) {
    int failed = mprotect(region + i * STEP, SLAB, PROT_READ | PROT_WRITE);
    return failed;
}

int main(int argc, char **argv) {
    long slabs = argc > 1 ? atol(argv[1]) : 10000;
    region = mmap(0, slabs * STEP, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (region == MAP_FAILED) return perror("mmap"), 1;
    for (long i = 0; i < slabs; i++)
        if (new_slab(i)) return perror("mprotect"), 1;
    return 0;
}
