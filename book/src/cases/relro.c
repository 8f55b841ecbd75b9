// A program with many plugins, each a library of its own, in the folder plugins: relro [PLUGINS].
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static const char *source = "echo 'int one; int *table[] = {&one}; int *const fixed[] = {&one};' >plugins/p.c && "
                            "cc -shared -fPIC -Wl,-z,relro -o plugins/p.so plugins/p.c";

int main(int argc, char **argv) {
    long plugins = argc > 1 ? atol(argv[1]) : 500;
    mkdir("plugins", 0777);
    if (system(source)) return 1;
    for (long i = 0; i < plugins; i++) {
        char name[64];
        snprintf(name, sizeof name, "plugins/p%ld.so", i);
        // The loader knows a library by its file, so each needs one of its own.
        FILE *from = fopen("plugins/p.so", "r"), *to = fopen(name, "w");
        if (!from || !to) return perror(name), 1;
        for (int c; (c = getc(from)) != EOF;) putc(c, to);
        fclose(from), fclose(to);
        if (!dlopen(name, RTLD_NOW)) return puts(dlerror()), 1;
    }
    return 0;
}
