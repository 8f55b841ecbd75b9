// A sandbox whose programs' memory is one memfd: pages that lie side by side in a program come from
// any place of it: memfd_pieces [PAGES].
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv) {
    long pages = argc > 1 ? atol(argv[1]) : 10000;
    int memory = memfd_create("memory", 0);
    if (memory < 0 || ftruncate(memory, pages * 4096)) return perror("memfd"), 1;
    char *program = mmap(0, pages * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (program == MAP_FAILED) return perror("mmap"), 1;
    for (long i = 0; i < pages; i++) {
        long offset = (pages - 1 - i) * 4096;
        void *at = mmap(program + i * 4096, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, offset);
        if (at == MAP_FAILED) return perror("mmap"), 1;
    }
    return 0;
}
