#!/usr/bin/env bash
# Traces are read on any system: `samara-trace` and its tests check for a Mac, and with `full` for
# Windows too. Nothing is linked, so that no other tools are needed. What writes output files is for
# Linux only. The recorder checks for the C library musl, of which `ci/package.sh` makes the static binary.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/lib.sh

targets=(aarch64-apple-darwin)
if [ "${1-}" = full ]; then targets+=(x86_64-pc-windows-gnu); fi
for target in "${targets[@]}"; do
    target "$target"
    RUSTFLAGS="${RUSTFLAGS:-} -D warnings" cargo check --locked --target "$target" --package samara-trace --tests
    echo "portable: samara-trace checks for $target"
done

target x86_64-unknown-linux-musl
RUSTFLAGS="${RUSTFLAGS:-} -D warnings" cargo check --locked --target x86_64-unknown-linux-musl --package samara-record --all-features
echo "portable: samara-record checks for musl"
