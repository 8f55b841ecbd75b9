// Guard pages: every second page of a map loses all access, page by page. `guards N`: N of them.
#define _GNU_SOURCE
#include "window.h"

int main(int count, char **words) {
    long pages = count > 1 ? atol(words[1]) : 1000, areas = 0;
    char *start = mmap(NULL, pages * 2 * PAGE, WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return 1;
    for (long i = 0; i < pages; i++)
        if (mprotect(start + i * 2 * PAGE, PAGE, PROT_NONE)) break;
        else areas += 2;
    printf("%ld areas\n", areas);
    return 0;
}
