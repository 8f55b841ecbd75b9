// A pool of buffers of 2 MiB, each between two guard pages, that asks for huge pages and gets none:
// huge_pages [BUFFERS].
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static char *buffer(size_t size) {
    char *all = mmap(0, size + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED || mprotect(all + 4096, size, PROT_READ | PROT_WRITE) < 0) return NULL;
    madvise(all + 4096, size, MADV_HUGEPAGE);
    return all + 4096;
}

int main(int argc, char **argv) {
    long buffers = argc > 1 ? atol(argv[1]) : 500;
    for (long i = 0; i < buffers; i++)
        if (!buffer(2 << 20)) return perror("mmap"), 1;
    return 0;
}
