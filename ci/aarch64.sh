#!/usr/bin/env bash
# The tree's tests on aarch64, emulated: a processor without the vector search, and with weaker
# memory ordering than x86-64. A few test programs; `full`: all that need no counted memory and no
# system calls that the emulator lacks. Installs the emulator and the linker where they are missing.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/lib.sh

target=aarch64-unknown-linux-gnu
program aarch64 qemu-aarch64 qemu-user
program aarch64 aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu libc6-dev-arm64-cross
target "$target"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
# Each program is built anew, and runs about twenty times slower: one shape of nodes in the tests of
# threads, and few random operations.
export RUSTFLAGS="${RUSTFLAGS:-} --cfg samara_few" SAMARA_OPS=${SAMARA_OPS:-4000}
export CARGO_PROFILE_TEST_OPT_LEVEL=1

cargo check --locked --target "$target" --package samara --package samara-mm --lib
programs=(--test linearizability --test paused_threads)
if full "$@"; then
    programs+=(--test maps --test out_of_memory --test shared_owners)
fi
cargo test --locked --target "$target" --package samara --lib "${programs[@]}"
