// A server that keeps its large buffers out of core dumps, and never takes the advice back when a
// buffer is used for something else: dump_advice [BUFFERS].
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { BUFFER = 32 << 10 };

__attribute__((noinline)) static int hide(char *buffer) {
    int failed = madvise(buffer, BUFFER, MADV_DONTDUMP);
    return failed;
}

int main(int argc, char **argv) {
    long buffers = argc > 1 ? atol(argv[1]) : 10000;
    char *heap = mmap(0, buffers * BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (heap == MAP_FAILED) return perror("mmap"), 1;
    for (long i = 1; i < buffers; i += 2)
        if (hide(heap + i * BUFFER)) return perror("madvise"), 1;
    return 0;
}
