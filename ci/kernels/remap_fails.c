// mremap to a fixed place that fails: before Linux 6.17 its target may be gone then. Before 5.16 that
// is so too where the source is not mapped.
#define _GNU_SOURCE
#include "window.h"


int main(void) {
    CASE("the source has a hole") {
        map(0, 8, WRITE, MAP_PRIVATE);
        munmap(at(4), PAGE);
        map(40, 8, WRITE, MAP_PRIVATE);
        CALL(move(2, 6, 6, MOVE, 40));
    }
    CASE("the source ends early") {
        map(0, 4, WRITE, MAP_PRIVATE);
        map(40, 4, WRITE, MAP_PRIVATE);
        CALL(move(2, 4, 4, MOVE, 40));
    }
    CASE("the source is not mapped") {
        map(40, 4, WRITE, MAP_PRIVATE);
        CALL(move(0, 2, 2, MOVE, 40));
    }
    CASE("it grows beyond its area") {
        map(0, 2, WRITE, MAP_PRIVATE);
        map(40, 4, WRITE, MAP_PRIVATE);
        CALL(move(0, 3, 4, MOVE, 40));
    }
    CASE("two areas are shortened") {
        map(0, 2, WRITE, MAP_PRIVATE);
        map(2, 2, READ, MAP_PRIVATE);
        map(40, 4, WRITE, MAP_PRIVATE);
        CALL(move(0, 4, 3, MOVE, 40));
    }
    CASE("source and target overlap") {
        map(0, 4, WRITE, MAP_PRIVATE);
        CALL(move(0, 4, 4, MOVE, 2));
    }
    CASE("nothing is mapped, and they overlap") CALL(move(0, 4, 4, MOVE, 2));
    CASE("it shortens, and moves") {
        map(0, 4, WRITE, MAP_PRIVATE);
        map(10, 4, WRITE, MAP_PRIVATE);
        CALL(move(0, 4, 2, MOVE, 10));
    }
    return 0;
}
