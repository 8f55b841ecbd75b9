#!/usr/bin/env bash
# The models of what threads do to the shared tree: loom runs them in every order of their steps, up to a number of
# preemptions (LOOM_MAX_PREEMPTIONS for another one). SAMARA_MODEL_SHAPES: how many trees are drawn for a store each.
# A long campaign: LOOM_MAX_PREEMPTIONS=3 SAMARA_MODEL_SHAPES=5000 MODELS_SECONDS=36000 ci/models.sh
# Some three minutes on two processors that are idle, with what it builds.
set -euo pipefail
cd "$(dirname "$0")/.."

# Everything is built anew for another --cfg: apart, so that nothing else is.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/loom RUSTFLAGS="${RUSTFLAGS:-} --cfg loom"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
timeout "${MODELS_SECONDS:-600}" cargo test --release --package samara-models --lib -- --nocapture >"$log" 2>&1 || { tail -n 200 "$log"; exit 1; }
grep -oE 'model [a-z_]+: .*' "$log"
grep -E '^test result' "$log"
# Each test says how far it went.
test "$(grep -cE 'model [a-z_]+: [0-9]+ ways' "$log")" -ge 41
