// MAP_STACK beside a plain map: from Linux 6.7 on it turns huge pages off, so that the two stay apart.
#define _GNU_SOURCE
#include "window.h"

int main(void) {
    CASE("above") {
        map(0, 6, WRITE, MAP_PRIVATE);
        CALL(map(6, 4, WRITE, MAP_PRIVATE | MAP_STACK));
    }
    CASE("below") {
        map(6, 4, WRITE, MAP_PRIVATE);
        CALL(map(0, 6, WRITE, MAP_PRIVATE | MAP_STACK));
    }
    CASE("shared") {
        map(0, 2, WRITE, MAP_SHARED);
        CALL(map(2, 2, WRITE, MAP_SHARED | MAP_STACK));
    }
    return 0;
}
