// A collector that works while the program runs: it makes the heap read-only, and a block that the
// program writes to writable again: incremental_gc [BLOCKS].
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdint.h>
#include <sys/mman.h>

static void write_fault(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    char *block = (char *)((uintptr_t)info->si_addr / 4096 * 4096);
    if (mprotect(block, 4096, PROT_READ | PROT_WRITE)) abort();
}

int main(int argc, char **argv) {
    long blocks = argc > 1 ? atol(argv[1]) : 10000;
    struct sigaction action = {.sa_sigaction = write_fault, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    char *heap = mmap(0, blocks * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (heap == MAP_FAILED || mprotect(heap, blocks * 4096, PROT_READ)) return perror("heap"), 1;
    for (long i = 0; i < blocks; i += 2) *(volatile char *)(heap + i * 4096) = 1;
    return 0;
}
