#!/usr/bin/env bash
# Instructions of each operation of the tree, counted by valgrind, against the record in
# bench/instructions.txt. `--update` writes the record anew.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/lib.sh

if ! command -v valgrind >/dev/null 2>&1; then
    [ "${CI:-}" = true ] || skip instructions "valgrind is not installed"
    ci/programs.sh
fi
cargo run --locked --quiet --release --package samara-bench -- instructions "$@"
