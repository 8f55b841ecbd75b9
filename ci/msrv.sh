#!/usr/bin/env bash
# The workspace, tests included, checks with the oldest Rust that Cargo.toml promises (`rust-version`).
# In CI, clippy's `incompatible_msrv` sees what the standard library lacks there; this sees the
# language and the dependencies too.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/lib.sh

version=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
rustup toolchain list | grep -q "^$version" || rustup toolchain install "$version" --profile minimal
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/msrv cargo "+$version" check --locked --workspace --all-targets
echo "msrv: $version checks the workspace"
