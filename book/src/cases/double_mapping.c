// A JIT that writes code through one mapping of a memfd and runs it through another:
// double_mapping [FUNCTIONS].
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv) {
    long functions = argc > 1 ? atol(argv[1]) : 2000;
    int code = memfd_create("jit-code", 0);
    if (code < 0 || ftruncate(code, functions * 4096)) return perror("memfd"), 1;
    // The last page first, so that no mapping continues the one before it.
    for (long i = functions - 1; i >= 0; i--) {
        void *write = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, code, i * 4096);
        void *run = mmap(0, 4096, PROT_READ | PROT_EXEC, MAP_SHARED, code, i * 4096);
        if (write == MAP_FAILED || run == MAP_FAILED) return perror("mmap"), 1;
    }
    return 0;
}
