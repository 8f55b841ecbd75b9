#!/usr/bin/env bash
# Instructions of each operation of the tree against the record in bench/instructions.txt.
# Needs valgrind: without it this is skipped, but in CI it is installed, or fails.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v valgrind >/dev/null 2>&1; then
    if [ "${CI:-}" != true ]; then
        echo "skipped: instructions: valgrind is not installed"
        exit 0
    fi
    ci/programs.sh
fi
cargo run --quiet --release --package samara-bench -- instructions "$@"
