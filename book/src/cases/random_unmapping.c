// An allocator that takes memory in chunks and gives chunks back in any order:
// random_unmapping [CHUNKS].
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { CHUNK = 64 << 10 };

__attribute__((noinline)) static char *take(void) {
    return mmap(0, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

__attribute__((noinline)) static int give(char *chunk) { return munmap(chunk, CHUNK); }

int main(int argc, char **argv) {
    long chunks = argc > 1 ? atol(argv[1]) : 10000;
    char **all = calloc(chunks, sizeof *all);
    for (long i = 0; i < chunks; i++) {
        if ((all[i] = take()) == MAP_FAILED) return perror("mmap"), 1;
    }
    srand(1);
    for (long i = 0; i < chunks; i++) {
        if (rand() % 2 && give(all[i])) return perror("munmap"), 1;
    }
    free(all);
    return 0;
}
