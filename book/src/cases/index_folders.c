// A search service with many indexes, each a folder of segments that are mapped:
// index_folders [SEGMENTS].
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

__attribute__((noinline)) static int open_segment(const char *name) {
    int file = open(name, O_CREAT | O_RDWR, 0600);
    if (file < 0 || ftruncate(file, 16384)) return -1;
    void *at = mmap(NULL, 16384, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    return at == MAP_FAILED;
}

int main(int argc, char **argv) {
    int segments = argc > 1 ? atoi(argv[1]) : 5000;
    char name[64];
    mkdir("indexes", 0700);
    for (int i = 0; i < segments; i++) {
        snprintf(name, sizeof name, "indexes/%02d", i % 20);
        mkdir(name, 0700);
        snprintf(name, sizeof name, "indexes/%02d/%06x.zap", i % 20, i / 20);
        if (open_segment(name)) return perror(name), 1;
    }
    return 0;
}
