// Written memory of a private file map, moved beside more of that file: one area up to Linux 7.2, two
// from 7.3 on, where private memory of files has an offset of its own.
#define _GNU_SOURCE
#include "window.h"


int main(void) {
    int file = file_of(64);
    CASE("written") {
        map_file(0, 2, WRITE, MAP_PRIVATE, file, 0);
        map_file(102, 2, WRITE, MAP_PRIVATE, file, 2);
        at(0)[0] = 1;
        CALL(move(0, 2, 2, MOVE, 100));
    }
    CASE("unwritten") {
        map_file(0, 2, WRITE, MAP_PRIVATE, file, 0);
        map_file(102, 2, WRITE, MAP_PRIVATE, file, 2);
        CALL(move(0, 2, 2, MOVE, 100));
    }
    CASE("both written, both moved") {
        map_file(0, 2, WRITE, MAP_PRIVATE, file, 0);
        at(0)[0] = at(1)[0] = 1;
        move(0, 1, 1, MOVE, 100);
        CALL(move(1, 1, 1, MOVE, 101));
    }
    CASE("anonymous, pages left behind") {
        map(0, 2, WRITE, NO_RESERVE);
        at(0)[0] = 1;
        move(0, 2, 2, MOVE, 10);
        move(10, 2, 2, MOVE | 4, 30);
        CALL(map(12, 2, WRITE, NO_RESERVE));
    }
    return 0;
}
