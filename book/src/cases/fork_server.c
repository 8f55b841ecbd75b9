// A server that forks a worker for each request; the worker makes the first page of every arena
// read-only, and has many more areas than the server: fork_server [ARENAS].
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARENA = 64 << 10 };

__attribute__((noinline)) static void work(char *heap, long arenas) {
    for (long i = 0; i < arenas; i++)
        if (mprotect(heap + i * ARENA, 4096, PROT_READ)) _exit(1);
    _exit(0);
}

int main(int argc, char **argv) {
    long arenas = argc > 1 ? atol(argv[1]) : 5000;
    char *heap = mmap(0, arenas * ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (heap == MAP_FAILED) return perror("mmap"), 1;
    for (int request = 0, status; request < 4; request++) {
        pid_t worker = fork();
        if (worker == 0) work(heap, arenas);
        if (worker < 0 || wait(&status) < 0 || status) return perror("worker"), 1;
    }
    return 0;
}
