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
cargo +nightly miri test --package samara --lib --tests
# What goes through crossbeam-epoch: it does not keep to Stacked Borrows, and hides in integers what it has, which looks like a leak.
SAMARA_TREE_BORROWS=1 MIRIFLAGS="$MIRIFLAGS -Zmiri-tree-borrows -Zmiri-ignore-leaks -Zmiri-permissive-provenance" \
    cargo +nightly miri test --package samara --lib --test shared_threads --test linear --test writers -- reclaim epoch order
cargo +nightly miri test --package samara-testkit --lib --tests
cargo +nightly miri test --package samara-mm --test tables --test learn
