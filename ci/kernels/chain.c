// A chain of programs: `chain N` maps something, then becomes or starts `chain N-1`, by execve, vfork
// and posix_spawn in turn.
#define _GNU_SOURCE
#include "window.h"
#include <spawn.h>

extern char **environ;

int main(int count, char **words) {
    long left = count > 1 ? atol(words[1]) : 10;
    for (long i = 0; i < left; i++) mmap(NULL, (i + 1) * PAGE, i % 2 ? WRITE : READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (left <= 0) {
        puts("the end of the chain");
        return 0;
    }
    char next[24];
    snprintf(next, sizeof next, "%ld", left - 1);
    char *list[] = {words[0], next, NULL};
    pid_t child = -1;
    int status = 1;
    switch (left % 3) {
    case 0:
        execve("/proc/self/exe", list, environ);
        return 2;
    case 1:
        child = vfork();
        if (child == 0) {
            execve("/proc/self/exe", list, environ);
            _exit(2);
        }
        break;
    case 2:
        if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, list, environ)) return 2;
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 2;
}
