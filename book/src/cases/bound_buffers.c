// A program that binds the buffers of its threads to a memory node; it ends with 77 where it may
// not, or where the kernel knows no nodes: bound_buffers [BUFFERS].
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BUFFER = 64 << 10, BIND = 2 };

__attribute__((noinline)) static long bind_buffer(char *buffer) {
    unsigned long first_node = 1;
    long failed = syscall(SYS_mbind, buffer, BUFFER, BIND, &first_node, 64, 0);
    return failed;
}

int main(int argc, char **argv) {
    long buffers = argc > 1 ? atol(argv[1]) : 10000;
    char *pool = mmap(0, buffers * BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pool == MAP_FAILED) return perror("mmap"), 1;
    for (long i = 1; i < buffers; i += 2)
        if (bind_buffer(pool + i * BUFFER)) return perror("mbind"), 77;
    return 0;
}
