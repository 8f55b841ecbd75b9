#!/usr/bin/env bash
# The tree and the address space build where there is no std: for a bare 64-bit and a bare 32-bit target.
set -euo pipefail
cd "$(dirname "$0")/.."

for target in x86_64-unknown-none thumbv7em-none-eabi; do
    rustup target list --installed | grep -qx "$target" || rustup target add "$target"
    cargo build --target "$target" --package samara --package samara-mm --lib
    cargo build --target "$target" --package samara --features serde --lib
    echo "no_std: builds for $target"
done
