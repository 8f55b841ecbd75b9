// Four threads that protect, map, advise and allocate at the same time, beside a forked child.
#define _GNU_SOURCE
#include "window.h"
#include <pthread.h>

static void *work(void *number) {
    unsigned seed = (unsigned)(long)number;
    for (int i = 0; i < 150; i++) {
        long page = rand_r(&seed) % 240;
        switch (rand_r(&seed) % 4) {
        case 0:
            mprotect(at(page), (1 + rand_r(&seed) % 8) * PAGE, rand_r(&seed) % 2 ? WRITE : READ);
            break;
        case 1: {
            char *two = mmap(NULL, 2 * PAGE, WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            two[0] = 1;
            munmap(two, 2 * PAGE);
            break;
        }
        case 2:
            madvise(at(page), 4 * PAGE, rand_r(&seed) % 2 ? MADV_DONTDUMP : MADV_DODUMP);
            break;
        case 3:
            free(malloc(200000 + rand_r(&seed) % 300000));
        }
    }
    return NULL;
}

int main(void) {
    pthread_t threads[4];
    map(0, 256, WRITE, MAP_PRIVATE);
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], NULL, work, (void *)(i + 1));
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 50; i++) mprotect(at(2 * i), PAGE, READ);
        _exit(0);
    }
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    waitpid(child, NULL, 0);
    puts("all threads have ended");
    return 0;
}
