#!/usr/bin/env bash
# The shared map's stress tests under ThreadSanitizer, which sees data races; std is built for it as well.
set -euo pipefail
cd "$(dirname "$0")/.."

rustup toolchain list | grep -q '^nightly' || rustup toolchain install nightly --profile minimal
rustup component list --toolchain nightly --installed | grep -q '^rust-src' || rustup component add --toolchain nightly rust-src
# ThreadSanitizer does not see fences; with this cfg crossbeam-epoch uses accesses that it sees.
export RUSTFLAGS="-Zsanitizer=thread --cfg crossbeam_sanitize_thread --cfg samara_few" RUST_BACKTRACE=0 RUST_TEST_THREADS=2
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/tsan
cargo +nightly test -Zbuild-std --target "$(rustc -vV | sed -n 's/^host: //p')" --package samara --test shared_threads --test linear --test sleepers --test writers --test reentry
