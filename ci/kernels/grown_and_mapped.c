// An area grows down on a fault, and the next call changes what has grown before anyone has seen it.
#define _GNU_SOURCE
#include "window.h"

static void grow(void) {
    map(1000, 1, WRITE, MAP_PRIVATE | MAP_GROWSDOWN);
    map(993, 3, WRITE, MAP_PRIVATE | MAP_GROWSDOWN);
    *(volatile char *)at(998) = 1;
}

int main(void) {
    CASE("mapped over") {
        grow();
        CALL(map(993, 6, PROT_NONE, MAP_PRIVATE));
    }
    CASE("unmapped") {
        grow();
        CALL(munmap(at(993), 6 * PAGE));
    }
    CASE("protected") {
        grow();
        CALL(mprotect(at(998), PAGE, READ));
    }
    CASE("moved") {
        grow();
        CALL(move(998, 1, 1, MREMAP_MAYMOVE | MREMAP_FIXED, 2000));
    }
    CASE("beside a map that grows") {
        map(1000, 1, WRITE, MAP_PRIVATE | MAP_GROWSDOWN);
        *(volatile char *)at(996) = 1;
        CALL(map(998, 1, PROT_NONE, MAP_PRIVATE));
    }
    return 0;
}
