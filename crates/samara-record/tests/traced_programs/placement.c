/* Maps, moves and lets its stack grow. Writes its mappings to a file. Then executes itself again, in a
   child of vfork and in itself. Needs no library: links statically, position-independent or not, for 64
   and 32 bits.
   PROGRAM places OUT FILE N: N more programs are loaded.
   PROGRAM deep: raises its stack limit, then its stack grows by 160 MiB. */
#ifdef BIG
char big[3 << 20] = {1};
#endif
#define INLINE static inline __attribute__((always_inline))
#ifdef __x86_64__
enum { READ = 0, WRITE = 1, OPEN = 2, MMAP = 9, MREMAP = 25, VFORK = 58, EXECVE = 59, EXIT = 60, WAIT4 = 61, PRLIMIT = 302, MEMFD = 319, TRUNCATE = 77 };
enum { CREATE = 02001 | 0100 };
__asm__(".globl _start\n_start: mov %rsp, %rdi\nand $-16, %rsp\ncall start\n");
INLINE long call(long nr, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    __asm__ volatile("syscall" : "=a"(result) : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
    return result;
}
#else
enum { READ = 3, WRITE = 4, OPEN = 5, MMAP = 192, MREMAP = 163, VFORK = 190, EXECVE = 11, EXIT = 1, WAIT4 = 114, PRLIMIT = 340, MEMFD = 356, TRUNCATE = 93 };
enum { CREATE = 02001 | 0100 };
__asm__(".globl _start\n_start: mov %esp, %eax\nand $-16, %esp\nsub $12, %esp\npush %eax\ncall start\n");
INLINE long call(long nr, long a, long b, long c, long d, long e, long f)
{
    long args[2] = {nr, f}, result;
    __asm__ volatile("push %%ebp\nmov 4(%%eax), %%ebp\nmov (%%eax), %%eax\nint $0x80\npop %%ebp"
                     : "=a"(result) : "a"(args), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e) : "memory");
    return result;
}
#endif
enum { PAGE = 4096, HUGE = 2 << 20 };

static void end(int code) { call(EXIT, code, 0, 0, 0, 0, 0); __builtin_unreachable(); }
static long map(long len, int prot, int flags, int fd) { return call(MMAP, 0, len, prot, flags, fd, 0); }

static int deep(int depth)
{
    volatile char frame[1 << 20];
    for (int i = 0; i < 1 << 20; i += PAGE) frame[i] = depth;
    return depth ? deep(depth - 1) + frame[PAGE] : 0;
}

/* Maps `len` bytes, puts a page behind them, and moves them to a larger place. */
static void move(long len, int flags, int fd)
{
    long at = map(len, 1, flags, fd);
    call(MMAP, at + len, PAGE, 3, 0x100022, -1, 0);
    call(MREMAP, at, len, len + HUGE + 3 * PAGE, 1, 0, 0);
    map(PAGE, 3, 0x21, -1);
}

static void tell(const char *out)
{
    static char text[1 << 14];
    int maps = call(OPEN, (long)"/proc/self/maps", 0, 0, 0, 0, 0), to = call(OPEN, (long)out, CREATE, 0600, 0, 0, 0);
    for (long n; (n = call(READ, maps, (long)text, sizeof text, 0, 0, 0)) > 0;)
        if (call(WRITE, to, (long)text, n, 0, 0, 0) != n) end(4);
}

__attribute__((used)) void start(long *stack)
{
    long argc = stack[0];
    char **argv = (char **)(stack + 1), **envp = argv + argc + 1;
    if (argv[1][0] == 'd') {
        unsigned long long limits[2] = {1 << 30, ~0ULL}, before[2];
        map(PAGE, 3, 0x21, -1);
        call(PRLIMIT, 0, 3, 0, (long)before, 0, 0);
        limits[1] = before[1];
        if (call(PRLIMIT, 0, 3, (long)limits, 0, 0, 0)) end(7);
        deep(160);
        end(0);
    }
    tell(argv[2]);
    static const int lens[] = {PAGE, 3 * PAGE, 64 << 10, (64 << 10) + PAGE, HUGE, 2 * HUGE, 2 * HUGE + 5 * PAGE};
    int file = call(OPEN, (long)argv[3], 0, 0, 0, 0, 0), memory = call(MEMFD, (long)"m", 0, 0, 0, 0, 0);
    call(TRUNCATE, memory, 16 * HUGE, 0, 0, 0, 0);
    for (unsigned i = 0; i < sizeof lens / sizeof *lens; i++) {
        map(lens[i], 3, 0x22, -1);
        map(PAGE, 1, 0x22, -1);
        map(lens[i], 3, 0x21, -1);
        map(PAGE, 3, 0x22, -1);
        move(lens[i], 1, file);
        move(lens[i], 2, file);
        move(lens[i], 1, memory);
        move(lens[i], 0x21, -1);
        move(lens[i], 0x22, -1);
    }
    tell(argv[2]);
    if (argv[4][0] == '0') end(0);
    argv[4][0]--;
    long child = call(VFORK, 0, 0, 0, 0, 0, 0);
    if (!child) {
        call(EXECVE, (long)argv[0], (long)argv, (long)envp, 0, 0, 0);
        end(5);
    }
    int status = 0;
    call(WAIT4, child, (long)&status, 0, 0, 0, 0);
    if (status) end(6);
    call(EXECVE, (long)argv[0], (long)argv, (long)envp, 0, 0, 0);
    end(5);
}
