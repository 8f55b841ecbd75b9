// A server that loads a plugin again after each change, from a copy with another name, and never
// unloads the old ones; the copies are mapped as a loader does it: library_copies [COPIES].
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

__attribute__((noinline)) static int load(const char *name) {
    int file = open(name, O_CREAT | O_RDWR, 0700);
    if (file < 0 || ftruncate(file, 4 * 4096)) return -1;
    char *at = mmap(0, 4 * 4096, PROT_READ, MAP_PRIVATE, file, 0);
    if (at == MAP_FAILED) return -1;
    void *code = mmap(at + 4096, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, file, 4096);
    void *data = mmap(at + 3 * 4096, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, 3 * 4096);
    close(file);
    return code == MAP_FAILED || data == MAP_FAILED;
}

int main(int argc, char **argv) {
    int copies = argc > 1 ? atoi(argv[1]) : 1000;
    char name[64];
    mkdir("copies", 0700);
    for (int i = 0; i < copies; i++) {
        snprintf(name, sizeof name, "copies/plugin-%d.so", i);
        if (load(name)) return perror(name), 1;
    }
    return 0;
}
