// A window of pages at a fixed place, for the programs of this folder. They print pages as numbers
// from the window's start, so that what they print does not depend on where anything else is.
#ifndef WINDOW_H
#define WINDOW_H
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096L
#define PAGES 4096L
#define WINDOW ((char *)0x200000000000)
#define NO_RESERVE (MAP_PRIVATE | MAP_NORESERVE)
#define READ PROT_READ
#define WRITE (PROT_READ | PROT_WRITE)
#define MOVE (MREMAP_MAYMOVE | MREMAP_FIXED)

// The address of a page of the window.
static inline char *at(long page) { return WINDOW + page * PAGE; }

// Maps anonymous pages of the window.
static inline char *map(long page, long pages, int prot, int flags) {
    return mmap(at(page), pages * PAGE, prot, flags | MAP_FIXED | MAP_ANONYMOUS, -1, 0);
}

// Maps pages of a file in the window.
static inline char *map_file(long page, long pages, int prot, int flags, int file, long offset) {
    return mmap(at(page), pages * PAGE, prot, flags | MAP_FIXED, file, offset * PAGE);
}

// Moves or resizes pages of the window, within it.
static inline void *move(long from, long old, long new, int flags, long to) {
    return mremap(at(from), old * PAGE, new * PAGE, flags, at(to));
}

// A file of some pages, without a name.
static inline int file_of(long pages) {
    char name[] = "/tmp/window-XXXXXX";
    int file = mkstemp(name);
    if (file < 0 || unlink(name) || ftruncate(file, pages * PAGE)) {
        perror("a file in /tmp");
        exit(2);
    }
    return file;
}

// Reads a file of /proc whole.
static inline char *proc_file(const char *name) {
    static char text[1 << 20];
    long length = 0, got;
    int file = open(name, O_RDONLY);
    while ((got = read(file, text + length, sizeof text - 1 - length)) > 0) length += got;
    text[length] = 0;
    close(file);
    return text;
}

// Prints the window's areas: pages, permissions and, from smaps, the flags that say how pages are
// locked, counted, made huge, guarded, sealed, merged and dumped.
static inline void areas(void) {
    static const char *flags[] = {" lo", " lf", " ac", " nr", " nh", " hg", " gd", " gu", " mg", " sl", " dd", " dc", " wf"};
    int inside = 0, close_it = 0;
    unsigned long start, end;
    char perms[8];
    for (char *line = strtok(proc_file("/proc/self/smaps"), "\n"); line; line = strtok(NULL, "\n")) {
        if (sscanf(line, "%lx-%lx %5s", &start, &end, perms) == 3) {
            inside = (char *)start >= WINDOW && (char *)start < at(PAGES);
            if (inside) printf(" [%ld-%ld %s", ((char *)start - WINDOW) / PAGE, ((char *)end - WINDOW) / PAGE, perms);
            close_it = inside;
        } else if (inside && !strncmp(line, "VmFlags:", 8)) {
            for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
                if (strstr(line, flags[i])) printf("%s", flags[i]);
        } else {
            continue;
        }
        if (close_it && !strncmp(line, "VmFlags:", 8)) printf("]");
    }
}

// Prints what a call returned: ok, or the name of its error.
static inline void result(const char *call, long returned) {
    if (returned == -1) printf("%s: %s", call, strerrorname_np(errno));
    else printf("%s: ok", call);
}

// Makes one call, prints its result and the areas that it leaves.
#define CALL(call) \
    do { \
        errno = 0; \
        result(#call, (long)(call)); \
        areas(); \
        puts(""); \
    } while (0)

// Runs one case in an empty window.
#define CASE(name) for (int once = (printf("%s: ", name), 1); once; once = (munmap(WINDOW, PAGES * PAGE), 0))

#endif
