// A server with a few threads, and a coroutine for each request; the stacks of both look alike:
// threads_and_coroutines [COROUTINES].
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { THREADS = 40, STACK = 64 << 10, GUARD = 4096 };
static pthread_barrier_t all;

__attribute__((noinline)) static char *new_stack(void) {
    char *low = mmap(0, GUARD + STACK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    if (low == MAP_FAILED || mprotect(low + GUARD, STACK, PROT_READ | PROT_WRITE)) return NULL;
    return low + GUARD + STACK;
}

static void *work(void *unused) {
    pthread_barrier_wait(&all);
    return unused;
}

int main(int argc, char **argv) {
    long coroutines = argc > 1 ? atol(argv[1]) : 1000;
    pthread_t threads[THREADS];
    pthread_attr_t small;
    pthread_barrier_init(&all, NULL, THREADS + 1);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], &small, work, NULL)) return perror("pthread_create"), 1;
    for (long i = 0; i < coroutines; i++)
        if (!new_stack()) return perror("stack"), 1;
    pthread_barrier_wait(&all);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    return 0;
}
