#!/usr/bin/env bash
# Which part of the time that recording without stops adds is spent in the kernel's events, and which
# comes from the recorder's work beside the program: the loop of `no-stop.sh`, its processor time as a
# part of the plain program's.
# - beside a busy loop: not recorded, while another process uses a processor. More than 1.0 means that
#   processors share a core, or that their clock drops.
# - recorder stopped: the events are on, and the recorder does nothing while the loop runs.
# - recorder running: as usual.
# Medians of interleaved runs (RUNS, 5), after one that is not counted; and the least of them, which say
# more on a machine whose processors run at two speeds. Needs gcc and jq, and rights to use perf events
# and BPF. `cargo build --release` first.
set -euo pipefail
shopt -s inherit_errexit
. "$(dirname "$0")/lib.sh"

cat >"$dir/part.c" <<'C'
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
static double used(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 + (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
}
/* So few pairs that the rings take their events while nobody reads them. */
int main(int words, char **word) {
    int stops = words > 1 && !strcmp(word[1], "stopped");
    if (stops) kill(getppid(), SIGSTOP);
    usleep(100000);
    double before = used();
    for (int i = 0; i < 2500; i++) {
        char *at = mmap(0, 0x4000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        at[0] = 1;
        munmap(at, 0x4000);
    }
    double took = used() - before;
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
        "$samara" trace ${1#* } -q -o "$dir/t.samara" --summary-json "$dir/s.json" -- "$dir/part" "${1%% *}"
        rm "$dir/t.samara"
        jq -r '.notes[] | select(startswith("without stops"))' "$dir/s.json" >>"$dir/notes"
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
