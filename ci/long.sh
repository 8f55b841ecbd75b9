#!/usr/bin/env bash
# The long campaigns, with a fresh seed each time; no part of CI. All of them take some hours;
# `ci/long.sh tree calls` runs the named ones. SAMARA_SEED=N repeats the random choices of a run;
# SAMARA_FUZZ_SECONDS are those of each fuzz target, SAMARA_CELLS the keys of the trees. The
# last line of the output is one line of JSON: the seed, each campaign with its counts and its seconds,
# and the campaign that failed, or null.
set -euo pipefail
cd "$(dirname "$0")/.."

all=(newcomer package tests tree calls races losses stress models fuzz miri tsan aarch64 rivals msrv kernels)
seed=${SAMARA_SEED:-$(date +%s)}
export SAMARA_SEED=$seed CI=true
log=$(mktemp)
done=()
running=null

report() {
    local list
    list=$(IFS=,; echo "${done[*]}")
    printf '{"seed":%s,"commit":"%s","campaigns":[%s],"failed":%s,"seconds":%s}\n' \
        "$seed" "$(git describe --always --dirty)" "$list" "$running" "$SECONDS"
    rm -f "$log"
}
trap report EXIT

# Runs a command; its output goes to the log. Where the command fails, the end of the log is shown, and
# all of it kept: a fault may be too rare to be seen twice.
logged() {
    "$@" >"$log" 2>&1 && return
    tail -n 200 "$log"
    mkdir -p target
    cp "$log" "target/long-$campaign-$seed.log"
    echo "long: failed: SAMARA_SEED=$seed $*: all of its output is in target/long-$campaign-$seed.log"
    exit 1
}
# How many lines of the log match a pattern.
lines() { grep -cE "$1" "$log" || true; }
# The tests that the log says have passed.
passed() { awk '/^test result: ok/ { sum += $4 } END { print sum + 0 }' "$log"; }
# Notes the counts of the campaign that has ended: NAME NUMBER...
counts() {
    local fields
    fields=$(printf ',"%s":%s' "$@")
    done+=("{\"campaign\":\"$campaign\"$fields,\"seconds\":$((SECONDS - start))}")
}

# The README's two commands in a fresh clone, within their processor time.
newcomer() {
    logged ci/newcomer.sh
    counts build "$(awk '/^newcomer: cargo build/ { print $(NF - 4) }' "$log")" test "$(awk '/^newcomer: cargo test/ { print $(NF - 4) }' "$log")"
}

# What users install: built, installed in a clean root, run and removed.
package() {
    logged ci/package.sh
    counts kib "$(sed -nE 's/^package: static binary, ([0-9]+) KiB.*/\1/p' "$log")" installed "$(lines '^install: .* installed, run, removed')"
}

# All tests: those that are too long for each change too, and more kinds of maps.
tests() {
    logged ci/programs.sh
    logged env SAMARA_REQUIRE_PROGRAMS=1 SAMARA_ALL_BYTES=1 cargo test --locked --workspace --features samara/long,samara-mm/long -- --include-ignored
    counts tests "$(passed)"
}

# At least ten million random operations on the tree, and some on shared maps, against the reference map;
# and every tree of the smallest nodes over SAMARA_CELLS keys.
tree() {
    local operations trees
    logged cargo test --locked --package samara --features long --test properties --test maps -- --nocapture \
        real_ tiny_ compact_ wide_ epoch_both other_searches
    # The runner's own words may come before ours on a line.
    operations=$(grep -oE 'samara-ops [0-9]+' "$log" | awk '{ sum += $2 } END { print sum + 0 }')
    [ "$operations" -ge 10000000 ]
    trees=$(passed)
    SAMARA_CELLS=${SAMARA_CELLS:-12} logged ci/trees.sh
    counts operations "$operations" tests "$((trees + $(passed)))" trees "$(grep -oE 'cells: [0-9]+ states' "$log" | awk '{ sum += $2 } END { print sum + 0 }')"
}

# Three million random calls on the model and on the running kernel.
calls() {
    local part
    for part in 0 1 2; do
        logged cargo run --locked --quiet --release --package samara-cli -- check --ops 1000000 --seed "$((seed + part))"
    done
    counts calls 3000000
}

