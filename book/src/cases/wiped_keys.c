// A library that wants zeros in place of its keys in a child, and says so of the page of each key:
// wiped_keys [KEYS].
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

__attribute__((noinline)) static int wipe_in_children(char *page) {
    int failed = madvise(page, 4096, MADV_WIPEONFORK);
    return failed;
}

int main(int argc, char **argv) {
    long keys = argc > 1 ? atol(argv[1]) : 10000;
    char *heap = mmap(0, 2 * keys * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (heap == MAP_FAILED) return perror("mmap"), 1;
    for (long i = 0; i < keys; i++)
        if (wipe_in_children(heap + 2 * i * 4096)) return perror("madvise"), 1;
    return 0;
}
