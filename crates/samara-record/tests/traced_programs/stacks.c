/* Maps a page 200 times, each time from other functions, in the main thread and in another one. */
#include "leaf.c"
#include <alloca.h>
#include <pthread.h>
#include <stdarg.h>

static unsigned long long state = 12345;
static unsigned draw(void) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return state >> 33;
}

static NOINLINE void *deeper(int n);

static NOINLINE void *with_a_buffer(int n) {
    char buffer[300];
    memset(buffer, n, sizeof buffer);
    __asm__ volatile("" ::"r"(buffer) : "memory");
    return (char *)deeper(n - 1) + buffer[7];
}

static NOINLINE void *with_alloca(int n) {
    char *buffer = alloca(draw() % 5000 + 1);
    buffer[0] = n;
    __asm__ volatile("" ::"r"(buffer) : "memory");
    return (char *)deeper(n - 1) + buffer[0];
}

static NOINLINE void *with_aligned(int n) {
    char buffer[64] __attribute__((aligned(128)));
    memset(buffer, n, sizeof buffer);
    __asm__ volatile("" ::"r"(buffer) : "memory");
    return (char *)deeper(n - 1) + buffer[3];
}

static NOINLINE void *with_many(int n, ...) {
    va_list list;
    va_start(list, n);
    double sum = va_arg(list, double);
    va_end(list);
    return (char *)deeper(n - 1) + (int)sum;
}

static NOINLINE void *through_a_pointer(int n, void *(*volatile call)(int)) {
    return (char *)call(n - 1) + 1;
}

static NOINLINE void *deeper(int n) {
    if (n <= 0) {
        return (char *)leaf("deeper", n) + 1;
    }
    switch (draw() % 5) {
    case 0: return (char *)with_a_buffer(n) + 1;
    case 1: return (char *)with_alloca(n) + 1;
    case 2: return (char *)with_aligned(n) + 1;
    case 3: return (char *)with_many(n, 1.5, 2, 3, 4, 5, 6, 7, 8, 9) + 1;
    default: return (char *)through_a_pointer(n, deeper) + 1;
    }
}

static void *run(void *unused) {
    for (int i = 0; i < 100; i++) {
        deeper(i % 24);
    }
    return unused;
}

int main(void) {
    void *frames[2];
    backtrace(frames, 2); /* loads what it needs */
    run(NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, run, NULL);
    pthread_join(thread, NULL);
    return 0;
}
