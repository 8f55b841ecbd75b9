#!/usr/bin/env bash
# Public documentation; a warning (a broken link, a missing doc) fails. Doc tests run with the tests.
set -euo pipefail
cd "$(dirname "$0")/.."

RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --package samara --package samara-mm --package samara-trace --features samara/serde
