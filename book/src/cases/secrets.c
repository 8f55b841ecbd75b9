// A library that keeps each secret in a page of its own, locked, between guards, behind a page that
// says how long it is: secrets [SECRETS].
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

__attribute__((noinline)) static char *secret(void) {
    char *pages = mmap(0, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return NULL;
    if (mprotect(pages + 4096, 4096, PROT_NONE) || mprotect(pages + 3 * 4096, 4096, PROT_NONE)) return NULL;
    // It goes on where no more may be locked.
    mlock(pages + 2 * 4096, 4096);
    *(size_t *)pages = 32;
    if (mprotect(pages, 4096, PROT_READ)) return NULL;
    return pages + 3 * 4096 - 32;
}

int main(int argc, char **argv) {
    long secrets = argc > 1 ? atol(argv[1]) : 5000;
    for (long i = 0; i < secrets; i++)
        if (!secret()) return perror("secret"), 1;
    return 0;
}
