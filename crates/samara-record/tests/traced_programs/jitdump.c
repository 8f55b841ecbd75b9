/* Follows made_code.c. perf's map of the code is a jitdump file. It is mapped as code, and written only at
   the end. Writes the name of that file, and for each call the page and the name of the function at that
   time. The first argument is the folder of the file. The second makes the file odd:
   fifo: the name now belongs to a FIFO without a writer
   other: the file belongs to another user
   data: it is not mapped as code
   clock: its times are those of another clock
   hostile: the end is damaged, and other functions claim the same addresses before and after */

static FILE *dump;
static uint64_t ahead;

static void words(int count, const uint64_t *words) {
    fwrite(words, sizeof *words, count, dump);
}

static void head(uint64_t kind, uint64_t len) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    words(2, (uint64_t[]){kind | (16 + len) << 32, now.tv_sec * 1000000000ull + now.tv_nsec + ahead});
}

static void load(void *at, const char *name, uint64_t len, uint64_t index) {
    head(0, 40 + strlen(name) + 1 + sizeof code);
    words(5, (uint64_t[]){0, (uint64_t)at, (uint64_t)at, len, index});
    fwrite(name, strlen(name) + 1, 1, dump);
    fwrite(code, sizeof code, 1, dump);
}

__attribute__((noinline)) int outer(void *function, const char *name) {
    void *page = ((map_function *)function)(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return printf("%lx %s\n", (unsigned long)page, name);
}

int main(int argc, char **argv) {
    const char *odd = argc > 2 ? argv[2] : "";
    int is_hostile = !strcmp(odd, "hostile");
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char name[300];
    snprintf(name, sizeof name, "%s/jit-%d.dump", argv[1], getpid());
    dump = fopen(name, "w+");
    setvbuf(dump, NULL, _IOFBF, 1 << 20);
    ftruncate(fileno(dump), 4096);
    mmap(NULL, 4096, strcmp(odd, "data") ? PROT_READ | PROT_EXEC : PROT_READ, MAP_PRIVATE, fileno(dump), 0);
    if (!strcmp(odd, "other") && fchown(fileno(dump), 12345, -1)) {
        return 9;
    }
    if (!strcmp(odd, "fifo")) {
        unlink(name);
        mkfifo(name, 0600);
    }
    ahead = strcmp(odd, "clock") ? 0 : 1ull << 60;
    words(5, (uint64_t[]){0x14a695444, 40, 0, 0, 0});
    if (is_hostile) {
        load(page - 8, "before", 4096, 5);
    }
    memcpy(page, code, sizeof code);
    load(page, "first", sizeof code, 1);
    for (int i = 0; i < 3; i++) {
        if (i == 1) {
            load(page, "second", sizeof code, 2);
        }
        outer(page, i == 0 ? "first" : "second");
    }
    memcpy(page + 2048, code, sizeof code);
    head(1, 48);
    words(6, (uint64_t[]){0, (uint64_t)page + 2048, (uint64_t)page, (uint64_t)page + 2048, sizeof code, 1});
    outer(page + 2048, "first");
    if (is_hostile) {
        load(page - 8, "after", UINT64_MAX, 1);
        head(2, 16);
        words(2, (uint64_t[]){(uint64_t)page, UINT64_MAX});
        head(0, UINT32_MAX - 16);
    }
    fclose(dump);
    return 0;
}
