// A window's program that shares each frame with the server in a memfd of its own, and unmaps none:
// frame_pools [FRAMES].
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FRAME = 256 << 10 };

__attribute__((noinline)) static int new_frame(void) {
    int pool = memfd_create("frame", MFD_CLOEXEC);
    if (pool < 0 || ftruncate(pool, FRAME)) return -1;
    void *at = mmap(NULL, FRAME, PROT_READ | PROT_WRITE, MAP_SHARED, pool, 0);
    close(pool);
    return at == MAP_FAILED;
}

int main(int argc, char **argv) {
    long frames = argc > 1 ? atol(argv[1]) : 5000;
    for (long i = 0; i < frames; i++)
        if (new_frame()) return perror("frame"), 1;
    return 0;
}
