// Which areas of a program that was loaded at its fixed place are called [heap]: its unset data may
// touch the heap.
#define _GNU_SOURCE
#include "window.h"
#include <sys/personality.h>

static char unset[300000];

int main(int count, char **words) {
    if (count == 1) {
        personality(ADDR_NO_RANDOMIZE);
        execl("/proc/self/exe", words[0], "fixed", NULL);
        return 2;
    }
    unset[5] = 1;
    sbrk(5 * PAGE);
    unsigned long start, end, before = 0;
    char perms[8];
    for (char *line = strtok(proc_file("/proc/self/maps"), "\n"); line; line = strtok(NULL, "\n")) {
        if (sscanf(line, "%lx-%lx %5s", &start, &end, perms) != 3 || start >= 0x7f0000000000) continue;
        char *name = strchr(line, '[');
        printf("%s%s %ld pages, %s\n", before && before != start ? "gap; " : "", perms, (end - start) / PAGE,
               name ? name : strchr(line, '/') ? "file" : "no name");
        before = end;
    }
    return 0;
}
