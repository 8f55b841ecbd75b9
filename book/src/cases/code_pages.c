// A compiler at run time with one range for its code: a page that is finished becomes executable,
// and loses the right to be written: code_pages [PAGES].
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

__attribute__((noinline)) static int finish(char *page) {
    int failed = mprotect(page, 4096, PROT_READ | PROT_EXEC);
    return failed;
}

int main(int argc, char **argv) {
    long pages = argc > 1 ? atol(argv[1]) : 10000;
    char *code = mmap(0, pages * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (code == MAP_FAILED) return perror("mmap"), 1;
    // The others are filled further.
    for (long i = 1; i < pages; i += 2)
        if (finish(code + i * 4096)) return perror("mprotect"), 1;
    return 0;
}
