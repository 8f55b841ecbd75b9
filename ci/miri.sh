#!/usr/bin/env bash
# The tree's and the address space's tests under Miri, which sees undefined behaviour and leaks. The tests shrink themselves.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo +nightly miri --version >/dev/null 2>&1; then
    rustup toolchain list | grep -q '^nightly' || rustup toolchain install nightly --profile minimal
    rustup component add --toolchain nightly miri rust-src
fi
cargo +nightly miri setup
# Proptest, where it is used, looks for the current directory; Miri needs leave for that. Backtraces cost much.
export MIRIFLAGS="${MIRIFLAGS:-} -Zmiri-disable-isolation" RUST_BACKTRACE=0
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/miri

miri() { cargo +nightly miri test --quiet "$@"; }
# Test programs of the tree, and behind `--` names of tests.
of_samara() {
    local args=()
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        args+=(--test "$1")
        shift
    done
    miri --package samara "${args[@]}" "$@"
}

# Miri runs on one processor: the tests in two halves, side by side. Of the random ones, a few of the shapes that the usual tests run.
first() {
    of_samara allocation cursor_loops cursor_now hole linear reserve serde verbs_alloc &&
        of_samara crashes verbs_crash -- tiny unfinished &&
        of_samara properties -- real_u64_middle real_dropped real_large_both real_huge_whole real_u128_high tiny_u64_pages tiny_dropped tiny_u32_low &&
        miri --package samara-mm --test tables --test learn
}
second() {
    miri --package samara --lib || return
    of_samara shared -- tiny_whole tiny_fill small_pages real_low real_tall_fill wide_fill || return
    of_samara processes reentry shared_allocation shared_memory shared_owners shared_threads sharing slabs sleepers snapshot tall traits unwinding worst writers || return
    of_samara thinned -- tiny || return
    # What goes through crossbeam-epoch: it does not keep to Stacked Borrows, and hides in integers what it has, which looks like a leak.
    SAMARA_TREE_BORROWS=1 MIRIFLAGS="$MIRIFLAGS -Zmiri-tree-borrows -Zmiri-ignore-leaks -Zmiri-permissive-provenance" \
        miri --package samara --lib --test shared_threads --test linear --test writers --test reentry -- reclaim epoch order destructors || return
    miri --package samara-testkit --lib --tests
}

# All of the tree's tests are in one of the halves.
for file in crates/samara/tests/*.rs; do
    name=$(basename "$file" .rs)
    grep -qE "of_samara .*\b$name\b" "$0" || { echo "miri: $file is in neither half" >&2; exit 1; }
done
cargo +nightly miri test --package samara --lib --tests --no-run
log=$(mktemp)
trap 'rm -f "$log"' EXIT
first >"$log" 2>&1 &
half=$!
second || { kill "$half" 2>/dev/null || true; exit 1; }
wait "$half" || { cat "$log"; exit 1; }
grep -E '^test result' "$log"