# Programs whose threads race for the same pages: each recorded, and each run by the engine.
races() {
    export SAMARA_RACES=${SAMARA_RACES:-738}
    logged cargo test --locked --package samara-record --features bpf --test traced_programs -- races --include-ignored --nocapture
    counts programs "$SAMARA_RACES" calls "$(sed -nE 's/.*races: [0-9]+ programs four times, ([0-9]+) calls.*/\1/p' "$log")"
}

# Recordings without stops that lose events of forks, calls and ends.
losses() {
    local n rounds=${SAMARA_LOSSES:-100}
    for n in $(seq "$rounds"); do
        logged cargo test --locked --package samara-record --features bpf --test traced_programs -- nostop_loses --nocapture
    done
    counts rounds "$rounds"
}

# Threads that call, fault and fork on shared spaces while something fails in every step.
stress() {
    export SAMARA_ROUNDS=${SAMARA_ROUNDS:-20000}
    logged cargo test --locked --package samara-mm --test failing_steps -- --nocapture
    counts rounds "$SAMARA_ROUNDS" calls "$(sed -nE 's/.*failing steps: [0-9]+ rounds, ([0-9]+) calls.*/\1/p' "$log")"
}

# The models of threads, with more preemptions than in CI, and more trees.
models() {
    # First those of two threads with few steps each, which allow more.
    export MODELS_SECONDS=${MODELS_SECONDS:-7200}
    LOOM_MAX_PREEMPTIONS=6 logged ci/models.sh two_snapshots snapshot_and_reader one_reader
    LOOM_MAX_PREEMPTIONS=${LOOM_MAX_PREEMPTIONS:-3} SAMARA_MODEL_SHAPES=${SAMARA_MODEL_SHAPES:-2000} logged ci/models.sh
    counts models "$(lines '^model .* interleavings')" interleavings "$(awk '/^model .* interleavings/ { sum += $3 } END { print sum + 0 }' "$log")"
}

# Ten minutes of each fuzz target.
fuzz() {
    local seconds=${SAMARA_FUZZ_SECONDS:-600}
    logged ci/fuzz.sh "$seconds"
    counts targets "$(lines 'without a failure')" seconds_each "$seconds" \
        inputs "$(awk '/number_of_executed_units/ { sum += $2 } END { print sum + 0 }' "$log")"
}

# All tests under Miri.
miri() {
    MIRI_SEED=$seed logged ci/miri.sh full
    counts tests "$(awk '/^miri: [0-9]+ tests without/ { print $2 }' "$log")"
}

# All tests of threads under ThreadSanitizer.
tsan() {
    logged ci/tsan.sh full
    counts tests "$(passed)"
}

# The tree's tests on aarch64.
aarch64() {
    logged ci/aarch64.sh full
    counts tests "$(passed)"
}

# The tests of the rivals, and a short run of each suite.
rivals() {
    logged ci/rivals.sh full
    counts tests "$(passed)" figures "$(awk '/^rivals: [0-9]+ figures/ { print $2 }' "$log")"
}

# The workspace checks with the oldest Rust that it promises, and what is portable on Windows too.
msrv() {
    logged ci/portable.sh full
    logged ci/msrv.sh
    counts rust "\"$(awk '/^msrv: / { print $2 }' "$log")\""
}

# Samara on every kernel that the model is compared with, one of them with page tables of five
# levels: all parts.
kernels() {
    export SAMARA_KERNELS_OPS=${SAMARA_KERNELS_OPS:-20000}
    logged ci/kernels.sh --all 5.10 6.1 6.12 6.16 6.17 6.18 6.19+la57 7.0 7.1 7.2 newest
    counts kernels "$(grep -oE '"release":"' "$log" | wc -l)" calls_each "$SAMARA_KERNELS_OPS"
}

[ $# -gt 0 ] || set -- "${all[@]}"
for campaign in "$@"; do
    [[ " ${all[*]} " == *" $campaign "* ]] || { echo "long: no campaign $campaign; there are: ${all[*]}" >&2; exit 2; }
done
for campaign in "$@"; do
    start=$SECONDS
    running="\"$campaign\""
    "$campaign"
    running=null
    echo "long: $campaign: $((SECONDS - start)) s"
done
