#!/usr/bin/env bash
# Instructions of each operation of the tree, counted by valgrind, against the record in
# bench/instructions.txt. `--update` writes the record anew. Left out where valgrind has not the
# vectors that the record was made with.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/lib.sh

if ! command -v valgrind >/dev/null 2>&1; then
    [ "${CI:-}" = true ] || skip instructions "valgrind is not installed"
    ci/programs.sh
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! cargo run --locked --quiet --release --package samara-bench -- instructions "$@" 2>"$log"; then
    cat "$log" >&2
    ! why=$(grep 'nothing to compare with' "$log") || skip instructions "$why"
    exit 1
fi
