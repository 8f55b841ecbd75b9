// A cache that takes pages of 1 MiB for its items by malloc, in a thread, so that they lie in heaps
// of 64 MiB: malloc_heaps [HEAPS].
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void *fill(void *pages) {
    for (long i = 0; i < (long)pages; i++)
        if (!malloc(1 << 20)) return perror("malloc"), pages;
    return NULL;
}

int main(int argc, char **argv) {
    long heaps = argc > 1 ? atol(argv[1]) : 1000;
    pthread_t worker;
    void *failed;
    // Pages of this size are not mapped one by one.
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    // 63 of them fit into a heap.
    if (pthread_create(&worker, 0, fill, (void *)(heaps * 63))) return perror("pthread_create"), 1;
    pthread_join(worker, &failed);
    return failed != NULL;
}
