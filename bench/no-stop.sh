#!/usr/bin/env bash
# How much longer a program takes that only maps, touches and unmaps memory, by recorder: the time of
# the program itself, in milliseconds, as a part of the plain program's; medians of interleaved runs
# (RUNS, 5), after one that is not counted. The last column is its processor time, which a busy
# machine changes less. Needs gcc, jq, and rights to use perf events and BPF. `cargo build --release`
# first.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

loop_of_pairs "$dir"
cat >"$dir/pairs.c" <<'C'
#include "pairs.h"
#include <stdio.h>
#include <stdlib.h>
int main(int words, char **word) {
    pairs(atoi(word[1]));
    printf("%g\n", used_ms());
}
C
gcc -O2 -o "$dir/pairs" "$dir/pairs.c"
modes=(plain "--source bpf" "--source bpf --stacks" "--source perf" "--source perf --stacks" "" "--stacks")

once() { # MODE
    if [ "$1" = plain ]; then
        local began=$EPOCHREALTIME
        "$dir/pairs" 100000 >"$dir/used"
        awk -v from="$began" -v to="$EPOCHREALTIME" 'BEGIN { print (to - from) * 1000 }'
    else
        # shellcheck disable=SC2086 # a mode is several words
        "$samara" trace $1 -q -o "$dir/t.samara" --summary-json "$dir/s.json" -- "$dir/pairs" 100000 >"$dir/used"
        rm "$dir/t.samara"
        jq '.program_ns / 1e6' "$dir/s.json"
        jq -r '.notes[] | select(startswith("without stops"))' "$dir/s.json" >>"$dir/notes"
    fi
}
for run in $(seq 0 "$runs"); do
    for i in "${!modes[@]}"; do
        took=$(once "${modes[i]}")
        [ "$run" = 0 ] || { echo "$took" >>"$dir/$i" && cat "$dir/used" >>"$dir/$i.used"; }
    done
done
plain=$(median <"$dir/0") used=$(median <"$dir/0.used")
echo "| samara trace ... | ms | of plain | least | greatest | processor time of plain |"
echo "|---|---|---|---|---|---|"
for i in "${!modes[@]}"; do
    sort -n "$dir/$i" | awk -v name="${modes[i]:-(stops)}" -v median="$(median <"$dir/$i")" -v plain="$plain" \
        -v used="$(median <"$dir/$i.used")" -v plain_used="$used" \
        'NR == 1 { least = $1 } { most = $1 }
         END { printf "| %s | %.0f | %.2f | %.2f | %.2f | %.2f |\n", name, median, median / plain, least / plain,
               most / plain, used / plain_used }'
done
sort "$dir/notes" | uniq -c
