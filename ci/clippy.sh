#!/usr/bin/env bash
# Lints of the workspace, tests and benchmarks included, and of the fuzz targets; a warning fails.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo clippy --locked --workspace --all-targets -- -D warnings
# What `ci/long.sh tests` alone builds.
cargo clippy --locked --package samara --package samara-mm --tests --features samara/long,samara-mm/long -- -D warnings
# Without its test features, as a user builds it, in each set of features.
cargo clippy --locked --package samara --lib -- -D warnings
cargo clippy --locked --package samara --lib --no-default-features -- -D warnings
cargo clippy --locked --package samara --lib --no-default-features --features shared -- -D warnings
cargo clippy --locked --package samara-mm --lib -- -D warnings
cargo clippy --locked --package samara-mm --lib --no-default-features -- -D warnings
cargo clippy --locked --package samara-mm --lib --no-default-features --features shared -- -D warnings
cargo clippy --locked --package samara-record --lib -- -D warnings
# A workspace of its own, which `ci/fuzz.sh` builds at every second run only.
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target} cargo clippy --locked --manifest-path fuzz/Cargo.toml -- -D warnings
