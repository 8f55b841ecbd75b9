// Calls at the limit of areas, with room for none to six more: which are refused, and what a refused
// one leaves. vm.max_map_count should be a few hundred.
#define _GNU_SOURCE
#include "window.h"


static long limit;

// The number of areas of this process; [vsyscall] is none.
static long count(void) {
    long lines = 0;
    char *text = proc_file("/proc/self/maps");
    for (char *c = text; *c; c++) lines += *c == '\n';
    return lines - (strstr(text, "[vsyscall]") != NULL);
}

// Leaves room for this number of areas.
static void fill(long room) {
    map(0, 2000, WRITE, MAP_PRIVATE);
    map(3000, 8, WRITE, MAP_SHARED);
    map(3500, 4, WRITE, MAP_SHARED);
    long page = 2;
    for (long left = limit - room - count(); left >= 2; left -= 2, page += 4) mprotect(at(page), PAGE, READ);
    if (count() < limit - room) mprotect(at(1900), 100 * PAGE, READ);
}

// Makes one call in a child, so that the next one finds the same areas.
#define ONE(call) \
    do { \
        fflush(stdout); \
        if (fork() == 0) { \
            long before = count(); \
            errno = 0; \
            result(#call, (long)(call)); \
            printf(", %+ld areas\n", count() - before); \
            fflush(stdout); \
            _exit(0); \
        } \
        wait(NULL); \
    } while (0)

int main(void) {
    limit = atol(proc_file("/proc/sys/vm/max_map_count"));
    for (long room = 6; room >= 0; room--) {
        printf("room for %ld\n", room);
        fill(room);
        ONE(mremap(at(3000), 8 * PAGE, 8 * PAGE, 0));
        ONE(mremap(at(3000), 8 * PAGE, 7 * PAGE, 0));
        ONE(mremap(at(3000), 8 * PAGE, 9 * PAGE, 0));
        ONE(move(3000, 8, 8, MOVE, 3100));
        ONE(move(1800, 2, 2, MOVE, 3501));
        ONE(madvise(at(1800), PAGE, MADV_DONTDUMP));
        ONE(mprotect(at(1800), PAGE, READ));
        ONE(mlock(at(1800), PAGE));
        ONE(munmap(at(1800), PAGE));
        ONE(map(1800, 1, READ, MAP_SHARED));
        ONE(map(3200, 1, WRITE, MAP_SHARED));
        munmap(WINDOW, PAGES * PAGE);
    }
    return 0;
}
