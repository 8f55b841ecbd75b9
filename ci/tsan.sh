#!/usr/bin/env bash
# Stress tests of the shared map and of shared spaces under ThreadSanitizer, which finds data races;
# std is built for it too. `full`: the other programs of several threads as well.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/lib.sh

nightly rust-src
# ThreadSanitizer does not see fences; with this cfg crossbeam-epoch uses accesses that it sees. The
# fences of samara and samara-mm order atomics only; what is freed is ordered by loads.
export RUSTFLAGS="-Zsanitizer=thread --cfg crossbeam_sanitize_thread --cfg samara_few"
# A test asks for more memory than there is. Full debug information takes minutes of a build.
export TSAN_OPTIONS="allocator_may_return_null=1 ${TSAN_OPTIONS:-}" CARGO_PROFILE_TEST_DEBUG=line-tables-only
# What is watched runs many times slower.
export CARGO_PROFILE_TEST_OPT_LEVEL=1
export RUST_BACKTRACE=0 RUST_TEST_THREADS=2 CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/tsan
tsan() {
    cargo +nightly test --locked -Zbuild-std --target "$(rustc -vV | sed -n 's/^host: //p')" "$@"
}

# Counted owners, the last of which frees.
tsan --package samara --lib
if full "$@"; then
    tsan --package samara --features long --test shared_stress --test linearizability --test paused_threads --test shared_writers --test shared_family
    tsan --package samara --features long --test maps -- reentry::
    tsan --package samara-mm --test page_memory --test failing_steps --test shared --test files
else
    tsan --package samara --test shared_stress
    tsan --package samara-mm --test page_memory --test failing_steps
fi
