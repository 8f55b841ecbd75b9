/* The beginning of compiled.c and of jitdump.c: code without a file, as from a JIT compiler. The function
   has a frame pointer and maps a page. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef void *map_function(void *, size_t, int, int, int, long);

static const unsigned char code[] = {
    0x55, 0x48, 0x89, 0xe5,             /* push rbp; mov rbp, rsp */
    0x49, 0x89, 0xca,                   /* mov r10, rcx */
    0xb8, 9, 0, 0, 0, 0x0f, 0x05,       /* mov eax, SYS_mmap; syscall */
    0x5d, 0xc3,                         /* pop rbp; ret */
};
