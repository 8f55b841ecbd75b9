#!/usr/bin/env bash
# Cost of call stacks: wall milliseconds of some programs, alone, under `samara trace`, under
# `samara trace --stacks` and under `strace -k`, in turn; medians of RUNS (5). Then the program's
# own time under the second and the third. Needs strace, gcc, git, java, python3 and rustc; skips
# missing ones. `cargo build --release` first.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

# 20,000 calls, from 1 to 20 functions deep.
cat >"$dir/deep.c" <<'C'
#include <sys/mman.h>
__attribute__((noinline)) static void *deep(int n) {
    if (n > 0) {
        void *page = deep(n - 1);
        __asm__ volatile("");
        return page;
    }
    return mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
int main(void) {
    for (int i = 0; i < 10000; i++) munmap(deep(i % 20), 4096);
}
C
gcc -O1 -g -o "$dir/deep" "$dir/deep.c"

timed() {
    local begin end
    begin=$(date +%s%N)
    "$@" >/dev/null 2>&1 || true
    end=$(date +%s%N)
    echo $(((end - begin) / 1000000))
}
# The program's own time, from a summary.
own() { grep -oE '"program_ns": [0-9]+' "$dir/summary" | awk '{ print int($2 / 1000000) }'; }

measure() {
    type "$1" >/dev/null 2>&1 || return 0
    rm -f "$dir"/*.times
    for _ in $(seq "$runs"); do
        timed "$@" >>"$dir/alone.times"
        timed "$samara" trace --quiet --summary-json "$dir/summary" -o "$dir/t.samara" -- "$@" >>"$dir/trace.times"
        own >>"$dir/trace-own.times"
        timed "$samara" trace --quiet --stacks --summary-json "$dir/summary" -o "$dir/t.samara" -- "$@" >>"$dir/stacks.times"
        own >>"$dir/stacks-own.times"
        timed strace -f -k -e trace=%memory -o /dev/null -- "$@" >>"$dir/strace.times"
    done
    local row="| \`${*/#$dir\//}\` |" kind
    for kind in alone trace stacks strace trace-own stacks-own; do
        row+=" $(median <"$dir/$kind.times") |"
    done
    echo "$row"
}

echo "| program | alone | trace | trace --stacks | strace -k | itself: trace | itself: trace --stacks |"
echo "|---|---|---|---|---|---|---|"
measure python3 -c 'import json, ssl, sqlite3, asyncio, decimal'
measure java -version
measure "$dir/deep"
measure rustc --version
measure git log --oneline -5
