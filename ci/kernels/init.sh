#!/bin/busybox sh
# The first process of a guest: runs the tests that `ci/kernels.sh` asks for on the kernel's command
# line, and prints their results on the serial console, in lines that begin with @@. Every program is
# run by itself, under `samara trace`, without stops (`trace --no-stop`) and under `samara run`. Without
# stops it is BPF where the kernel has it, and perf events too where all parts run. A line that it
# prints otherwise under samara counts as a difference, as does each that samara finds. So does a
# count of areas that the recorders do not have in common, unless the one without stops is unsure.

/bin/busybox mkdir -p /proc /sys /dev /tmp /out
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sys /sys
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox mkdir -p /dev/shm
/bin/busybox mount -t tracefs tracefs /sys/kernel/tracing
for folder in /tmp /out /dev/shm; do /bin/busybox mount -t tmpfs tmpfs "$folder"; done
/bin/busybox --install -s /bin
export PATH=/usr/bin:/bin HOME=/tmp LANG=C NO_COLOR=1
cd /out || exit
# Places do not decide what merges.
echo 0 >/proc/sys/kernel/randomize_va_space
for word in $(cat /proc/cmdline); do
    case $word in
    parts=*) parts=${word#parts=} ;;
    ops=*) ops=${word#ops=} ;;
    seed=*) seed=${word#seed=} ;;
    limit=*) limit=${word#limit=} ;;
    esac
done
echo "@@ up $(uname -r) $(grep -qw la57 /proc/cpuinfo && echo five || echo four)"

now() { cut -d' ' -f1 /proc/uptime; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.1f", b - a }'; }

# A result: PART TEST MODE DIFFERENCES STATE SECONDS. The state is `ended` or says what went wrong.
told() { echo "@@ result $*"; }

# How many lines of the second file are not those of the first.
lines() {
    awk 'FNR == NR { was[FNR] = $0; n = FNR; next } was[FNR] != $0 { d++ } { m = FNR } END { print d + (n > m ? n - m : 0) }' "$1" "$2"
}

# The counts of a summary that both recorders must have: areas, and what became of them.
counts() { grep -oE '"(areas_peak|splits|merges)": *[0-9]+' "$1" | sort -u; }

# Runs a program under samara, and tells the differences: trace|bpf|perf|run PART TEST COMMAND...
under() {
    mode=$1 part=$2 test=$3
    shift 3
    case $mode in
    bpf | perf) options="trace --no-stop --source $mode" ;;
    *) options=$mode ;;
    esac
    rm -f json trace.samara
    begun=$(now)
    # shellcheck disable=SC2086 # several words
    timeout -s KILL "$limit" samara $options --quiet -o trace.samara --summary-json json -- "$@" </dev/null >printed 2>errors
    status=$?
    took=$(since "$begun")
    found=$(sed -n 's/.*"differences": *\([0-9]*\).*/\1/p' json 2>/dev/null)
    other=$(lines alone printed)
    [ "$status" = "$expected" ] || other=$((other + 1))
    [ "$mode" != trace ] || counts json >stopped 2>&1
    # Threads and processes beside each other have other counts each time.
    case $mode/$part/$test in
    bpf/repros/threads | perf/repros/threads) ;;
    bpf/repros/* | perf/repros/*)
        if ! grep -q '"unsure": *0\b' json; then
            echo "@@ unsure $test $mode $(grep -oE '"unsure": *[0-9]+' json)"
        elif ! counts json | cmp -s - stopped; then
            other=$((other + 1))
            counts json | diff -U0 stopped - | grep -v '^@@'
        fi
        ;;
    esac
    state=ended
    if [ -z "$found" ]; then
        state=status-$status
        [ "$status" != 137 ] || state=killed-after-$limit-s
    fi
    told "$part" "$test" "$mode" "$((${found:-0} + other))" "$state" "$took"
    [ "${found:-1}" = 0 ] && [ "$other" = 0 ] && return
    echo "  $part: samara $mode $*: ${found:-?} differences found, $other lines (or the status) differ"
    [ "$other" = 0 ] || diff -U0 alone printed | grep -v '^@@' | sed -n '3,22p'
    head -n 20 errors
    samara events trace.samara 2>&1 | grep -B1 DIFFERENCE | cut -c1-400 | head -n 24
}

# A program by itself and under samara: PART TEST COMMAND...
compare() {
    of=$1 name=$2
    shift 2
    begun=$(now)
    timeout -s KILL "$limit" "$@" </dev/null >alone 2>errors
    expected=$?
    if [ "$expected" -ge 124 ]; then
        told "$of" "$name" alone 0 "status-$expected" "$(since "$begun")"
        head -n 20 errors
        return
    fi
    under trace "$of" "$name" "$@"
    for source in $sources; do under "$source" "$of" "$name" "$@"; done
    under run "$of" "$name" "$@"
}

repros() {
    for test in map_stack flags mprotect_hole shrink_hole remap_fails aligned hint57 grown_and_mapped anon_offset heap_name; do
        compare repros "$test" "/t/$test"
    done
    # Calls at the limit of areas.
    before=$(cat /proc/sys/vm/max_map_count)
    echo 100 >/proc/sys/vm/max_map_count
    compare repros limit /t/limit
    echo "$before" >/proc/sys/vm/max_map_count
    echo 4 >/proc/sys/vm/nr_hugepages
    compare repros shm_huge /t/shm_huge
    echo 0 >/proc/sys/vm/nr_hugepages
    compare repros guards /t/guards 400
    compare repros chain /t/chain 6
    compare repros threads /t/threads
}

# What the machine that made this guest had is run; the others are named.
program() { # TEST PROGRAM ARGUMENTS...
    if [ -x "$2" ]; then compare programs "$@"; else echo "@@ missing $1"; fi
}
programs() {
    seq 1 20000 | awk '{ print ($1 * 7919) % 20011, $1 }' >/tmp/numbers
    program shell /bin/busybox sh -c 'for i in 1 2 3; do echo $i | cat | wc -c; done; ls / | sort | md5sum; (exec uname -s)'
    program static /bin/busybox sha256sum /tmp/numbers
    program bash /usr/bin/bash -c 'for i in {1..5}; do x=$(echo $((i * i))); (echo "$x" | tr 0-9 a-j) & wait; done; printf "%s\n" {a..z}{0..9} | md5sum'
    program perl /usr/bin/perl -e 'my %h; $h{$_ % 997} .= "x" x ($_ % 50) for 1 .. 50000; print scalar(keys %h), "\n"; if (fork() == 0) { exec "busybox", "echo", "child" } wait'
    program python3 /usr/bin/python3 /t/threads.py
    program sort /usr/bin/sort --parallel=4 --buffer-size=100K -n /tmp/numbers
    program tar /usr/bin/tar -C /tmp -czvf /tmp/numbers.tar numbers
    program sqlite3 /usr/bin/sqlite3 :memory: 'with recursive c(x) as (select 1 union all select x + 1 from c where x < 20000) select count(*), sum(x), group_concat(x % 7) from c;'
}

storms() {
    compare storms storm1 /t/storm "$seed" 2000 all
    compare storms storm2 /t/storm "$((seed + 1))" 2000 base
    compare storms storm3 /t/storm "$((seed + 2))" 2000 all
    compare storms storm4 /t/storm "$((seed + 3))" 2000 grow
}

check() {
    begun=$(now)
    timeout -s KILL "$((limit * 4))" samara check --ops "$ops" --seed "$seed" </dev/null >printed 2>errors
    status=$?
    last=$(tail -n 1 printed | tr -d ", '")
    compared=$(echo "$last" | sed -n 's/^\([0-9]*\)calls\?compared.*/\1/p')
    found=$(echo "$last" | sed -n 's/.*:\([0-9]*\)differences\?$/\1/p')
    # Mixes, but for those that need what came with a later release; not single calls.
    left=$(sed -n '/(Linux [0-9.]*[;)]/d; s/^left out: \([^:]*\):.*/\1/p' printed | tr ',' '\n' | grep -c .)
    state=ended
    if [ "$status" = 137 ]; then
        state=killed-after-$((limit * 4))-s
    elif [ "$left" != 0 ]; then
        state=$left-mixes-left-out
    elif [ "$status" != 0 ] && [ "$status" != 4 ]; then
        state=status-$status
    fi
    told check "${compared:-0}-calls" samara "${found:-0}" "$state" "$(since "$begun")"
    head -c 60000 printed
    head -n 20 errors
}


