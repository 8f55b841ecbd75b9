#!/usr/bin/env bash
# Public documentation; a warning (a broken link, a missing doc) fails. `cargo test` runs its examples.
set -euo pipefail
cd "$(dirname "$0")/.."

RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --package samara --package samara-mm --package samara-trace --package samara-record --package samara-probe --package samara-oracle --features samara/serde
