/* Code without a file, as a JIT compiler makes it: a function that has a frame pointer and maps a page.
   What perf is told of it is a file, or with an argument a FIFO, which nobody will write to. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef void *map_function(void *, size_t, int, int, int, long);

static const unsigned char code[] = {
    0x55, 0x48, 0x89, 0xe5,             /* push rbp; mov rbp, rsp */
    0x49, 0x89, 0xca,                   /* mov r10, rcx */
    0xb8, 9, 0, 0, 0, 0x0f, 0x05,       /* mov eax, SYS_mmap; syscall */
    0x5d, 0xc3,                         /* pop rbp; ret */
};

__attribute__((noinline)) int outer(map_function *map) {
    return map(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
}

int main(int argc, char **argv) {
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, sizeof code);
    char name[64];
    sprintf(name, "/tmp/perf-%d.map", getpid());
    if (argc > 1) {
        mkfifo(name, 0600);
    } else {
        FILE *map = fopen(name, "w");
        fprintf(map, "%lx %lx compiled here\n", (unsigned long)page, (unsigned long)sizeof code);
        fclose(map);
    }
    puts(name);
    return outer(page);
}
