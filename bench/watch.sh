#!/usr/bin/env bash
# Cost of `samara watch`: processor time in 60 s (readings every 10 s), after the first 15 s, for
# 1,000 processes that sleep and one of 60,000 areas; the same while that one changes five times a
# second; and for 10,000 processes. Other processes of the machine are watched too. Needs gcc.
# `cargo build --release` first.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

cat >"$dir/many.c" <<'C'
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
/* PROCESSES AREAS: PROCESSES children that sleep, and AREAS areas in this process. With a third word
   an area is mapped or unmapped every fifth of a second. */
int main(int words, char **word) {
    for (int i = atoi(word[1]); i > 0; i--)
        if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;) pause();
        }
    long pairs = atol(word[2]) / 2;
    char *at = pairs ? mmap(0, pairs * 8192 + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : 0;
    for (long i = 0; i < pairs; i++) mprotect(at + i * 8192, 4096, PROT_NONE);
    for (char *one = 0; words > 3; usleep(200000))
        if (one) munmap(one, 4096), one = 0;
        else one = mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (;;) pause();
}
C
gcc -O1 -o "$dir/many" "$dir/many.c"
address=127.0.0.1:19877
value() { # METRIC
    exec 3<>"/dev/tcp/${address%:*}/${address#*:}"
    printf 'GET /metrics HTTP/1.0\r\n\r\n' >&3
    awk -v name="$1" '$1 == name { print $2 }' <&3
    exec 3>&-
}

echo "| processes | processor time in 60 s, s | in the first 15 s, s | counts in 60 s |"
echo "|---|---|---|---|"
while read -r name arguments; do
    # shellcheck disable=SC2086
    "$dir/many" $arguments &
    many=$!
    sleep 15
    "$samara" watch --listen "$address" --state "$dir/state" 2>/dev/null &
    watch=$!
    sleep 15
    first=$(value samara_watch_cpu_seconds_total) counts=$(value samara_watch_counts_total)
    sleep 60
    last=$(value samara_watch_cpu_seconds_total)
    echo "| ${name//_/ } | $(awk "BEGIN { printf \"%.2f\", $last - $first }") | $(awk "BEGIN { printf \"%.2f\", $first }") | $(($(value samara_watch_counts_total) - counts)) |"
    kill "$watch" "$many"
    wait "$watch" "$many" || true
done <<'RUNS'
1,000_and_one_of_60,000_areas 1000 60000
the_same,_which_changes 1000 60000 changing
10,000 10000 0
RUNS
