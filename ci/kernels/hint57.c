// With page tables of five levels a hint above 2^47 is granted, and so is a fixed place.
#define _GNU_SOURCE
#include "window.h"

static const char *fixed(void *place, long length) {
    return mmap(place, length, WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED ? strerrorname_np(errno) : "ok";
}

int main(void) {
    char *high = (char *)(1L << 50), *edge = (char *)((1L << 47) - PAGE);
    void *got = mmap(high, PAGE, WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    printf("a hint of 2^50: %s\n", got == high ? "taken" : "not taken");
    printf("fixed at 2^50 + 2 MiB: %s\n", fixed(high + (2 << 20), PAGE));
    printf("fixed over 2^47: %s\n", fixed(edge, 2 * PAGE));
    printf("munmap over 2^47: %s\n", munmap(edge, 2 * PAGE) ? strerrorname_np(errno) : "ok");
    printf("no hint: %s 2^47\n", (long)mmap(NULL, PAGE, WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) < 1L << 47 ? "below" : "above");
    return 0;
}
