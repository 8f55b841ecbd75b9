#!/usr/bin/env bash
# Stress tests of the shared map under ThreadSanitizer, which finds data races; std is built for it
# too. `full`: the other programs of several threads as well.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/lib.sh

nightly rust-src
# ThreadSanitizer does not see fences; with this cfg crossbeam-epoch uses accesses that it sees.
export RUSTFLAGS="-Zsanitizer=thread --cfg crossbeam_sanitize_thread --cfg samara_few"
export RUST_BACKTRACE=0 RUST_TEST_THREADS=2 CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/tsan
tsan() {
    cargo +nightly test --locked -Zbuild-std --target "$(rustc -vV | sed -n 's/^host: //p')" --package samara "$@"
}

if full "$@"; then
    tsan --test shared_stress --test linearizability --test paused_threads --test shared_writers --test shared_family
    tsan --test maps -- reentry::
else
    tsan --test shared_stress
fi
