// An allocator with chunks of 2 MiB that unmaps runs of free pages: unmapped_runs [CHUNKS].
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { CHUNK = 2 << 20, RUN = 128 << 10 };

__attribute__((noinline)) static char *new_chunk(void) {
    char *at = mmap(0, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

__attribute__((noinline)) static int purge(char *chunk) {
    for (long at = RUN; at < CHUNK; at += 2 * RUN)
        if (munmap(chunk + at, RUN / 2)) return -1;
    return 0;
}

int main(int argc, char **argv) {
    long chunks = argc > 1 ? atol(argv[1]) : 1000;
    for (long i = 0; i < chunks; i++) {
        char *chunk = new_chunk();
        if (!chunk || purge(chunk)) return perror("chunk"), 1;
    }
    return 0;
}
