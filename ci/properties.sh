#!/usr/bin/env bash
# The tree's property tests, with their count of operations: at least 10 million must agree with the oracle.
set -euo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Of the whole workspace, so that the tests at the end find it built.
cargo test --workspace --test properties -- --nocapture >"$log" 2>&1 || { tail -n 200 "$log"; exit 1; }
# The runner's own words may stand before ours on a line.
ops=$(grep -o 'samara-ops [0-9]*' "$log" | awk '{ sum += $2 } END { print sum + 0 }')
grep -E '^(skipped|test result)' "$log" || true
echo "properties: $ops random operations without a difference"
[ "$ops" -ge 10000000 ]
