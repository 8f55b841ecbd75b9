#!/usr/bin/env bash
# The rivals of bench/rivals, a workspace of its own: every subject gives the right answer in every
# case. `full`: lints too, and a short run of each suite, as a user types it.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/lib.sh

# One target directory: `samara-bench` builds the rivals there too.
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
cargo test --locked --manifest-path bench/rivals/Cargo.toml
cargo test --locked --package samara-bench --lib
full "$@" || exit 0

cargo clippy --locked --manifest-path bench/rivals/Cargo.toml --all-targets -- -D warnings
lines=$(mktemp) figures=$(mktemp)
trap 'rm -f "$lines" "$lines.svg" "$figures"' EXIT
cargo run --locked --quiet --release --package samara-bench -- index --quick --n 1000 --json >"$lines"
cargo run --locked --quiet --release --package samara-bench -- shared --quick --n 1000 --json >>"$lines"
cargo run --locked --quiet --release --package samara-bench -- spaces --quick --rounds 1 --n 1000 --json >>"$lines"
cargo run --locked --quiet --release --package samara-bench -- figures --quick --rounds 1 --n 1024,421,16,21,50,6000 --json >"$figures"
cargo run --locked --quiet --release --package samara-bench -- figures --from "$figures" --against "$figures" | grep -q '^0 of'
cargo run --locked --quiet --release --package samara-bench -- plot "$lines" --case lookup,replace,read_scaling --output "$lines.svg"
test "$(grep -c '"case":"lookup"' "$lines")" -ge 14
test "$(grep -c '"case":"read_scaling".*"threads":2' "$lines")" -ge 12
test "$(grep -c '"case":"write_scaling".*"threads":2' "$lines")" -ge 12
test "$(grep -c '"case":"fault_one_area".*"threads":2' "$lines")" -ge 3
test "$(grep -c '"suite":"spaces"' "$lines")" -ge 100
test "$(grep -c '"design":"kernel"' "$figures")" -ge 10
test "$(grep -c '"case":"munmap_mmap"' "$figures")" -ge 9
test -s "$lines.svg"
echo "rivals: $(cat "$lines" "$figures" | wc -l) figures"
