// A collector that moves the pages of live objects together instead of copying them, in the order in
// which it finds them: moved_pages [PAGES].
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

__attribute__((noinline)) static int move_page(char *from, char *to) {
    void *at = mremap(from, 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, to);
    return at == MAP_FAILED;
}

int main(int argc, char **argv) {
    long pages = argc > 1 ? atol(argv[1]) : 10000;
    char *from = mmap(0, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *to = mmap(0, pages * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (from == MAP_FAILED || to == MAP_FAILED) return perror("mmap"), 1;
    memset(from, 1, pages * 4096);
    for (long i = 0; i < pages; i++)
        if (move_page(from + (pages - 1 - i) * 4096, to + i * 4096)) return perror("mremap"), 1;
    return 0;
}
