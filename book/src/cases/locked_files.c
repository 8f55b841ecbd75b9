// A tool that keeps files in memory: it maps each one and locks it; it ends with 77 where it may not
// lock so many: locked_files [FILES].
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

__attribute__((noinline)) static int lock_file(const char *name) {
    int file = open(name, O_CREAT | O_RDWR, 0600);
    if (file < 0 || ftruncate(file, 4096)) return -1;
    void *at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    return at == MAP_FAILED || mlock(at, 4096);
}

int main(int argc, char **argv) {
    int files = argc > 1 ? atoi(argv[1]) : 1000;
    char name[64];
    mkdir("files", 0700);
    for (int i = 0; i < files; i++) {
        snprintf(name, sizeof name, "files/%05d", i);
        if (lock_file(name)) return perror(name), 77;
    }
    return 0;
}