if samara trace --no-stop --source bpf --quiet -o trace.samara -- true </dev/null >printed 2>&1; then
    sources=bpf
    case $parts in *,*) sources="bpf perf" ;; esac
else
    sources=perf
    cat printed
fi
echo "@@ sources $sources"
# BPF in a container, and of a control group.
if [ "$sources" != perf ]; then
    mkdir -p /tmp/cgroup
    mount -t cgroup2 none /tmp/cgroup
    echo +pids >/tmp/cgroup/cgroup.subtree_control
    mkdir -p /tmp/cgroup/a/b
    sh -c 'echo $$ >/tmp/cgroup/a/b/cgroup.procs; while [ ! -e /tmp/over ]; do ls / >/dev/null; sleep 0.3; done' &
    samara trace --source bpf --cgroup /tmp/cgroup/a --for 5s --quiet --summary-json group -o trace.samara </dev/null >printed 2>&1
    touch /tmp/over
    calls=$(sed -n 's/.*without stops: \([0-9]*\) calls.*/\1/p' group)
    [ "${calls:-0}" -gt 5 ] && echo "@@ group" || cat printed group
    wait
    unshare -pf --mount-proc samara trace --source bpf --quiet --summary-json inside -o trace.samara -- sh -c 'ls / | wc -l; unshare -pf ls /' </dev/null >printed 2>&1
    calls=$(sed -n 's/.*without stops: \([0-9]*\) calls.*/\1/p' inside)
    [ "${calls:-0}" -gt 20 ] && echo "@@ inside" || cat printed inside
fi
for part in $(echo "$parts" | tr , ' '); do "$part"; done
# What was cut off above may have left a line open.
echo
echo "@@ end"
poweroff -f
