#!/usr/bin/env bash
# The tree, readers beside a writer, and the address space build where there is no std: for a bare 64-bit and a bare 32-bit target. What needs no std
# of reclamation, and the lock that spins, are tested without.
set -euo pipefail
cd "$(dirname "$0")/.."

for target in x86_64-unknown-none thumbv7em-none-eabi; do
    rustup target list --installed | grep -qx "$target" || rustup target add "$target"
    cargo build --target "$target" --package samara --package samara-mm --lib --no-default-features
    cargo build --target "$target" --package samara --lib --no-default-features --features serde,shared
    # Nothing of what it depends on brings std back.
    cargo build --target "$target" --package samara-mm --lib
    echo "no_std: builds for $target"
done
# Few of them: each is built anew without std.
cargo test --package samara --no-default-features --features shared --lib --test linear --test shared_owners
