#!/usr/bin/env bash
# The libraries build without std, for a bare 64-bit and a bare 32-bit target; and the parts of the
# shared map that have code of their own without std (reclamation, the lock that spins) pass their
# tests without it.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/lib.sh

for target in x86_64-unknown-none thumbv7em-none-eabi; do
    target "$target"
    cargo build --locked --target "$target" --package samara --package samara-mm --lib --no-default-features
    cargo build --locked --target "$target" --package samara --lib --no-default-features --features serde,shared
    echo "no_std: builds for $target"
done
# It needs atomics of 64 bits.
cargo build --locked --target x86_64-unknown-none --package samara-mm --lib --no-default-features --features shared
cargo test --locked --package samara --no-default-features --features shared --lib --test linearizability --test shared_owners
