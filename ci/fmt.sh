#!/usr/bin/env bash
# Formatting of everything, the fuzz targets included.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --all -- --check
cargo fmt --manifest-path fuzz/Cargo.toml -- --check
