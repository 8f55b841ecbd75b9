// A cache server that registers each of its buffers for RDMA; the library asks that no child gets a
// copy of the pages: rdma_buffers [BUFFERS].
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { BUFFER = 64 << 10, STEP = 80 << 10 };

__attribute__((noinline)) static int register_buffer(char *buffer) {
    int failed = madvise(buffer, BUFFER, MADV_DONTFORK);
    return failed;
}

int main(int argc, char **argv) {
    long buffers = argc > 1 ? atol(argv[1]) : 10000;
    char *pool = mmap(0, buffers * STEP, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pool == MAP_FAILED) return perror("mmap"), 1;
    // What is between two buffers is the pool's own, and a child has it.
    for (long i = 0; i < buffers; i++)
        if (register_buffer(pool + i * STEP)) return perror("madvise"), 1;
    return 0;
}
