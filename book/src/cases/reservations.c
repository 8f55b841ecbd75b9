// A sandbox that reserves 64 MiB for each instance and makes the first page writable:
// reservations [INSTANCES].
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

int main(int argc, char **argv) {
    long instances = argc > 1 ? atol(argv[1]) : 1000;
    for (long i = 0; i < instances; i++) {
        char *at = mmap(0, 64 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED || mprotect(at, 4096, PROT_READ | PROT_WRITE)) return perror("reserve"), 1;
    }
    return 0;
}
