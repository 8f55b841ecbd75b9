#!/usr/bin/env bash
# Models of what threads do to the shared tree, run by loom in every order of their steps, up to a
# number of preemptions (LOOM_MAX_PREEMPTIONS raises it). SAMARA_MODEL_SHAPES sets how many trees are
# drawn for one store each, MODELS_SECONDS after what time the run fails. Arguments choose tests.
# A long campaign: LOOM_MAX_PREEMPTIONS=3 SAMARA_MODEL_SHAPES=5000 MODELS_SECONDS=36000 ci/models.sh
set -euo pipefail
cd "$(dirname "$0")/.."

# `--cfg loom` builds everything anew: a target directory apart, so that other builds stay.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/loom RUSTFLAGS="${RUSTFLAGS:-} --cfg loom"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
timeout "${MODELS_SECONDS:-600}" cargo test --locked --release --package samara-models --lib -- --nocapture "$@" >"$log" 2>&1 ||
    { tail -n 200 "$log"; exit 1; }
grep -oE 'model [a-z_]+: .*' "$log"
grep -E '^test result' "$log"
# Each test says how far it went.
[ $# -gt 0 ] || test "$(grep -cE 'model [a-z_]+: [0-9]+ interleavings' "$log")" -ge 70
