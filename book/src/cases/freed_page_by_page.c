// An allocator that gives single pages back, so that holes of a page stay between those in use:
// freed_page_by_page [PAGES].
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

int main(int argc, char **argv) {
    long pages = argc > 1 ? atol(argv[1]) : 10000;
    char *heap = mmap(0, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (heap == MAP_FAILED) return perror("mmap"), 1;
    for (long i = 1; i < pages; i += 2) {
        if (munmap(heap + i * 4096, 4096)) return perror("munmap"), 1;
    }
    return 0;
}
