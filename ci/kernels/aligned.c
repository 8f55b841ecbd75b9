// Which places the kernel chooses: aligned to 2 MiB or not (huge pages; rules of 6.7, 6.12, 6.13, 6.18).
#define _GNU_SOURCE
#include "window.h"

#define HUGE (2L << 20)

static void *place(void *hint, long length, int flags, int file, long offset) {
    return mmap(hint, length, WRITE, flags, file, offset);
}
// A page at a place below which nothing that is tried here is aligned by accident.
static void odd(void) {
    long low;
    do low = (long)place(NULL, PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) & (HUGE - 1);
    while (low <= PAGE || low == HUGE / 2);
}
static const char *aligned(void *place) { return (long)place & (HUGE - 1) ? "not aligned" : "aligned"; }

int main(void) {
    int plain = MAP_PRIVATE | MAP_ANONYMOUS, zero = open("/dev/zero", O_RDWR), file = file_of(4096);
    odd();
    printf("4 MiB: %s\n", aligned(place(NULL, 2 * HUGE, plain, -1, 0)));
    odd();
    printf("2 MiB: %s\n", aligned(place(NULL, HUGE, plain, -1, 0)));
    odd();
    printf("2 MiB and a page: %s\n", aligned(place(NULL, HUGE + PAGE, plain, -1, 0)));
    odd();
    printf("7 MiB of /dev/zero: %s\n", aligned(place(NULL, 7 << 20, MAP_PRIVATE, zero, 0)));
    odd();
    printf("4 MiB, shared: %s\n", aligned(place(NULL, 2 * HUGE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)));
    odd();
    printf("4 MiB of a file: %s\n", aligned(place(NULL, 2 * HUGE, MAP_SHARED, file, 0)));
    char *first = place(NULL, HUGE, plain, -1, 0), *second = place(NULL, HUGE, plain, -1, 0);
    printf("the next 2 MiB: %ld pages below\n", (first - second - HUGE) / PAGE);
    // A hint whose room is exact, and one that is not aligned.
    map(512 - 1, 1, WRITE, MAP_SHARED);
    map(1024, 1, WRITE, MAP_SHARED);
    printf("a hint of exact room: %s\n", place(at(512), HUGE, plain, -1, 0) == at(512) ? "taken" : "not taken");
    printf("an odd hint: %s\n", place(at(1537), HUGE, plain, -1, 0) == at(1537) ? "taken" : "not taken");
    return 0;
}
