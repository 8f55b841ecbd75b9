#!/usr/bin/env bash
# The model of an address space beside the running kernel: random calls of every mix, always the same, so that what passes here passes again; more
# calls and other seeds are in `ci/long.sh`. A mix that this kernel, or this user, has not what it needs for is left out, and said so.
set -euo pipefail
cd "$(dirname "$0")/.."

samara() { cargo run --quiet --release --package samara-cli -- "$@"; }
# What the model does not know of older kernels are differences, and no fault.
if ! samara check --ops 100 --mix basic --json | grep -q move-many; then
    echo "skipped: samara check: this kernel is older than Linux 6.17"
    exit 0
fi
samara check --ops 500000 --seed 1
