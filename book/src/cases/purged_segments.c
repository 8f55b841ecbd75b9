// An allocator that reserves a segment, makes its slices usable one by one, and later takes the
// access away from those that are free: purged_segments [SLICES [MICROSECONDS FOR EACH]].
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SLICE = 64 << 10 };

__attribute__((noinline)) static int commit(char *slice) {
    int failed = mprotect(slice, SLICE, PROT_READ | PROT_WRITE);
    return failed;
}

__attribute__((noinline)) static int purge(char *slice) {
    int failed = madvise(slice, SLICE, MADV_DONTNEED) || mprotect(slice, SLICE, PROT_NONE);
    return failed;
}

int main(int argc, char **argv) {
    long slices = argc > 1 ? atol(argv[1]) : 10000, pause = argc > 2 ? atol(argv[2]) : 0;
    char *segment = mmap(0, slices * SLICE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (segment == MAP_FAILED) return perror("mmap"), 1;
    for (long i = 0; i < slices; i++)
        if (commit(segment + i * SLICE)) return perror("commit"), 1;
    for (long i = 1; i < slices - 1; i += 2) {
        if (purge(segment + i * SLICE)) return perror("purge"), 1;
        if (pause) usleep(pause);
    }
    return 0;
}
