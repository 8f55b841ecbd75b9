#!/usr/bin/env bash
# Runs every fuzz target for a while (seconds each: first argument, default 60), on nightly.
# The corpus and what crashes lie in fuzz/corpus and fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
version=0.13.2
rustup toolchain list | grep -q "^nightly" || rustup toolchain install nightly --profile minimal

cargo fuzz --version >/dev/null 2>&1 || cargo install cargo-fuzz --locked --version "$version"

export CARGO_TARGET_DIR=${SAMARA_FUZZ_TARGET_DIR:-$PWD/fuzz/target}
mkdir -p fuzz/corpus
for target in range_map shared_map address_space trace_file trace_print; do
    cargo +nightly fuzz build --target x86_64-unknown-linux-gnu "$target"
    mkdir -p "fuzz/corpus/$target"
    log=$(mktemp)
    # A script of 600 operations has about 16 KiB; 1 GiB is far more than a batch may take.
    cargo +nightly fuzz run --target x86_64-unknown-linux-gnu "$target" -- \
        -max_total_time="$seconds" -max_len=8192 -len_control=20 -rss_limit_mb=2048 -timeout=20 -print_final_stats=1 \
        </dev/null >"$log" 2>&1 || { tail -n 200 "$log"; rm -f "$log"; echo "fuzz: $target failed"; exit 1; }
    grep -E 'samara-fuzz-ops' "$log" | tail -n 1 || true
    grep -E 'stat::(number_of_executed_units|peak_rss_mb)' "$log" || true
    rm -f "$log"
    echo "fuzz: $target ran for $seconds s without a failure"
done
