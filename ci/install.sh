#!/usr/bin/env bash
# The packages that `ci/package.sh` made, as a user has them: .deb, .rpm and tarball are installed in a
# clean root (Debian's essential packages and systemd), run there and removed, and leave nothing; the
# unit is started by a systemd that boots there; the static binary records and names stacks as a dynamic
# one does; an image is built and run. Needs root, cc and rustc; installs Debian's mmdebstrap, rpm,
# systemd-container and buildah.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/lib.sh

built=$(realpath -m "${CARGO_TARGET_DIR:-target}")
packages=$built/package
[ "$(id -u)" = 0 ] || skip install "it needs root, to make a root of its own and install there"
program install mmdebstrap mmdebstrap
program install rpm rpm
program install systemd-nspawn systemd-container
deb=$(echo "$packages"/*.deb) rpm=$(echo "$packages"/*.rpm) tarball=$(echo "$packages"/*.tar.gz)
failed() { echo "install: $*" >&2 && exit 1; }
(cd "$packages" && sha256sum --check --quiet SHA256SUMS)

work=$(mktemp -d)
leader=
trap '[ -z "$leader" ] || kill -KILL "$leader" 2>/dev/null || true; rm -rf "$work"' EXIT
clean=$work/root
. /etc/os-release
# Kept, since it takes a minute to get.
archive=$built/clean-$VERSION_CODENAME.tar
if [ ! -s "$archive" ]; then
    mirror=$(apt-get indextargets --format '$(ORIGIN) $(LABEL) $(REPO_URI)' | awk '$1 == "Debian" && $2 == "Debian" { print $3; exit }')
    mmdebstrap --quiet --variant=essential --include=systemd,systemd-sysv "$VERSION_CODENAME" "$archive" "deb $mirror $VERSION_CODENAME main" >"$work/said" 2>&1 ||
        { rm -f "$archive" && tail -n 5 "$work/said" && skip install "mmdebstrap cannot make a clean root"; }
fi
mkdir "$clean"
tar xf "$archive" --directory "$clean"

inside() { unshare --mount --pid --fork --mount-proc="$clean/proc" chroot "$clean" /usr/bin/env -i PATH=/usr/bin:/usr/sbin:/bin:/sbin HOME=/root "$@"; }
# Every file and its checksum, but those in which package managers and systemd note what they do.
list() {
    (cd "$clean" && find . -printf '%p %M %l\n' -type f -fprint0 "$work/names" && xargs -0 sha256sum <"$work/names" | awk '{ print $2, $1 }') |
        grep -vE '^\./(proc|run|tmp|root|var/lib/dpkg|var/lib/rpm|var/log|var/cache)[/ ]' | LC_ALL=C sort
}

# Installs by the first command, runs what was installed, removes by the second.
round() { # NAME PREFIX INSTALL REMOVE
    list >"$work/before"
    $3 >"$work/said" 2>&1 || { cat "$work/said" && failed "$1 cannot be installed"; }
    list >"$work/with"
    [ "$(comm -13 "$work/before" "$work/with" | wc -l)" -ge 30 ] || failed "$1 brings too few files"
    local file samara=$2/bin/samara
    for file in bin/samara share/man/man1/samara-trace.1.gz share/bash-completion/completions/samara share/samara/samara-rules.yml \
        share/doc/samara/LICENSE-MIT share/doc/samara/LICENSES-OF-CRATES lib/systemd/system/samara-watch.service; do
        [ -s "$clean$2/$file" ] || failed "$1 brings no $2/$file"
    done
    inside "$samara" --version | grep '^samara [0-9]' >/dev/null || failed "$1: samara --version"
    inside "$samara" trace --quiet -o /root/t.samara -- true || failed "$1: samara trace"
    inside "$samara" why /root/t.samara | grep ' areas' >/dev/null || failed "$1: samara why"
    rm "$clean/root/t.samara"
    if [ "$2" = /usr ]; then unit "$1"; fi
    $4 >"$work/said" 2>&1 || { cat "$work/said" && failed "$1 cannot be removed"; }
    list >"$work/after"
    diff "$work/before" "$work/after" || failed "$1 leaves files behind"
    echo "install: $1: installed, run, removed: nothing left of $(comm -13 "$work/before" "$work/with" | wc -l) files"
}

# What systemd says of the installed unit: no fault, and an exposure of at most 2.0 (20 tenths).
unit() { # NAME
    inside systemd-analyze verify --man=no samara-watch.service >"$work/told" 2>&1 && [ ! -s "$work/told" ] ||
        { cat "$work/told" && failed "$1: systemd-analyze verify"; }
    inside systemd-analyze security --offline=true --threshold=20 --no-pager /usr/lib/systemd/system/samara-watch.service >"$work/told" 2>&1 ||
        { cat "$work/told" && failed "$1: systemd-analyze security"; }
    sed -n "s/.*Overall exposure level for samara-watch.service: \([0-9.]*\).*/install: $1: the unit is in order, its exposure \1/p" "$work/told"
}

