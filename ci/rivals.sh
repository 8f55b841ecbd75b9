#!/usr/bin/env bash
# The rivals of bench/rivals: that every subject gives the right answers in every case, lints, and a short run as a user
# types it. A workspace of its own, so nothing else of CI builds it.
set -euo pipefail
cd "$(dirname "$0")/.."

# One target directory: what samara-bench builds is not built again.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
cargo fmt --manifest-path bench/rivals/Cargo.toml -- --check
cargo clippy --manifest-path bench/rivals/Cargo.toml --all-targets -- -D warnings
cargo test --manifest-path bench/rivals/Cargo.toml

lines=$(mktemp)
trap 'rm -f "$lines" "$lines.svg"' EXIT
cargo run --quiet --release --package samara-bench -- index --quick --n 1000 --json >"$lines"
cargo run --quiet --release --package samara-bench -- shared --quick --n 1000 --json >>"$lines"
cargo run --quiet --release --package samara-bench -- plot "$lines" --case lookup,replace,read_scaling --output "$lines.svg"
test "$(grep -c '"case":"lookup"' "$lines")" -ge 14
test "$(grep -c '"case":"read_scaling".*"threads":2' "$lines")" -ge 12
test "$(grep -c '"case":"write_scaling".*"threads":2' "$lines")" -ge 12
test -s "$lines.svg"
echo "rivals: $(wc -l <"$lines") figures"
