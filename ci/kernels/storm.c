// Random memory calls in two windows: `storm SEED CALLS MODE`. `base`: map, unmap, protect, remap,
// write and brk; `all`: all calls, and forks; `grow`: areas that grow down too. Prints a checksum of
// the results, which does not depend on where the kernel puts things.
#define _GNU_SOURCE
#include "window.h"
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>

#define SIZE 256L    // pages of a window
#define OTHER 2048L  // the second window's first page
#define LEAVE 4      // MREMAP_DONTUNMAP

static uint64_t state, sum;
static int named, unnamed, grows;
static sigjmp_buf caught;

// A random number below a bound.
static long below(long bound) {
    state += 0x9e3779b97f4a7c15;
    uint64_t x = state;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return (long)((x ^ (x >> 31)) % (uint64_t)bound);
}

static void fault(int number) {
    (void)number;
    siglongjmp(caught, 1);
}

static long make_map(long page, long pages, int prot) {
    int flags = MAP_FIXED | (below(4) ? MAP_PRIVATE : MAP_SHARED), anonymous = below(3) != 0;
    if (!below(8)) flags |= MAP_NORESERVE;
    if (grows && !below(12)) flags |= MAP_GROWSDOWN;
    if (!below(30)) flags |= MAP_LOCKED;
    if (!below(30)) flags |= MAP_POPULATE;
    if (!below(20)) flags |= MAP_STACK;
    if (anonymous) return (long)mmap(at(page), pages * PAGE, prot, flags | MAP_ANONYMOUS, -1, 0);
    return (long)mmap(at(page), pages * PAGE, prot, flags, below(2) ? named : unnamed, below(SIZE - pages + 1) * PAGE);
}

static long remap(long page, long pages) {
    long size = 1 + below(8), target = below(SIZE - 40) + (below(2) ? OTHER : 0), got;
    switch (below(5)) {
    case 0:
        return (long)mremap(at(page), pages * PAGE, size * PAGE, 0);
    case 1:
        return (long)move(page, pages, size, MREMAP_MAYMOVE | MREMAP_FIXED, target);
    case 2:
        return (long)move(page, pages, pages, MREMAP_MAYMOVE | MREMAP_FIXED | LEAVE, target);
    case 3:
        // The kernel chooses a place: it does not stay, and does not count.
        got = (long)mremap(at(page), pages * PAGE - below(2), size * PAGE, MREMAP_MAYMOVE);
        if (got == -1 || (char *)got == at(page)) return got;
        munmap((void *)got, size * PAGE);
        return 1;
    default:
        return (long)mremap(at(page), pages * PAGE, pages * PAGE - below(PAGE), MREMAP_MAYMOVE | MREMAP_FIXED | LEAVE, at(target));
    }
}

static long advise(long page, long pages) {
    static const int all[] = {0, 1, 2, 3, 4, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 102, 103, 77};
    return madvise(at(page), pages * PAGE, all[below(sizeof all / sizeof *all)]);
}

static long rare(long page, long pages) {
    unsigned long node = 1;
    switch (below(3)) {
    case 0:
        return below(2) ? syscall(SYS_mbind, at(page), pages * PAGE, 2, &node, 64L, 0) : syscall(SYS_mbind, at(page), pages * PAGE, 0, NULL, 0L, 0);
    case 1:
        return prctl(0x53564d41, 0, at(page), pages * PAGE, below(2) ? "one" : "two");
    default:
        return msync(at(page), pages * PAGE, MS_ASYNC);
    }
}

static long lock(long page, long pages) {
    switch (below(3)) {
    case 0:
        return mlock(at(page), pages * PAGE);
    case 1:
        return syscall(SYS_mlock2, at(page), pages * PAGE, below(2));
    default:
        return munlock(at(page), pages * PAGE);
    }
}

// A place that the kernel chooses, small or huge, for a while.
static long chosen(int prot) {
    long length = below(10) ? (1 + below(8)) * PAGE : (2 << 20) + below(3) * PAGE;
    char *got = mmap(below(2) ? NULL : at(OTHER + below(SIZE)), length, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED) return -1;
    if (below(3)) munmap(got, length);
    return 1;
}

static long write_to(long page) {
    if (sigsetjmp(caught, 1)) return 2;
    *(volatile char *)at(page) = 1;
    return 1;
}

int main(int count, char **words) {
    static const int prots[] = {PROT_NONE, READ, WRITE, WRITE, WRITE, READ | PROT_EXEC, READ, WRITE | PROT_EXEC};
    static char mode[8];
    state = count > 1 ? strtoul(words[1], NULL, 0) : 1;
    long calls = count > 2 ? atol(words[2]) : 2000;
    snprintf(mode, sizeof mode, "%s", count > 3 ? words[3] : "all");
    grows = !strcmp(mode, "grow");
    long kinds = !strcmp(mode, "base") ? 6 : 10;
    named = file_of(SIZE);
    unnamed = (int)syscall(SYS_memfd_create, "storm", 0);
    if (unnamed < 0 || ftruncate(unnamed, SIZE * PAGE)) return 2;
    signal(SIGSEGV, fault);
    signal(SIGBUS, fault);
    char *heap = sbrk(0);
    heap += -(long)heap & (PAGE - 1);
    map(0, SIZE, PROT_NONE, NO_RESERVE);
    long errors = 0;
    for (long i = 0; i < calls; i++) {
        long page = below(SIZE), pages = 1 + below(below(4) ? 8 : 40), got = 0;
        if (page + pages > SIZE) pages = SIZE - page;
        int prot = prots[below(8)];
        switch (below(kinds)) {
        case 0: got = make_map(page, pages, prot); break;
        case 1: got = munmap(at(page), pages * PAGE); break;
        case 2: got = mprotect(at(page), pages * PAGE, prot); break;
        case 3: got = remap(page, pages); break;
        case 4: got = write_to(page); break;
        case 5: got = syscall(SYS_brk, heap + below(64) * PAGE) - (long)heap; break;
        case 6: got = advise(page, pages); break;
        case 7: got = lock(page, pages); break;
        case 8: got = chosen(prot); break;
        case 9: got = rare(page, pages); break;
        }
        if (got == -1) {
            errors++;
            got = -errno;
        }
        sum = sum * 31 + (uint64_t)got;
        if (kinds > 6 && i % 500 == 499) {
            pid_t child = fork();
            if (child == 0) {
                munmap(at(0), SIZE / 2 * PAGE);
                mprotect(at(SIZE / 2), SIZE / 4 * PAGE, WRITE);
                _exit(0);
            }
            waitpid(child, NULL, 0);
        }
    }
    printf("%ld calls, %ld errors, sum %016lx\n", calls, errors, (unsigned long)sum);
    return 0;
}
