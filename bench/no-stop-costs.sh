#!/usr/bin/env bash
# What recording without stops costs, besides the loop of `no-stop.sh`:
# - a system call of a process that is not recorded (getppid);
# - a redis that is recorded: GET requests, and its processor time for each;
# - that loop in eight threads, and what the recorder itself uses for each call;
# - a thread that is made and joined.
# Medians of interleaved runs (RUNS, 5), after one that is not counted. Needs gcc, jq, redis-server and
# redis-benchmark, and rights to use perf events and BPF. `cargo build --release` first.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

loop_of_pairs "$dir"
cat >"$dir/calls.c" <<'C'
#include "pairs.h"
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
    double began = now_ms();
    for (int i = 0; i < 5000000; i++) syscall(SYS_getppid);
    printf("%g\n", (now_ms() - began) * 1e6 / 5e6);
}
C
cat >"$dir/threads.c" <<'C'
#include "pairs.h"
#include <pthread.h>
#include <stdio.h>
static void *run(void *none) {
    pairs(20000);
    return none;
}
int main(void) {
    pthread_t all[8];
    double began = now_ms();
    for (int i = 0; i < 8; i++) pthread_create(&all[i], 0, run, 0);
    for (int i = 0; i < 8; i++) pthread_join(all[i], 0);
    printf("%g %g\n", now_ms() - began, used_ms());
}
C
cat >"$dir/births.c" <<'C'
#include "pairs.h"
#include <pthread.h>
#include <stdio.h>
static void *run(void *none) { return none; }
int main(void) {
    double began = now_ms();
    for (int i = 0; i < 2000; i++) {
        pthread_t one;
        pthread_create(&one, 0, run, 0);
        pthread_join(one, 0);
    }
    printf("%g\n", (now_ms() - began) * 1e3 / 2000);
}
C
gcc -O2 -o "$dir/calls" "$dir/calls.c"
gcc -O2 -pthread -o "$dir/births" "$dir/births.c"
gcc -O2 -pthread -o "$dir/threads" "$dir/threads.c"
redis-server --port 0 --unixsocket "$dir/s" --save '' --dir "$dir" --logfile "$dir/log" &
server=$!
sleep infinity &
other=$!
trap 'kill $server $other; wait; rm -rf "$dir"' EXIT
sleep 1
modes=(plain "--source bpf" "--source bpf --stacks" "--source perf" "--source perf --stacks")
TIMEFORMAT='%U %S'

# Runs a command while samara records a process by a mode.
beside() { # PID MODE COMMAND...
    local pid=$1 mode=$2 recorder
    shift 2
    settled
    if [ "$mode" = plain ]; then "$@" && return; fi
    # shellcheck disable=SC2086 # a mode is several words
    "$samara" trace $mode -q -o "$dir/t.samara" --pid "$pid" >&2 &
    recorder=$!
    sleep 1
    "$@"
    kill -TERM $recorder
    wait $recorder || true
    note "$mode"
}
note() { # MODE
    losses "$1" "$dir/t.samara" >>"$dir/notes"
    rm "$dir/t.samara"
}
ticks() { awk '{ print $14 + $15 }' "/proc/$server/stat"; } # of 10 ms
get() { # GETs: thousands a second, and the server's microseconds for each
    local before
    before=$(ticks)
    redis-benchmark -s "$dir/s" -t get -n 300000 -c 20 --csv | awk -F'"' '/GET/ { print $4 / 1000 }'
    awk -v ticks=$(($(ticks) - before)) 'BEGIN { print ticks * 1e4 / 300000 }'
}
loop() { # MODE: milliseconds, those of its processor time, and the recorder's microseconds for a call
    settled
    if [ "$1" = plain ]; then
        echo "$("$dir/threads") 0"
        return
    fi
    # shellcheck disable=SC2086
    { time "$samara" trace $1 -q -o "$dir/t.samara" -- "$dir/threads" >"$dir/used"; } 2>"$dir/time"
    paste -d' ' "$dir/used" "$dir/time" | awk '{ print $1, $2, (($3 + $4) * 1e3 - $2) * 1e3 / 320000 }'
    note "$1, 8 threads"
}
births() { # MODE: microseconds
    settled
    # shellcheck disable=SC2086
    if [ "$1" = plain ]; then "$dir/births"; else "$samara" trace $1 -q -o "$dir/t.samara" -- "$dir/births"; fi
}
for run in $(seq 0 "$runs"); do
    for i in "${!modes[@]}"; do
        mode=${modes[i]}
        { beside $other "$mode" "$dir/calls" && beside $server "$mode" get && loop "$mode" && births "$mode"; } >"$dir/one"
        [ "$run" = 0 ] || paste -sd' ' "$dir/one" >>"$dir/$i"
    done
done
column() { awk -v n="$2" '{ print $n }' "$dir/$1" | median; }
echo "| recorded by | a call of others, ns | GET, k/s | of plain | server, us each | 8 threads, ms | of plain | processor time of plain | recorder, us a call | a thread, us |"
echo "|---|---|---|---|---|---|---|---|---|---|"
for i in "${!modes[@]}"; do
    awk -v name="${modes[i]}" -v calls="$(column "$i" 1)" -v get="$(column "$i" 2)" -v get0="$(column 0 2)" \
        -v cpu="$(column "$i" 3)" -v ms="$(column "$i" 4)" -v ms0="$(column 0 4)" \
        -v used="$(column "$i" 5)" -v used0="$(column 0 5)" -v own="$(column "$i" 6)" \
        -v births="$(column "$i" 7)" 'BEGIN {
        printf "| %s | %.0f | %.1f | %.2f | %.2f | %.0f | %.2f | %.2f | %.2f | %.0f |\n",
            name, calls, get, get / get0, cpu, ms, ms / ms0, used / used0, own, births }'
done
sort "$dir/notes" | uniq -c
