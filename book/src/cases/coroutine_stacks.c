// A server with a coroutine for each request, each with a stack and a guard below it:
// coroutine_stacks [COROUTINES].
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { STACK = 64 << 10, GUARD = 4096 };

__attribute__((noinline)) static char *new_stack(void) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK;
    char *low = mmap(0, GUARD + STACK, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (low == MAP_FAILED || mprotect(low, GUARD, PROT_NONE)) return NULL;
    return low + GUARD + STACK;
}

int main(int argc, char **argv) {
    long coroutines = argc > 1 ? atol(argv[1]) : 5000;
    for (long i = 0; i < coroutines; i++)
        if (!new_stack()) return perror("stack"), 1;
    return 0;
}
