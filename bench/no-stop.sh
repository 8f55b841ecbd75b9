#!/usr/bin/env bash
# How much longer a program takes that only maps, touches and unmaps memory, by recorder: the time of
# its loop, in milliseconds, as a part of the plain program's; medians of interleaved runs (RUNS, 5),
# after one that is not counted. The last column is the program's processor time, which a busy machine
# changes less. No summary is made (`--quiet`). Needs gcc, jq, and rights to use perf events and BPF.
# `cargo build --release` first.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

loop_of_pairs "$dir"
cat >"$dir/pairs.c" <<'C'
#include "pairs.h"
#include <stdio.h>
#include <stdlib.h>
int main(int words, char **word) {
    double began = now_ms();
    pairs(atoi(word[1]));
    printf("%g %g\n", now_ms() - began, used_ms());
}
C
gcc -O2 -o "$dir/pairs" "$dir/pairs.c"
modes=(plain "--source bpf" "--source bpf --stacks" "--source perf" "--source perf --stacks" "" "--stacks")

once() { # MODE: the loop's time, and its processor time
    settled
    if [ "$1" = plain ]; then
        "$dir/pairs" 100000
    else
        # shellcheck disable=SC2086 # a mode is several words
        "$samara" trace $1 -q -o "$dir/t.samara" -- "$dir/pairs" 100000
        losses "$1" "$dir/t.samara" >>"$dir/notes"
        rm "$dir/t.samara"
    fi
}
for run in $(seq 0 "$runs"); do
    for i in "${!modes[@]}"; do
        once "${modes[i]}" >"$dir/one"
        [ "$run" = 0 ] || { cut -d' ' -f1 "$dir/one" >>"$dir/$i" && cut -d' ' -f2 "$dir/one" >>"$dir/$i.used"; }
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
