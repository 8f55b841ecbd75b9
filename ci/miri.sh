#!/usr/bin/env bash
# Tests under Miri, which finds undefined behaviour and leaks; the tests shrink themselves. A few
# tests that reach every kind of unsafe code of the tree and of the shared map, and a shared space;
# `full`: all tests of samara and of its test kit, and samara-mm's tables. MIRI_SEED=N draws other
# orders of the threads.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/lib.sh

nightly miri rust-src
cargo +nightly miri setup
# Some tests read the environment; backtraces cost much.
export MIRIFLAGS="${MIRIFLAGS:-} -Zmiri-disable-isolation -Zmiri-seed=$((${MIRI_SEED:-0} & 0xffffffff))"
export RUST_BACKTRACE=0 CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/miri
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# What is run: arguments of `cargo miri test`, one run a line. A `+` runs it with Tree Borrows, a `^`
# with the AVX2 search, whatever the processor: all of it but its two functions of assembly. What
# takes longest begins first.
few() {
    cat <<'LIST'
--package samara --test shared_family -- random_calls_tiny threads_tiny
--package samara --lib
--package samara --test shared_stress -- tiny_nodes_membarrier an_update_is_one_instant
--package samara --test maps -- cursor_edits::tiny shared_cursor::steps_tiny shared_properties::tiny_whole shared_properties::tiny_pages a_clone_drops
--package samara --test out_of_memory -- shared_map::
--package samara --test properties -- real_u64_middle real_huge_whole tiny_dropped_low compact_u64_low
--package samara --test panics -- verbs::tiny
--package samara --test shared_writers -- panics seats
--package samara --test writer_reservations -- meanwhile_tiny refused
--package samara --test stages
--package samara --test neighbours
--package samara-mm --test page_memory
+--package samara --lib -- reclaim
^--package samara --lib --test properties -- vector_searches real_u64_middle
LIST
}

# Every test program is run whole, but for those named here.
all() {
    local file name
    echo "--package samara --features long --lib"
    for file in crates/samara/tests/*.rs crates/samara/tests/*/main.rs; do
        name=${file#crates/samara/tests/} name=${name%/main.rs} name=${name%.rs}
        case $name in
        # They count bytes of large maps, or fork.
        shared_map_bytes | slab_bytes | fork_and_seccomp) ;;
        # Of the random ones, a few.
        properties) echo "--package samara --features long --test properties -- real_u64_middle real_dropped real_large_both real_huge_whole real_u128_high tiny_u64_pages tiny_dropped tiny_u32_low compact_u64" ;;
        thin_nodes) echo "--package samara --features long --test thin_nodes -- tiny" ;;
        panics) echo "--package samara --features long --test panics -- tiny unfinished compound_verbs" ;;
        maps)
            echo "--package samara --features long --test maps -- --skip shared_properties"
            echo "--package samara --features long --test maps -- shared_properties::tiny_whole shared_properties::tiny_fill compact_pages real_low real_tall_fill wide_fill"
            ;;
        *) echo "--package samara --features long --test $name" ;;
        esac
    done
    # crossbeam-epoch does not keep to Stacked Borrows.
    echo "+--package samara --features long --lib --test shared_stress --test linearizability --test shared_writers --test maps -- reclaim epoch order destructors"
    echo "^--package samara --features long --lib --test properties -- vector_searches real_u64 real_dropped_low real_large_both"
    echo "--package samara-testkit --lib --tests"
    echo "--package samara-mm --test tables"
    echo "--package samara-mm --test page_memory"
    echo "--package samara-mm --test model -- learn::"
}

one() { # RUN
    local log start=$SECONDS
    log=$(mktemp -p "$logs")
    (
        if [ "${1:0:1}" = + ]; then
            # crossbeam-epoch hides its memory in integers, which looks like a leak.
            export SAMARA_TREE_BORROWS=1
            export MIRIFLAGS="$MIRIFLAGS -Zmiri-tree-borrows -Zmiri-ignore-leaks -Zmiri-permissive-provenance"
        fi
        if [ "${1:0:1}" = ^ ]; then
            # A folder of its own: what is built there differs from all else.
            export CARGO_TARGET_DIR=$CARGO_TARGET_DIR-avx2
            export RUSTFLAGS="${RUSTFLAGS:-} --cfg samara_miri_avx2 -Ctarget-feature=+avx2,+popcnt,+bmi1,+bmi2"
        fi
        # shellcheck disable=SC2086
        cargo +nightly miri test --locked --quiet ${1#[+^]}
    ) >"$log" 2>&1 || { tail -n 200 "$log"; echo "miri: failed: $1"; return 255; }
    passed=$(awk '/^test result: ok/ { sum += $4 } END { print sum + 0 }' "$log")
    echo "miri: $passed tests in $((SECONDS - start)) s: ${1#[+^]}"
    # A filter that no test answers to would succeed too.
    [ "$passed" -gt 0 ] || return 255
}
export -f one
export logs

if full "$@"; then list=all; else list=few; fi
# Miri runs a program on one processor: as many runs side by side as there are processors.
"$list" | xargs -d '\n' -P "$(nproc)" -n 1 bash -c 'one "$1"' one | tee "$logs/done"
echo "miri: $(awk '{ sum += $2 } END { print sum }' "$logs/done") tests without undefined behaviour"
