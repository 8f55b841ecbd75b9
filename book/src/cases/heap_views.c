// A collector that maps each piece of its heap, a memfd, at three places of equal order:
// heap_views [PIECES].
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PIECE = 64 << 10 };

__attribute__((noinline)) static int map_piece(char *view, long i, int heap, long offset) {
    void *at = mmap(view + i * PIECE, PIECE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, heap, offset);
    return at == MAP_FAILED;
}

int main(int argc, char **argv) {
    long pieces = argc > 1 ? atol(argv[1]) : 5000;
    int heap = memfd_create("java_heap", 0);
    if (heap < 0 || ftruncate(heap, 2 * pieces * PIECE)) return perror("memfd"), 1;
    char *views = mmap(0, 3 * pieces * PIECE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (views == MAP_FAILED) return perror("mmap"), 1;
    // Pieces that were freed and taken again have any order in the memfd: here every other one.
    for (long i = 0; i < pieces; i++)
        for (long view = 0; view < 3; view++)
            if (map_piece(views + view * pieces * PIECE, i, heap, 2 * i * PIECE)) return perror("mmap"), 1;
    return 0;
}
