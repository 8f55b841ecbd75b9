// A database that maps its file once and says of each table that is read at random so: random_reads
// [TABLES].
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { TABLE = 64 << 10 };

__attribute__((noinline)) static int read_at_random(char *table) {
    int failed = madvise(table, TABLE, MADV_RANDOM);
    return failed;
}

int main(int argc, char **argv) {
    long tables = argc > 1 ? atol(argv[1]) : 10000;
    FILE *file = fopen("database", "w+");
    if (!file || ftruncate(fileno(file), tables * TABLE)) return perror("database"), 1;
    char *all = mmap(0, tables * TABLE, PROT_READ, MAP_SHARED, fileno(file), 0);
    if (all == MAP_FAILED) return perror("mmap"), 1;
    for (long i = 1; i < tables; i += 2)
        if (read_at_random(all + i * TABLE)) return perror("madvise"), 1;
    return 0;
}
