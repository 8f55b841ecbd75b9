#!/usr/bin/env bash
# Splits the time that recording without stops adds: the kernel's events, and the recorder's work beside
# the program. Prints the processor time of the loop of `no-stop.sh`:
# - plain: not recorded.
# - busy: not recorded, while another process uses a processor. More than 1.0 means that processors
#   share a core, or that their clock drops.
# - stopped: recorded, and the recorder is stopped by a signal while the loop runs.
# - running: recorded as usual.
# Medians of interleaved runs (RUNS, 5), after one that is not counted; and the least of them, which say
# more on a machine whose processors run at two speeds. Needs gcc and jq, and rights to use perf events
# and BPF. `cargo build --release` first.
set -euo pipefail
shopt -s inherit_errexit
. "$(dirname "$0")/lib.sh"

loop_of_pairs "$dir"
cat >"$dir/part.c" <<'C'
#include "pairs.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int words, char **word) {
    int stops = words > 1 && !strcmp(word[1], "stopped");
    if (stops) kill(getppid(), SIGSTOP);
    usleep(100000);
    double before = used_ms();
    pairs(2500); /* the rings have room for their events, while the recorder does not read them */
    double took = used_ms() - before;
    if (stops) kill(getppid(), SIGCONT);
    printf("%g\n", took);
}
C
gcc -O2 -o "$dir/part" "$dir/part.c"
echo 'int main(void) { for (volatile long i = 0;; i++); }' >"$dir/busy.c"
gcc -O2 -o "$dir/busy" "$dir/busy.c"
modes=(plain busy "stopped --source bpf" "running --source bpf" "stopped --source perf" "running --source perf")

once() { # MODE
    local busy
    settled
    case $1 in
    plain) "$dir/part" ;;
    busy)
        "$dir/busy" &
        busy=$!
        "$dir/part"
        kill $busy
        wait $busy 2>"$dir/ended" || true
        ;;
    *)
        # shellcheck disable=SC2086 # a mode is several words
        "$samara" trace ${1#* } -q -o "$dir/t.samara" -- "$dir/part" "${1%% *}"
        losses "${1#* }" "$dir/t.samara" >>"$dir/notes"
        rm "$dir/t.samara"
        ;;
    esac
}
for run in $(seq 0 "$runs"); do
    for i in "${!modes[@]}"; do
        took=$(once "${modes[i]}")
        [ "$run" = 0 ] || echo "$took" >>"$dir/$i"
    done
done
plain=$(median <"$dir/0") least=$(sort -n "$dir/0" | head -1)
echo "| the loop's processor time | ms | of plain | least, ms | of plain's least |"
echo "|---|---|---|---|---|"
for i in "${!modes[@]}"; do
    awk -v name="${modes[i]}" -v ms="$(median <"$dir/$i")" -v plain="$plain" -v own="$(sort -n "$dir/$i" | head -1)" \
        -v least="$least" 'BEGIN { printf "| %s | %.1f | %.2f | %.1f | %.2f |\n", name, ms, ms / plain, own, own / least }'
done
sort "$dir/notes" | uniq -c
