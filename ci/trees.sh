#!/usr/bin/env bash
# Every tree of the smallest nodes over a few keys, each operation on each, compared with a list: of
# SAMARA_CELLS keys (9 by default).
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --locked --release --package samara --features long --lib every_tree -- --nocapture
