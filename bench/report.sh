#!/usr/bin/env bash
# Cost of `samara report`: wall seconds, peak resident size in MiB, and MiB of page, for a million
# events with stacks (medians of RUNS, 5), and once for EVENTS (100,000,000; 0: not), which repeat
# the million. Needs gcc and GNU time. `cargo build --release` first.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
million_calls "$dir"
"$samara" trace --quiet --stacks -o "$dir/million.samara" -- "$dir/million"

echo "| events | s | MiB | MiB of page |"
echo "|---|---|---|---|"
row() {
    page=$(awk '{ printf "%.2f", $1 / 1048576 }' <<<"$(stat -c %s "$dir/report.html")")
    echo "| $1 | $(cut -d' ' -f1 "$dir/times" | median) | $(cut -d' ' -f2 "$dir/times" | median | awk '{ print int($1 / 1024) }') | $page |"
    rm "$dir/times"
}
for _ in $(seq "$runs"); do
    /usr/bin/time -f '%e %M' -a -o "$dir/times" "$samara" report "$dir/million.samara" -o "$dir/report.html" 2>/dev/null
done
row 1,000,000
events=${EVENTS:-100000000}
[ "$events" -gt 0 ] || exit 0
cargo build --quiet --release --package samara-trace --example repeat_trace
# The time includes the writer's, because the two wait for one another.
target/release/examples/repeat_trace "$dir/million.samara" "$events" |
    /usr/bin/time -f '%e %M' -o "$dir/times" "$samara" report /dev/stdin -o "$dir/report.html" 2>/dev/null
row "$events"
