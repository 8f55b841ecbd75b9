// A program that draws each picture into a System V segment, which it attaches and never detaches:
// attached_segments [PICTURES].
#include <stdio.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/shm.h>

__attribute__((noinline)) static int new_picture(void) {
    int segment = shmget(IPC_PRIVATE, 64 << 10, IPC_CREAT | 0600);
    if (segment < 0) return -1;
    void *at = shmat(segment, NULL, 0);
    // It goes when no process has it attached any more.
    shmctl(segment, IPC_RMID, NULL);
    return at == (void *)-1;
}

int main(int argc, char **argv) {
    long pictures = argc > 1 ? atol(argv[1]) : 2000;
    for (long i = 0; i < pictures; i++)
        if (new_picture()) return perror("picture"), 1;
    return 0;
}
