// A runtime that names the memory of each object, so that a list of the areas shows what is what;
// it ends with 77 where the kernel knows no names: named_buffers [OBJECTS].
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

__attribute__((noinline)) static int name_object(char *object, long i) {
    char name[32];
    snprintf(name, sizeof name, "object %ld", i);
    return prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, object, 8192, name);
}

int main(int argc, char **argv) {
    long objects = argc > 1 ? atol(argv[1]) : 10000;
    char *heap = mmap(0, objects * 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (heap == MAP_FAILED) return perror("mmap"), 1;
    for (long i = 0; i < objects; i++)
        if (name_object(heap + i * 8192, i)) return perror("prctl"), 77;
    return 0;
}
