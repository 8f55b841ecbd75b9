#!/usr/bin/env bash
# The model of an address space beside the running kernel: random calls of every mix, always the same, so that what passes here passes again; other
# seeds are for whoever looks for differences. A mix that this kernel, or this user, has not what it needs for is left out, and said so.
set -euo pipefail
cd "$(dirname "$0")/.."

for seed in 1 2 3; do
    cargo run --quiet --release --package samara-cli -- check --ops 1000000 --seed "$seed"
done
