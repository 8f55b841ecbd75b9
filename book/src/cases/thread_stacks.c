// A server with a thread for each connection: thread_stacks [THREADS].
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_barrier_t all;

static void *serve(void *unused) {
    pthread_barrier_wait(&all);
    return unused;
}

int main(int argc, char **argv) {
    long threads = argc > 1 ? atol(argv[1]) : 500;
    pthread_t *started = calloc(threads, sizeof *started);
    pthread_barrier_init(&all, 0, threads + 1);
    for (long i = 0; i < threads; i++) {
        if (pthread_create(&started[i], 0, serve, 0)) return perror("pthread_create"), 1;
    }
    pthread_barrier_wait(&all);
    for (long i = 0; i < threads; i++) pthread_join(started[i], 0);
    return 0;
}
