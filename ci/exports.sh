#!/usr/bin/env bash
# What `samara export` writes is read back by the tools that it is for: go tool pprof, DuckDB, Polars,
# and Perfetto's own descriptions of its messages, with its trace_processor where that can be
# downloaded. Their numbers must be those of `samara summary` and `samara why`. `ci/exports.py` has
# the comparisons. Needs python3 with a package index, go and cc.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/lib.sh

for program in python3 go cc; do
    command -v "$program" >/dev/null || skip exports "$program is missing"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The binary that the tests run. In CI all tests are built by now; features of one crate alone would
# build it anew.
scope=(-p samara-cli)
if [ "${CI:-}" = true ]; then scope=(--workspace); fi
cargo test --locked --quiet "${scope[@]}" --no-run
samara=${CARGO_TARGET_DIR:-$PWD/target}/debug/samara

python3 -m venv "$work/venv" >/dev/null || skip exports "python3 has no venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check duckdb duckdb-cli polars protobuf perfetto >"$work/pip" 2>&1 ||
    skip exports "duckdb, polars and perfetto cannot be installed: $(tail -n1 "$work/pip")"

# Threads, a child, splits, failures; and the same under a name that was chosen to do harm.
cat >"$work/program.c" <<'C'
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) void *grow(size_t n) { return mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
static inline __attribute__((always_inline)) void guard(char *p) { mprotect(p + 4096, 4096, PROT_NONE); }
void *work(void *x) {
    for (int i = 0; i < 60; i++) {
        char *p = grow(5 * 4096);
        guard(p);
        if (i % 3 == 0) munmap(p + 3 * 4096, 4096);
        if (i % 5 == 0) munmap(p, 5 * 4096);
        if (i % 7 == 0) mremap(p, 4096, 3 * 4096, MREMAP_MAYMOVE);
    }
    return x;
}
int main(void) {
    pthread_t t;
    pthread_create(&t, 0, work, 0);
    work(0);
    pthread_join(t, 0);
    if (!fork()) { work(0); _exit(0); }
    wait(0);
    munmap((void *)1, 3);
    return 0;
}
C
sed -i 's/^#include <pthread.h>/#define _GNU_SOURCE\n&/' "$work/program.c"
cc -g -O1 -pthread -o "$work/program" "$work/program.c"
hostile="$work/=1+1'\"<script>;%2e
x"
cp "$work/program" "$hostile"
"$samara" trace -q --stacks --resident -o "$work/stacks.samara" -- "$work/program"
"$samara" trace -q -o "$work/plain.samara" -- "$work/program"
"$samara" trace -q --stacks -o "$work/hostile.samara" -- "$hostile"
"$samara" trace -q --stacks -o "$work/python.samara" -- "$work/venv/bin/python" -c 'import json, sqlite3, subprocess; subprocess.run(["true"])'

for trace in stacks plain hostile python; do
    "$work/venv/bin/python" ci/exports.py "$samara" "$work/$trace.samara" "$work/$trace.out" "$work/fleet"
done
"$work/venv/bin/python" ci/exports.py --fleet "$samara" "$work/fleet" 4
