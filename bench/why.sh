#!/usr/bin/env bash
# Cost of `samara why` on a trace of a million calls with stacks: wall seconds and peak resident
# size in MiB, medians of RUNS (5). Needs gcc and GNU time. `cargo build --release` first.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

million_calls "$dir"
"$samara" trace --quiet --stacks -o "$dir/million.samara" -- "$dir/million"

echo "| command | s | MiB |"
echo "|---|---|---|"
for command in why summary "why --json" "why --folded"; do
    for _ in $(seq "$runs"); do
        # shellcheck disable=SC2086
        /usr/bin/time -f '%e %M' -a -o "$dir/times" "$samara" $command "$dir/million.samara" >/dev/null
    done
    echo "| \`samara $command\` | $(cut -d' ' -f1 "$dir/times" | median) | $(($(cut -d' ' -f2 "$dir/times" | median) / 1024)) |"
    rm "$dir/times"
done
