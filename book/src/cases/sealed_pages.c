// A program that seals the pages of its tables once they are filled, so that nothing can change
// them; it ends with 77 where the kernel seals nothing: sealed_pages [PAGES].
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_mseal
#define SYS_mseal 462
#endif

__attribute__((noinline)) static long seal(char *page) {
    long failed = syscall(SYS_mseal, page, 4096, 0);
    return failed;
}

int main(int argc, char **argv) {
    long pages = argc > 1 ? atol(argv[1]) : 10000;
    char *heap = mmap(0, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (heap == MAP_FAILED) return perror("mmap"), 1;
    for (long i = 1; i < pages; i += 2)
        if (seal(heap + i * 4096)) return perror("mseal"), 77;
    return 0;
}
