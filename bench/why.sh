#!/usr/bin/env bash
# What `samara why` costs on a trace of a million calls with stacks: wall seconds and the largest resident
# size in MiB, medians of RUNS (5). Needs gcc and GNU time. `cargo build --release` first.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

# Maps and unmaps of one to three pages at 60,000 places in random order, of two protections.
cat >"$dir/million.c" <<'C'
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
gcc -O1 -g -o "$dir/million" "$dir/million.c"
"$samara" trace --quiet --stacks -o "$dir/million.samara" -- "$dir/million"

echo "| command | s | MiB |"
echo "|---|---|---|"
for command in why summary "why --json" "why --folded"; do
    for _ in $(seq "$runs"); do
        # shellcheck disable=SC2086
        /usr/bin/time -f '%e %M' -a -o "$dir/times" "$samara" $command "$dir/million.samara" >/dev/null
    done
    echo "| \`samara $command\` | $(cut -d' ' -f1 "$dir/times" | median) | $(($(cut -d' ' -f2 "$dir/times" | median) / 1024)) |"
    rm "$dir/times"
done
