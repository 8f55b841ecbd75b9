#!/usr/bin/env bash
# Formatting of every workspace, and of the examples in the documentation of the libraries where
# there is a nightly rustfmt: that option is not stable.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/lib.sh

cargo fmt --all -- --check
cargo fmt --manifest-path fuzz/Cargo.toml -- --check
cargo fmt --manifest-path bench/rivals/Cargo.toml -- --check

if [ "${CI:-}" = true ]; then nightly rustfmt; fi
rustup run nightly rustfmt --version >/dev/null 2>&1 || skip fmt "no nightly rustfmt: examples in documentation were not looked at"
rustup run nightly rustfmt --edition 2024 --config format_code_in_doc_comments=true --check crates/{samara,samara-mm,samara-trace,samara-record,samara-probe}/src/lib.rs
