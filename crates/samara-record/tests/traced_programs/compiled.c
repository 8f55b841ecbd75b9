/* Follows made_code.c. perf's map of the code is a file. With an argument it is a FIFO without a writer. */

__attribute__((noinline)) int outer(map_function *map) {
    return map(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
}

int main(int argc, char **argv) {
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, code, sizeof code);
    char name[64];
    sprintf(name, "/tmp/perf-%d.map", getpid());
    if (argc > 1) {
        mkfifo(name, 0600);
    } else {
        FILE *map = fopen(name, "w");
        fprintf(map, "%lx %lx compiled here\n", (unsigned long)page, (unsigned long)sizeof code);
        fclose(map);
    }
    puts(name);
    return outer(page);
}
