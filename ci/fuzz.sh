#!/usr/bin/env bash
# Runs every fuzz target for the given time (`ci/fuzz.sh SECONDS`, 60 by default), on nightly; below
# 60 seconds, without the targets of trace files and with one kind of map a target, as a short run
# spends most of its time in the compiler. Inputs that reach new code go to fuzz/corpus, inputs that
# fail to fuzz/artifacts. SAMARA_SEED=N repeats the random choices. SAMARA_FUZZ_TARGET_DIR is where it builds.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/lib.sh

seconds=${1:-60}
version=0.13.2
nightly
cargo fuzz --version >/dev/null 2>&1 || cargo install cargo-fuzz --locked --version "$version"

# libFuzzer takes 32 bits; 0 is a fresh seed.
seed=$((${SAMARA_SEED:-0} & 0xffffffff))
host=x86_64-unknown-linux-gnu
export CARGO_TARGET_DIR=${SAMARA_FUZZ_TARGET_DIR:-$PWD/fuzz/target}
features=()
mapfile -t targets < <(cargo +nightly fuzz list)
if [ "$seconds" -lt 60 ]; then
    export CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_DEBUG=0 RUSTFLAGS="${RUSTFLAGS:-} --cfg samara_few"
    features=(--no-default-features) targets=(range_map shared_map address_space)
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cargo +nightly fuzz build "${features[@]}" --target "$host"
for target in "${targets[@]}"; do
    mkdir -p "fuzz/corpus/$target"
    # A script of 600 operations has about 16 KiB; 2 GiB is far more than a batch may take.
    cargo +nightly fuzz run "${features[@]}" --target "$host" "$target" -- -seed="$seed" -max_total_time="$seconds" \
        -max_len=8192 -len_control=20 -rss_limit_mb=2048 -timeout=20 -print_final_stats=1 \
        </dev/null >"$log" 2>&1 || { tail -n 200 "$log"; echo "fuzz: $target failed"; exit 1; }
    grep -E 'samara-fuzz-ops' "$log" | tail -n 1 || true
    grep -E 'stat::(number_of_executed_units|peak_rss_mb)' "$log" || true
    echo "fuzz: $target ran for $seconds s without a failure"
done
