#!/usr/bin/env bash
# Formatting of every workspace.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --all -- --check
cargo fmt --manifest-path fuzz/Cargo.toml -- --check
cargo fmt --manifest-path bench/rivals/Cargo.toml -- --check
