# Shared by the scripts of bench/. They source it from anywhere: it changes to the repository's
# root. `dir` is a new directory that is removed when the script ends. SAMARA measures another build.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
samara=${SAMARA:-$PWD/target/release/samara} runs=${RUNS:-5}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# Waits until the kernel has closed the events of former recordings, which takes seconds: while they
# are open, every process's system calls take longer.
command -v pgrep >/dev/null || { echo "$0 needs pgrep (procps)" >&2; exit 1; }
settled() { while pgrep -x samara-close >/dev/null; do sleep 0.1; done; }

median() { sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }

# Writes $1/pairs.h: the loop that only maps, touches and unmaps memory, the processor time of the
# process so far, and a clock, in milliseconds.
loop_of_pairs() {
    cat >"$1/pairs.h" <<'C'
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
static void pairs(int n) {
    for (int i = n; i > 0; i--) {
        char *at = mmap(0, 0x4000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        at[0] = 1;
        munmap(at, 0x4000);
    }
}
static double used_ms(void) {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e3 + (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e3;
}
static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}
C
}

# Makes the program $1/million: a million maps and unmaps of one to three pages at 60,000 places in random
# order, of two protections.
million_calls() {
    cat >"$1/million.c" <<'C'
#include <stdlib.h>
#include <sys/mman.h>
static struct { void *at; size_t size; } held[60000];
__attribute__((noinline)) static void *take(size_t size, int prot) {
    return mmap(0, size, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
__attribute__((noinline)) static void give(void *at, size_t size) { munmap(at, size); }
int main(void) {
    srand(1);
    for (int i = 0; i < 1000000; i++) {
        int n = rand() % 60000;
        if (held[n].at) {
            give(held[n].at, held[n].size);
            held[n].at = 0;
        } else {
            int kind = rand();
            held[n].size = 4096 * (1 + kind % 3);
            held[n].at = take(held[n].size, kind & 64 ? PROT_READ : PROT_READ | PROT_WRITE);
            if (held[n].at == MAP_FAILED) held[n].at = 0;
        }
    }
}
C
    gcc -O1 -g -o "$1/million" "$1/million.c"
}

# Prints a line if a recording lost events. First waits until the kernel has closed the recording's
# events, because open ones slow the next measurement down.
losses() { # MODE TRACE
    local lost
    while pgrep -x samara-close >/dev/null; do sleep 0.1; done
    lost=$("$samara" summary --json "$2" | jq .losses)
    [ "$lost" = 0 ] || echo "recordings by $1 that lost events"
}
