// A tool that runs programs from a code cache: a range without access, of which each unit becomes
// usable page by page, with a guard at its end: code_units [UNITS].
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { PAGES = 15 };

__attribute__((noinline)) static int commit(char *page) {
    int failed = mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
    return failed;
}

int main(int argc, char **argv) {
    long units = argc > 1 ? atol(argv[1]) : 5000;
    char *cache = mmap(0, units * (PAGES + 1) * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (cache == MAP_FAILED) return perror("mmap"), 1;
    for (long i = 0; i < units; i++)
        for (long page = 0; page < PAGES; page++)
            if (commit(cache + (i * (PAGES + 1) + page) * 4096)) return perror("mprotect"), 1;
    return 0;
}