deb_in() { cp "$deb" "$clean/tmp/samara.deb" && inside dpkg --install /tmp/samara.deb && rm "$clean/tmp/samara.deb"; }
deb_out() { inside dpkg --purge samara; }
round .deb /usr deb_in deb_out
# The root is Debian's: no package there is known to rpm.
[ "$(rpm --query --package --requires "$rpm" | grep -v '^rpmlib(' | tr -d '\n')" = /bin/sh/bin/sh/bin/sh ] || failed "the .rpm needs more than a shell"
rpm_in() { rpm --root "$clean" --dbpath /var/lib/rpm --install --nodeps "$rpm"; }
rpm_out() { rpm --root "$clean" --dbpath /var/lib/rpm --erase --nodeps samara; }
round .rpm /usr rpm_in rpm_out
tar_in() { mkdir "$clean/opt/samara" && tar xzf "$tarball" -C "$clean/opt/samara" --strip-components=1 --no-same-owner; }
tar_out() { rm -r "$clean/opt/samara"; }
round tarball /opt/samara tar_in tar_out

# The unit started: a systemd boots in a container of the clean root, without a network.
booted() { nsenter --target "$leader" --mount --uts --ipc --net --pid --cgroup "$@"; }
# Tries a command each second, for two minutes.
until_true() {
    for _ in {1..120}; do "$@" >/dev/null 2>&1 && return || sleep 1; done
    return 1
}
has_leader() { leader=$(pgrep --parent "$nspawn") && booted systemctl is-active --quiet multi-user.target; }
metrics() { booted bash -c 'exec 3<>/dev/tcp/127.0.0.1/9877 && printf "GET /metrics HTTP/1.0\r\n\r\n" >&3 && timeout 10 cat <&3' >"$work/told" && grep -q '^samara_process_areas{' "$work/told"; }
systemd-nspawn --quiet --register=no --keep-unit --private-network --directory="$clean" --boot --console=pipe >"$work/boot" 2>&1 </dev/null &
nspawn=$!
if until_true has_leader; then
    cp "$deb" "$clean/samara.deb"
    booted dpkg --install /samara.deb >"$work/said" 2>&1 || { cat "$work/said" && failed "dpkg in the container"; }
    ! booted systemctl is-enabled --quiet samara-watch || failed "the unit is enabled by the package"
    booted systemctl enable --now samara-watch 2>"$work/said" || { cat "$work/said" && failed "the unit does not start"; }
    until_true metrics || { booted journalctl --no-pager --unit samara-watch | tail -n 20 && failed "the unit has no metrics"; }
    # It reads processes of root as a user of its own.
    grep -q '^samara_process_areas{.*name="systemd"' "$work/told" && grep -q '^samara_unreadable_processes 0$' "$work/told" ||
        { cat "$work/told" && failed "the unit may not read other users' processes"; }
    user=$(booted systemctl show --property=MainPID --value samara-watch | xargs -I{} nsenter --target "$leader" --mount --pid stat --format=%u /proc/{})
    [ "$user" -ge 61184 ] || failed "the unit runs as user $user"
    booted dpkg --purge samara >"$work/said" 2>&1 || { cat "$work/said" && failed "dpkg in the container cannot remove it"; }
    ! booted systemctl is-active --quiet samara-watch || failed "the unit runs after the package was removed"
    ls -d "$clean"/etc/systemd/system/*/samara-watch.service "$clean"/var/lib/{,private/}samara 2>/dev/null && failed "the package leaves these"
    echo "install: .deb: the unit runs as user $user, tells of $(grep -c '^samara_process_areas{' "$work/told") processes, and is gone with the package"
else
    cat "$work/boot" && failed "no systemd boots in a container"
fi
kill -KILL "$leader"
wait "$nspawn" || true
leader=

# The same program recorded by both binaries: the frames of every call, and the verdicts.
static=$packages/tree/usr/bin/samara dynamic=$built/crates/bin/samara
[[ $(ldd "$dynamic") == *libc.so* ]] || failed "$dynamic is not dynamic"
cc -g -O1 -pthread -o "$work/threads" book/src/cases/thread_stacks.c
cc -g -O1 -gz -o "$work/guards" book/src/cases/guard_pages.c
cat >"$work/names.rs" <<'RS'
struct Pool(Vec<Vec<u8>>);
impl Pool {
    #[inline(never)]
    fn grow<T: Default + Clone + Into<u8>>(&mut self, size: T) where usize: From<T> {
        self.0.push(vec![size.clone().into(); usize::from(size) << 14]);
    }
}
fn main() {
    let mut pool = Pool(Vec::new());
    (10..200u8).for_each(|size| pool.grow(size));
    println!("{}", pool.0.len());
}
RS
rustc --edition 2024 -g -O -o "$work/names" "$work/names.rs"
frames=0
for command in "guards 500" "threads 20" names; do
    for binary in "$static" "$dynamic"; do
        # shellcheck disable=SC2086 # a program and its argument
        (cd "$work" && setarch --addr-no-randomize "$binary" trace --quiet --stacks -o "$binary.t" -- ./$command >/dev/null) ||
            failed "$binary cannot record $command"
        "$binary" events --folded "$binary.t" | sort >"$work/${binary//\//-}.frames"
        "$binary" why --json "$binary.t" | jq ".verdicts | walk(if type == \"object\" then del(.ns, .grows) else . end)" >"$work/${binary//\//-}.why"
        rm "$binary.t"
    done
    for what in frames why; do
        diff "$work/${static//\//-}.$what" "$work/${dynamic//\//-}.$what" || failed "$command: the two binaries say otherwise ($what)"
    done
    [ "$(jq length "$work/${static//\//-}.why")" -gt 0 ] || [ "$command" = names ] || failed "$command: no verdict"
    frames=$((frames + $(tr ';' '\n' <"$work/${static//\//-}.frames" | grep -c '[a-z]')))
done
[ "$frames" -ge 30 ] || failed "only $frames named frames were compared"
echo "install: the static binary names $frames frames, and gives verdicts, as the dynamic one does"

# The probe of the kernel, whose threads the C library does not know.
"$static" check --ops 4000 >"$work/said" 2>&1 || { tail -n 5 "$work/said" && failed "the static binary's samara check"; }

# The image.
if installed buildah buildah; then
    image=$(buildah build --quiet --isolation chroot --storage-driver vfs -f packaging/Containerfile "$packages/tree")
    box=$(buildah from --storage-driver vfs "$image")
    buildah run --storage-driver vfs --isolation chroot "$box" /usr/bin/samara watch --once >"$work/told" || failed "the image does not run"
    buildah rm --storage-driver vfs "$box" >/dev/null && buildah rmi --storage-driver vfs "$image" >/dev/null
    grep -q '^samara_process_areas{' "$work/told" || failed "the image's samara watch sees no process"
    echo "install: the image of packaging/Containerfile is built and runs"
else
    echo "install: there is no buildah: packaging/Containerfile is not built"
fi
