// A program that maps its configuration again at each request and never unmaps it:
// leaked_mappings [REQUESTS].
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv) {
    long requests = argc > 1 ? atol(argv[1]) : 3000;
    for (long i = 0; i < requests; i++) {
        int file = open("/etc/passwd", O_RDONLY);
        if (mmap(0, 4096, PROT_READ, MAP_PRIVATE, file, 0) == MAP_FAILED) return perror("mmap"), 1;
        close(file);
    }
    return 0;
}
