// mprotect over a hole fails with ENOMEM, and has changed what lies before the hole.
#define _GNU_SOURCE
#include "window.h"

int main(void) {
    CASE("a hole in the middle") {
        map(0, 3, WRITE, MAP_PRIVATE);
        munmap(at(1), PAGE);
        CALL(mprotect(at(0), 3 * PAGE, READ));
    }
    CASE("a hole at the start") {
        map(1, 3, WRITE, MAP_PRIVATE);
        CALL(mprotect(at(0), 3 * PAGE, READ));
    }
    CASE("a hole at the end") {
        map(0, 3, WRITE, MAP_PRIVATE);
        CALL(mprotect(at(2), 3 * PAGE, READ));
    }
    return 0;
}
