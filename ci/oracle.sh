#!/usr/bin/env bash
# The model of an address space against the running kernel, in every mix: 100,000 random calls, always
# the same ones, so that what passes here passes again. The tests of samara-oracle make 250,000 others;
# `ci/long.sh calls` makes three million, with a fresh seed. Skipped where the kernel is older or newer
# than those that the model was compared with, or where this user may not make some of the calls.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/lib.sh

# The binary that the tests run, with its overflow checks and assertions: nothing is built for this
# script alone.
cargo test --locked --quiet --workspace --no-run
samara() { "${CARGO_TARGET_DIR:-target}/debug/samara" "$@"; }

# The rules of other kernels are not known.
samara check --ops 100 --mix basic --json | grep -q '"tested":"tested"' || skip oracle "the model was never compared with kernels like this one"
result=$(samara check --ops 100000 --seed 2 --json) || { echo "$result"; exit 1; }
grep -q '"skipped":\[\]' <<<"$result" || skip oracle "mixes are left out: $(grep -o '"skipped":.*' <<<"$result")"
echo "oracle: $(grep -o '"compared":[0-9]*' <<<"$result" | head -n 1 | cut -d: -f2) calls, no difference"
