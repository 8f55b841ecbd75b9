// mremap that shrinks a range whose first pages are not mapped: done on Linux 5.10, EFAULT later.
#define _GNU_SOURCE
#include "window.h"

int main(void) {
    CASE("the first pages are a hole") {
        map(4, 4, WRITE, MAP_PRIVATE);
        CALL(mremap(at(0), 6 * PAGE, 2 * PAGE, 0));
    }
    CASE("all that remains is a hole") {
        map(4, 4, WRITE, MAP_PRIVATE);
        CALL(mremap(at(0), 8 * PAGE, 2 * PAGE, 0));
    }
    CASE("the last pages are a hole") {
        map(0, 4, WRITE, MAP_PRIVATE);
        CALL(mremap(at(0), 6 * PAGE, 2 * PAGE, 0));
    }
    return 0;
}
