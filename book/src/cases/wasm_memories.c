// A JavaScript engine that reserves 10 GiB for each memory of a WebAssembly program, so that no
// index leads out of it, and makes the first pages writable: wasm_memories [MEMORIES].
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

__attribute__((noinline)) static char *new_memory(void) {
    char *at = mmap(0, 10UL << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) return NULL;
    // The program's memory begins behind a guard of 2 GiB.
    if (mprotect(at + (2UL << 30), 64 << 10, PROT_READ | PROT_WRITE)) return NULL;
    return at + (2UL << 30);
}

int main(int argc, char **argv) {
    long memories = argc > 1 ? atol(argv[1]) : 1000;
    for (long i = 0; i < memories; i++)
        if (!new_memory()) return perror("memory"), 1;
    return 0;
}
