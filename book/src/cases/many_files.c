// An index that maps each of its files by itself: many_files [FILES].
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int files = argc > 1 ? atoi(argv[1]) : 5000;
    char folder[] = "/tmp/index-XXXXXX", name[64], **maps = calloc(files, sizeof *maps);
    if (!mkdtemp(folder)) return perror("mkdtemp"), 1;
    for (int i = 0; i < files; i++) {
        snprintf(name, sizeof name, "%s/%05d", folder, i);
        int file = open(name, O_CREAT | O_RDWR, 0600);
        if (file < 0 || ftruncate(file, 8192)) return perror(name), 1;
        maps[i] = mmap(NULL, 8192, PROT_READ, MAP_SHARED, file, 0);
        if (maps[i] == MAP_FAILED) return perror("mmap"), 1;
        close(file);
    }
    for (int i = 0; i < files; i++) {
        munmap(maps[i], 8192);
        snprintf(name, sizeof name, "%s/%05d", folder, i);
        unlink(name);
    }
    return rmdir(folder);
}
