#!/usr/bin/env bash
# Samara on other kernels: Debian's cloud kernels, each booted in an emulated machine, where small
# programs (`ci/kernels`) run by themselves, under `samara trace` and under `samara run`. Fails where
# anything differs. `ci/kernels.sh 5.10 6.12.118 newest 6.19+la57`: the newest point release of each,
# the last with page tables of five levels; without a kernel: 6.1. `--all`: also real programs, storms
# of random calls, and `samara check` with SAMARA_KERNELS_OPS calls (20000). The last line is JSON.
# Kernels are kept in target/kernels, where each has its console's log; lists of them, for a day.
# SAMARA_KERNELS_SECONDS is the time after which a guest hangs (900, with --all 3600);
# SAMARA_KERNELS_ACCELERATOR=tcg emulates where KVM works too. Debian only: the kernels come from the
# mirror that apt uses. Installs qemu, cpio and a static busybox.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/lib.sh

parts=(repros)
if [ "${1:-}" = --all ]; then
    parts=(repros programs storms check)
    shift
fi
[ $# -gt 0 ] || set -- 6.1
for kernel; do
    [[ $kernel =~ ^([0-9]+\.[0-9]+(\.[0-9]+)?|newest)(\+la57)?$ ]] ||
        { echo "kernels: not a release: $kernel; such as 6.1, 6.12.118, newest, 6.19+la57" >&2 && exit 2; }
done
seed=${SAMARA_SEED:-1}
ops=${SAMARA_KERNELS_OPS:-20000}
limit=120    # seconds after which a program in a guest is taken to hang
seconds=900  # and the guest itself
[ "${parts[*]}" = repros ] || { limit=300 && seconds=3600; }
seconds=${SAMARA_KERNELS_SECONDS:-$seconds}
built=${CARGO_TARGET_DIR:-target}
work=$built/kernels
mkdir -p "$work/logs"
work=$(cd "$work" && pwd)

[ "$(uname -m)" = x86_64 ] || skip kernels "the processor is no x86-64"
program kernels qemu-system-x86_64 qemu-system-x86
program kernels cpio cpio
# The package busybox has one that is not static.
is_static() { busybox=$(command -v busybox) && ! ldd "$busybox"; } >/dev/null 2>&1
is_static || { packages busybox-static && is_static; } ||
    skip kernels "a static busybox is missing, and Debian's package busybox-static cannot be installed"
command -v gcc >/dev/null || skip kernels "gcc is missing"

# --- Kernels, by an apt of our own: the machine's has one suite only, and is left alone.

private() { "$1" --config-file "$work/apt/apt.conf" "${@:2}"; }

# Writes the configuration, and gets the lists of packages from the mirror that the machine uses.
update() {
    local key=/usr/share/keyrings/debian-archive-keyring.gpg main security suite apt=$work/apt
    mirror() { apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' | awk -v label="$1" '$1 == "Debian" && $2 == label { print $3; exit }'; }
    main=$(mirror Debian)
    [ -n "$main" ] || { as_root apt-get update >/dev/null 2>&1 || true; main=$(mirror Debian); }
    security=$(mirror Debian-Security)
    [ -n "$main" ] && [ -e "$key" ] || return 1
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
    : >"$apt/status"
    {
        for suite in bullseye bookworm bookworm-backports trixie trixie-backports forky sid experimental; do
            echo "deb [arch=amd64 signed-by=$key] $main $suite main"
        done
        for suite in bullseye bookworm trixie; do
            [ -z "$security" ] || echo "deb [arch=amd64 signed-by=$key] $security $suite-security main"
        done
    } >"$apt/sources.list"
    cat >"$apt/apt.conf" <<CONF
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
APT::Architecture "amd64";
APT::Architectures { "amd64"; };
APT::Default-Release "";
APT::Sandbox::User "root";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::Languages "none";
Dir::Cache "$apt/cache";
Dir::Cache::pkgcache "pkgcache.bin";
Dir::Cache::srcpkgcache "";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
Dir::Etc::SourceList "$apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State::Lists "$apt/lists";
Dir::State::status "$apt/status";
CONF
    # A suite that is gone fails; the others are used.
    private apt-get update >"$apt/log" 2>&1 || true
    # Lines of a package and its version; no release candidates, no packages that only name others.
    # From 6.19 on the image is in linux-binary.
    private apt-cache search --names-only '^linux-(image|binary)-[0-9]+[.][0-9]+[.][0-9].*-cloud-amd64$' | awk '{ print $1 }' |
        xargs -r "$(command -v apt-cache)" --config-file "$apt/apt.conf" madison |
        awk '$3 !~ /~rc/ { print $1, $3 }' | sort -u >"$work/new"
    [ -s "$work/new" ] && mv "$work/new" "$work/list"
}

# Sets `package` and `version` to the newest point release of a kernel.
resolve() { # KERNEL
    read -r package version < <(
        awk -v kernel="$1" '{ v = $2; sub(/-.*/, "", v) } kernel == "newest" || v == kernel || index(v, kernel ".") == 1' "$work/list" |
            LC_ALL=C sort --key=2V,2 --key=1,1 | awk '{ if ($2 != last) first = $0; last = $2 } END { print first }'
    )
    [ -n "$package" ]
}

# Sets `image` to the kernel's image; gets it where it is not there.
fetch() { # PACKAGE VERSION
    image=$work/images/$1_$2
    [ ! -s "$image" ] || return 0
    rm -rf "$work/deb"
    mkdir -p "$work/deb" "$work/images"
    (cd "$work/deb" && private apt-get download "$1=$2") >"$work/apt/log" 2>&1 || return 1
    dpkg-deb --fsys-tarfile "$work"/deb/*.deb | tar x --to-stdout --wildcards --no-anchored 'vmlinuz*' >"$work/deb/image" || return 1
    mv "$work/deb/image" "$image"
    rm -rf "$work/deb"
}

# --- What a guest has in its memory.

initramfs() {
    local to=$work/root program file profile
    # The small programs alone need no fast command: in CI the one that the tests run, which is built
    # by then.
    if [ "${CI:-}" = true ] && [ "${parts[*]}" = repros ]; then
        profile=debug
        cargo test --locked --quiet --workspace --no-run
    else
        profile=release
        cargo build --locked --quiet --release --package samara-cli
    fi
    rm -rf "$to"
    mkdir -p "$to"/{bin,usr/bin,t,etc}
    cp "$busybox" "$to/bin/busybox"
    cp ci/kernels/init.sh "$to/init"
    cp ci/kernels/threads.py "$to/t"
    cp "$built/$profile/samara" "$to/usr/bin"
    strip "$to/usr/bin/samara"
    for program in ci/kernels/*.c; do
        gcc -O1 -Wall -Wextra -Werror -static -pthread -o "$to/t/$(basename "$program" .c)" "$program"
    done
    if [[ " ${parts[*]} " == *" programs "* ]]; then
        for program in bash perl python3 sort tar sqlite3; do
            [ ! -x "/usr/bin/$program" ] || cp -L "/usr/bin/$program" "$to/usr/bin"
        done
        # Of python's library only what the program loads.
        [ ! -x /usr/bin/python3 ] || /usr/bin/python3 -B -c '
import sys, runpy, io, os, contextlib
os.fork = lambda: 1
os.waitpid = os.posix_spawn = lambda *words: 1
with contextlib.redirect_stdout(io.StringIO()):
    runpy.run_path("ci/kernels/threads.py")
for module in list(sys.modules.values()):
    file = getattr(module, "__file__", None)
    if file and file.startswith("/usr/lib"): print(file)
print(os.__file__)' | while read -r file; do
            mkdir -p "$to$(dirname "$file")"
            cp -L "$file" "$to$file"
        done
    fi
    find "$to" -type f \( -perm /100 -o -name '*.so' \) -exec ldd {} \; 2>/dev/null | grep -o '/[^ ]*' | sort -u | while read -r file; do
        mkdir -p "$to$(dirname "$file")"
        [ -e "$to$file" ] || cp -L "$file" "$to$file"
    done
    (cd "$to" && find . | cpio --create --format=newc --quiet) >"$work/initramfs"
}

# --- A guest.

# Boots an image: ACCELERATOR SECONDS IMAGE LA57 PARTS LOG. In a shell of its own, which keeps quiet
# where a signal ends the emulator.
boot() (
    exec 2>/dev/null
    ulimit -c 0
    timeout --kill-after=10 "$2" nice -n 5 qemu-system-x86_64 -machine q35 -accel "$1" -cpu "max,la57=$4" -smp 1 -m 1500 \
        -nodefaults -no-user-config -display none -no-reboot -serial "file:$6" -kernel "$3" -initrd "$work/initramfs" \
        -append "console=ttyS0 quiet no_timer_check panic=-1 parts=$5 ops=$ops seed=$seed limit=$limit" </dev/null >"$6.qemu" 2>&1
    exit $?
)

# A result of a log: the sum of a part's differences, or - where the part was not run.
sum() { # LOG PART
    awk -v part="$2" '$1 == "@@" && $2 == "result" && $3 == part { n++; sum += $6 } END { print n ? sum : "-" }' "$1"
}

# The lists of packages are a day old at most, where the mirror answers, and of this folder: apt's
# configuration has whole paths.
update_of_the_day() {
    { [ -n "$(find "$work/list" -mmin -1440 2>/dev/null)" ] && grep -qsF "\"$work/apt/lists\"" "$work/apt/apt.conf"; } || update || {
        [ -s "$work/list" ] || skip kernels "no list of Debian's kernels: this machine's apt has no Debian mirror, or it does not answer"
        echo "kernels: no new list of kernels; that of $(date -r "$work/list" +%F) is used"
    }
}

update_of_the_day
initramfs
accelerator=${SAMARA_KERNELS_ACCELERATOR:-}
rows=()
json=()
failed=0
for kernel; do
    la57=off
    [ "$kernel" = "${kernel%+la57}" ] || la57=on
    start=$SECONDS
    if ! resolve "${kernel%+la57}" || ! fetch "$package" "$version"; then
        echo "kernels: $kernel: no such kernel can be had" >&2
        rows+=("$kernel - - - - - - cannot be had")
        json+=("{\"kernel\":\"$kernel\",\"release\":null,\"wrong\":[\"cannot be had\"]}")
        failed=1
        continue
    fi
    log=$work/logs/$kernel.log
    if [ -z "$accelerator" ]; then
        # Whether hardware does it is known when it has booted something.
        accelerator=tcg
        if [ -w /dev/kvm ] && boot kvm 60 "$image" off '' "$log" && grep -q '^@@ end' "$log"; then accelerator=kvm; fi
        echo "kernels: machines of $accelerator"
    fi
    using=$accelerator
    [ $la57 = off ] || grep -qw la57 /proc/cpuinfo || using=tcg
    : >"$log"
    status=0
    boot "$using" "$seconds" "$image" $la57 "$(IFS=, && echo "${parts[*]}")" "$log" || status=$?
    sed -i 's/\r$//' "$log"
    release=${version%%-*}
    # What went wrong: programs that did not end, and the guest itself.
    mapfile -t wrong < <(awk '$1 == "@@" && $2 == "result" && $7 != "ended" { print $4 "-under-" $5 ":" $7 }' "$log")
    if ! grep -q '^@@ end' "$log"; then
        if [ "$status" = 124 ] || [ "$status" = 137 ]; then wrong+=("the-guest-hangs:killed-after-$seconds-s"); else wrong+=("the-guest-ended-early:status-$status"); fi
    fi
    if [ $la57 = on ] && ! grep -q '^@@ up .* five$' "$log"; then wrong+=(no-five-level-page-tables); fi
    # Linux 5.10 has no BPF programs that remember something of a task.
    if ! grep -q '^@@ sources bpf' "$log" && [ "${release%.*}" != 5.10 ]; then wrong+=(no-bpf); fi
    for place in group inside; do
        ! grep -q '^@@ sources bpf' "$log" || grep -q "^@@ $place" "$log" || wrong+=("no-bpf-$place")
    done
    figures=()
    for part in repros programs storms check; do figures+=("$(sum "$log" "$part")"); done
    # A mix of the check ends after some differences; one that is left out compares nothing.
    calls=$(sed -n 's/^@@ result check \([0-9]*\)-calls .*/\1/p' "$log")
    if [ "${calls:-$ops}" -lt "$ops" ]; then wrong+=("check-compared-$calls-of-$ops"); fi
    [ "$calls" != 0 ] || figures[3]=-
    all=$(printf '%s\n' "${figures[@]}" | awk '{ sum += $1 } END { print sum + 0 }')
    [ "$all" = 0 ] && [ ${#wrong[@]} = 0 ] || failed=1
    took=$((SECONDS - start))
    rows+=("$kernel $release ${figures[*]} $took ${wrong[*]:0:3}$([ ${#wrong[@]} -le 3 ] || echo " and $((${#wrong[@]} - 3)) more")")
    printf -v one '{"kernel":"%s","release":"%s","package":"%s","accelerator":"%s","repros":%s,"programs":%s,"storms":%s,"check":%s,"seconds":%s,"wrong":[%s]}' \
        "$kernel" "$release" "$package=$version" "$using" "${figures[@]/#-/null}" "$took" \
        "$([ ${#wrong[@]} = 0 ] || printf '"%s",' "${wrong[@]}" | sed 's/,$//')"
    json+=("$one")
    echo "kernels: $kernel: Linux $release, $all differences, $took s: $log"
    [ $failed = 0 ] || awk '$1 == "@@" && $2 == "result" && ($6 != 0 || $7 != "ended") { print "  " $3, $4, $5 ":", $6, ($7 == "ended" ? "" : $7) }' "$log"
    ! grep -q '^@@ missing' "$log" || echo "  left out: $(awk '/^@@ missing/ { printf "%s ", $3 }' "$log")"
done

printf '\n%-12s %-10s %8s %8s %8s %8s %8s\n' kernel release repros programs storms check seconds
for row in "${rows[@]}"; do
    read -r kernel release repros programs storms check took wrong <<<"$row"
    printf '%-12s %-10s %8s %8s %8s %8s %8s  %s\n' "$kernel" "$release" "$repros" "$programs" "$storms" "$check" "$took" "$wrong"
done
printf '{"seed":%s,"kernels":[%s],"failed":%s,"seconds":%s}\n' "$seed" "$(IFS=, && echo "${json[*]:-}")" \
    "$([ $failed = 0 ] && echo false || echo true)" "$SECONDS"
exit "$failed"
