#!/usr/bin/env bash
# The tree's tests on another processor, under emulation: without vectors, with weaker ordering than x86-64 promises. Skipped, and said so,
# where the emulator or the linker cannot be installed.
set -euo pipefail
cd "$(dirname "$0")/.."

target=aarch64-unknown-linux-gnu
have() { command -v qemu-aarch64 && command -v aarch64-linux-gnu-gcc; } >/dev/null
if ! have; then
    apt-get install --yes --no-install-recommends qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross >/dev/null 2>&1 ||
        { apt-get update && apt-get install --yes --no-install-recommends qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross; } \
            >/dev/null 2>&1 || true
fi
if ! have; then
    echo "skipped: aarch64: qemu-aarch64 or aarch64-linux-gnu-gcc is not there, and could not be installed"
    exit 0
fi
rustup target list --installed | grep -qx "$target" || rustup target add "$target"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
# Those that go through the search without vectors, the words of gaps, and what threads share; the rest would take minutes to build again.
# Emulated, a campaign of random operations takes some twenty times as long.
RUSTFLAGS="${RUSTFLAGS:-} --cfg samara_few" SAMARA_OPS=4000 cargo test --target "$target" --package samara --lib --test hole --test sharing --test worst --test linear --test sleepers
