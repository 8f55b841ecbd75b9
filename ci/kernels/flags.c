// What calls leave in the flags of areas: locked, counted, no huge page, sealed. Releases and their
// point releases differ in many of these.
#define _GNU_SOURCE
#include "window.h"

#define LEAVE (MOVE | 4)
#define MSEAL 462
#define GUARD_INSTALL 102
#define DROPPABLE 8

static void both(int kind) {
    puts(kind == MAP_SHARED ? "shared" : "private");
    CASE("a part of locked memory leaves its pages behind") {
        map(0, 6, WRITE, kind);
        mlock(at(0), 6 * PAGE);
        CALL(move(3, 3, 3, LEAVE, 20));
    }
    CASE("all of locked memory leaves its pages behind") {
        map(0, 6, WRITE, kind);
        mlock(at(0), 6 * PAGE);
        CALL(move(0, 6, 6, LEAVE, 20));
    }
    CASE("a part leaves its pages behind") {
        map(0, 6, WRITE, kind);
        CALL(move(2, 2, 2, LEAVE, 20));
    }
    CASE("to its own end") {
        map(0, 6, WRITE, kind);
        CALL(move(4, 2, 2, LEAVE, 6));
    }
    CASE("a written part leaves its pages behind") {
        map(0, 6, WRITE, kind);
        at(0)[0] = at(3)[0] = 1;
        CALL(move(2, 2, 2, LEAVE, 20));
        CALL(map(24, 2, WRITE, kind));
        CALL(map(22, 2, WRITE, kind));
    }
    CASE("lock over no access") {
        map(0, 6, WRITE, kind);
        map(6, 2, PROT_NONE, kind);
        CALL(mlock(at(0), 8 * PAGE));
    }
    CASE("lock over a hole") {
        map(0, 6, WRITE, kind);
        map(8, 2, WRITE, kind);
        CALL(mlock(at(0), 10 * PAGE));
    }
    CASE("lock on fault") {
        map(0, 4, WRITE, kind);
        CALL(syscall(SYS_mlock2, at(0), 2 * PAGE, 1));
    }
    CASE("read-only, untouched") {
        map(0, 4, WRITE, kind);
        CALL(mprotect(at(0), 4 * PAGE, READ));
    }
    CASE("read-only and back") {
        map(0, 4, WRITE, kind);
        mprotect(at(1), 2 * PAGE, READ);
        CALL(mprotect(at(1), 2 * PAGE, WRITE));
    }
    CASE("grown onto a neighbour") {
        map(0, 2, WRITE, kind);
        map(4, 2, WRITE, kind);
        CALL(mremap(at(0), 2 * PAGE, 4 * PAGE, 0));
    }
}

int main(void) {
    both(MAP_PRIVATE);
    both(MAP_SHARED);
    CASE("forks over a hole") {
        map(0, 4, WRITE, MAP_PRIVATE);
        map(6, 2, WRITE, MAP_PRIVATE);
        CALL(madvise(at(0), 8 * PAGE, MADV_DONTFORK));
        CALL(madvise(at(0), 8 * PAGE, MADV_DOFORK));
    }
    CASE("unwritten between written") {
        map(0, 2, WRITE, MAP_PRIVATE);
        map(4, 2, WRITE, MAP_PRIVATE);
        at(0)[0] = at(4)[0] = 1;
        CALL(map(2, 2, WRITE, MAP_PRIVATE));
    }
    CASE("written, made like an unwritten neighbour below") {
        map(2, 2, WRITE, NO_RESERVE);
        at(2)[0] = 1;
        mprotect(at(2), 2 * PAGE, READ);
        map(0, 2, WRITE, NO_RESERVE);
        CALL(mprotect(at(2), 2 * PAGE, WRITE));
    }
    CASE("written, made like unwritten neighbours") {
        map(0, 2, READ, MAP_PRIVATE);
        map(2, 2, WRITE, MAP_PRIVATE);
        at(2)[0] = 1;
        map(4, 2, READ, MAP_PRIVATE);
        CALL(mprotect(at(2), 2 * PAGE, READ));
    }
    CASE("inherited and moved") {
        map(0, 2, WRITE, NO_RESERVE);
        at(0)[0] = 1;
        fflush(stdout);
        if (fork() == 0) {
            move(0, 2, 2, MOVE, 20);
            CALL(map(22, 2, WRITE, NO_RESERVE));
            fflush(stdout);
            _exit(0);
        }
        wait(NULL);
    }
    CASE("guard pages") {
        map(0, 6, WRITE, MAP_PRIVATE);
        CALL(madvise(at(1), PAGE, GUARD_INSTALL));
        CALL(map(6, 2, WRITE, MAP_PRIVATE));
    }
    CASE("sealed") {
        fflush(stdout);
        // Sealed memory goes with its process only.
        if (fork() == 0) {
            map(0, 4, WRITE, MAP_PRIVATE);
            CALL(syscall(MSEAL, at(2), PAGE, 0));
            CALL(mprotect(at(0), 4 * PAGE, READ));
            CALL(munmap(at(1), 2 * PAGE));
            fflush(stdout);
            _exit(0);
        }
        wait(NULL);
    }
    CASE("droppable") {
        CALL(mmap(at(0), 2 * PAGE, WRITE, DROPPABLE | MAP_FIXED | MAP_ANONYMOUS, -1, 0));
        CALL(mlock(at(0), PAGE));
    }
    CASE("flush with a hole") {
        map(0, 2, WRITE, MAP_PRIVATE);
        CALL(msync(at(0), 4 * PAGE, MS_ASYNC));
    }
    CASE("other pages of shared memory") {
        map(0, 6, WRITE, MAP_SHARED);
        CALL(syscall(SYS_remap_file_pages, at(0), PAGE, 0, 2, 0));
    }
    CASE("shared /dev/zero, read-only") {
        int zero = open("/dev/zero", O_RDONLY);
        CALL(map_file(0, 2, READ, MAP_SHARED, zero, 20));
        CALL(move(0, 1, 1, MOVE, 100));
        close(zero);
    }
    return 0;
}
