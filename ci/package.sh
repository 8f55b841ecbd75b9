#!/usr/bin/env bash
# What users install, into target/package: the static binary of x86-64 in a tarball, a .deb and a .rpm,
# the crates, and SHA256SUMS. The same commit and toolchain give the same bytes. `ci/crates.sh` and
# `ci/install.sh`, which this calls, try all of them. Needs rustup, jq and dpkg-deb; installs rpmbuild.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/lib.sh

triple=x86_64-unknown-linux-musl
most=20 # MiB of the binary
[ "$(uname -m)" = x86_64 ] || skip package "the processor is no x86-64"
program package jq jq
program package dpkg-deb dpkg
program package rpmbuild rpm
target "$triple"
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
built=$(realpath -m "${CARGO_TARGET_DIR:-target}")
to=$built/package
tree=$to/tree
rm -rf "$to"
mkdir -p "$to"

ended() { echo "package: $1: $((SECONDS - begun)) s" && begun=$SECONDS; }
begun=$SECONDS

# The binary. Its own paths are no one's: registries are below /cargo, this repository has none.
home=${CARGO_HOME:-$HOME/.cargo}
CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS="--remap-path-prefix=$home=/cargo --remap-path-prefix=$PWD=/samara" \
    cargo build --locked --quiet --profile dist --package samara-cli --target "$triple"
samara=$built/$triple/dist/samara
if readelf --wide --program-headers --dynamic "$samara" | grep -E 'INTERP|NEEDED'; then
    echo "package: the binary is not static" >&2 && exit 1
fi
! readelf --sections "$samara" | grep '\.symtab' >/dev/null || { echo "package: the binary has symbols" >&2 && exit 1; }
! grep -qF -e "$home/" -e "$PWD/" "$samara" || { echo "package: the binary has paths of this machine" >&2 && exit 1; }
bytes=$(stat --format=%s "$samara")
[ "$bytes" -le $((most << 20)) ] || { echo "package: the binary has $bytes bytes, more than $most MiB" >&2 && exit 1; }
version=$("$samara" --version | awk '{ print $2 }')
ended "static binary, $((bytes >> 10)) KiB"

# The crates, and a dynamic binary made of them.
ci/crates.sh
mv "$built"/crates/*.crate "$to"
ended crates

# The licences of the crates in the binary; each text once.
licences() {
    local crate licence file sum
    declare -A seen
    echo "The binary holds the Rust standard library (MIT OR Apache-2.0), musl (MIT, Copyright (c)"
    echo "2005-2020 Rich Felker, et al.) and these crates."
    while IFS='|' read -r crate licence; do
        printf '\n== %s: %s\n' "$crate" "$licence"
        for file in "$home"/registry/src/*/"${crate/ v/-}"/{LICEN[CS]E,COPYING,COPYRIGHT,NOTICE,license}*; do
            [ -f "$file" ] || continue
            sum=$(tr -d '[:space:]' <"$file" | sha256sum)
            if [ -z "${seen[$sum]:-}" ]; then
                printf '\n' && cat "$file"
                seen[$sum]="$crate, ${file##*/}"
            else
                echo "   ${file##*/}: that of ${seen[$sum]}"
            fi
        done
    done < <(cargo tree --locked --package samara-cli --edges normal,no-proc-macro --target "$triple" --prefix none \
        --format '{p}|{l}' | sed 's/ (\*)$//' | grep -v '^samara' | LC_ALL=C sort -u)
}

# The files, as they are installed.
place() { install -D --mode="${3:-644}" "$1" "$tree/usr/$2"; }
mkdir -p "$to/made/man"
"$samara" man "$to/made/man"
gzip -n9 "$to"/made/man/*.1
for page in "$to"/made/man/*.1.gz; do place "$page" "share/man/man1/$(basename "$page")"; done
for shell in bash zsh fish; do "$samara" completions $shell >"$to/made/$shell"; done
licences >"$to/made/licences"
place "$samara" bin/samara 755
place "$to/made/bash" share/bash-completion/completions/samara
place "$to/made/zsh" share/zsh/site-functions/_samara
place "$to/made/zsh" share/zsh/vendor-completions/_samara # Debian's folder
place "$to/made/fish" share/fish/vendor_completions.d/samara.fish
place packaging/samara-watch.service lib/systemd/system/samara-watch.service
for file in rules.yml dashboard.json; do place packaging/samara-$file share/samara/samara-$file; done
for file in README.md LICENSE-MIT LICENSE-APACHE; do place $file share/doc/samara/$file; done
place "$to/made/licences" share/doc/samara/LICENSES-OF-CRATES
place LICENSE-MIT share/doc/samara/copyright
find "$tree" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
ended files

# The packages, into a folder.
pack() { # FOLDER
    local deb=$to/made/deb work=$to/made/rpm script
    rm -rf "$deb" "$work"
    mkdir -p "$1" "$deb/DEBIAN" "$work"
    tar --create --directory "$tree/usr" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
        --format=gnu --transform="s|^\.|samara-$version|" . | gzip -n9 >"$1/samara-$version-x86_64-linux.tar.gz"

    cp -a "$tree/usr" "$deb"
    sed -e "s/@VERSION@/$version/" -e "s/@KIB@/$(du --summarize --apparent-size --block-size=1K "$tree" | cut -f1)/" \
        packaging/control >"$deb/DEBIAN/control"
    for script in installed:postinst removing:prerm removed:postrm; do
        install --mode=755 "packaging/${script%:*}.sh" "$deb/DEBIAN/${script#*:}"
    done
    dpkg-deb --root-owner-group -Zxz --build "$deb" "$1/samara_${version}_amd64.deb" >/dev/null

    # Folders that other packages may have too, but need not be there.
    (cd "$tree" && find . -type f -printf '%%attr(-, root, root) /%P\n' -o -path './usr/share/*' ! -path '*/man*' ! -path '*/doc' -printf '%%dir %%attr(-, root, root) /%P\n') |
        LC_ALL=C sort >"$work/files"
    rpmbuild -bb --quiet --target x86_64-linux --define "_topdir $work" --define "_rpmdir $work" --define "_buildhost samara" \
        --define "use_source_date_epoch_as_buildtime 1" --define "clamp_mtime_to_source_date_epoch 1" \
        --define "samara_version $version" --define "samara_tree $tree" --define "samara_scripts $PWD/packaging" \
        --define "samara_files $work/files" packaging/samara.spec >/dev/null
    mv "$work"/x86_64/*.rpm "$1"
}
pack "$to"
pack "$to/again"
for file in "$to"/again/*; do
    cmp "$file" "$to/${file##*/}" || { echo "package: not the same bytes again: ${file##*/}" >&2 && exit 1; }
done
rm -rf "$to/again" "$to/made"
(cd "$to" && sha256sum -- *.tar.gz *.deb *.rpm *.crate >SHA256SUMS)
ended packages

ci/install.sh
ended install
(cd "$to" && stat --format='package: %n: %s bytes' -- *.tar.gz *.deb *.rpm)
