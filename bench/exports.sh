#!/usr/bin/env bash
# Cost of `samara export` in each format, for a million events with stacks: wall seconds, peak
# resident size in MiB (medians of RUNS, 5), the same for three million events, which are the
# million three times over (one run), and MiB of output. With EVENTS (0: not) also processor seconds
# and MiB for that many events, once: a hundred million take 15 GB of disk and half an hour. Needs
# gcc and GNU time. `cargo build --release` first.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
million_calls "$dir"
"$samara" trace --quiet --stacks -o "$dir/million.samara" -- "$dir/million"
cargo build --quiet --release --package samara-trace --example repeat_trace
target/release/examples/repeat_trace "$dir/million.samara" 3000000 >"$dir/three.samara"

export_to() { # TRACE FORMAT
    rm -rf "$dir/out" "$dir/out.gz"
    /usr/bin/time -f '%e %M' -a -o "$dir/times" "$samara" export "$dir/$1.samara" "${@:2}"
}
echo "| format | s | MiB | MiB of three million | MiB of output |"
echo "|---|---|---|---|---|"
row() { # NAME OPTION FILE
    for _ in $(seq "$runs"); do export_to million "$2" "$3"; done
    size=$(du --bytes --summarize "$3" | awk '{ printf "%.2f", $1 / 1048576 }')
    seconds=$(cut -d' ' -f1 "$dir/times" | median) memory=$(cut -d' ' -f2 "$dir/times" | median)
    rm "$dir/times"
    export_to three "$2" "$3"
    echo "| $1 | $seconds | $((memory / 1024)) | $(($(cut -d' ' -f2 "$dir/times") / 1024)) | $size |"
    rm "$dir/times"
}
row '`--csv`' --csv "$dir/out"
row '`--folded`' --folded "$dir/out"
row '`--pprof`' --pprof "$dir/out"
row '`--firefox`, not compressed' --firefox "$dir/out"
row '`--firefox`, compressed' --firefox "$dir/out.gz"
row '`--perfetto`' --perfetto "$dir/out"
row '`--parquet`' --parquet "$dir/out"
events=${EVENTS:-0}
[ "$events" -gt 0 ] || exit 0
rm -r "$dir/out" "$dir/three.samara"
target/release/examples/repeat_trace "$dir/million.samara" "$events" >"$dir/many.samara"
many() { # FORMATS...
    /usr/bin/time -f '%U %M' -o "$dir/times" "$samara" export "$dir/many.samara" "$@"
    awk -v what="${*//"$dir"/DIR}" '{ print "| `" what "` | " $1 " | " int($2 / 1024) " |" }' "$dir/times"
}
echo "| $events events | processor seconds | MiB |"
echo "|---|---|---|"
many --csv /dev/null --folded "$dir/folded" --pprof "$dir/pprof"
many --perfetto /dev/null
many --parquet "$dir/out"
