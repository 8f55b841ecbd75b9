// A search engine that keeps the files of merged segments mapped after it has removed them:
// deleted_files [FILES].
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv) {
    long files = argc > 1 ? atol(argv[1]) : 1000;
    char folder[] = "/tmp/index-XXXXXX", name[64];
    if (!mkdtemp(folder)) return perror("mkdtemp"), 1;
    for (long i = 0; i < files; i++) {
        snprintf(name, sizeof name, "%s/_%lx.cfs", folder, i);
        int file = open(name, O_RDWR | O_CREAT, 0600);
        if (file < 0 || ftruncate(file, 8192)) return perror(name), 1;
        if (mmap(0, 8192, PROT_READ, MAP_SHARED, file, 0) == MAP_FAILED) return perror("mmap"), 1;
        close(file);
        unlink(name);
    }
    rmdir(folder);
    return 0;
}
