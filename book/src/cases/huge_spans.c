// An allocator that wants huge pages for full spans and none for the others; it ends with 77 where
// the kernel has none: huge_spans [SPANS].
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { SPAN = 2 << 20 };

int main(int argc, char **argv) {
    long spans = argc > 1 ? atol(argv[1]) : 10000;
    char *all = mmap(0, (spans + 1) * SPAN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return perror("mmap"), 1;
    char *heap = (char *)(((uintptr_t)all + SPAN - 1) / SPAN * SPAN);
    for (long i = 0; i < spans; i++)
        if (madvise(heap + i * SPAN, SPAN, i % 2 ? MADV_NOHUGEPAGE : MADV_HUGEPAGE)) return perror("madvise"), 77;
    return 0;
}
