// A viewer that maps a log in pieces from its end, opens it anew for each piece, and unmaps none:
// log_from_its_end [PIECES].
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PIECE = 64 << 10 };

__attribute__((noinline)) static int map_piece(long i) {
    int file = open("log", O_RDONLY);
    if (file < 0) return -1;
    void *at = mmap(NULL, PIECE, PROT_READ, MAP_PRIVATE, file, i * PIECE);
    close(file);
    return at == MAP_FAILED;
}

int main(int argc, char **argv) {
    long pieces = argc > 1 ? atol(argv[1]) : 5000;
    int file = open("log", O_CREAT | O_RDWR, 0600);
    if (file < 0 || ftruncate(file, pieces * PIECE)) return perror("log"), 1;
    close(file);
    for (long i = pieces - 1; i >= 0; i--)
        if (map_piece(i)) return perror("piece"), 1;
    return 0;
}
