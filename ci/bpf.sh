#!/usr/bin/env bash
# The BPF programs of recordings without stops are what clang makes of their source, byte for byte: the
# file in the repository needs no clang to be used. `ci/bpf.sh --update` writes it.
set -euo pipefail
cd "$(dirname "$0")/../crates/samara-record/bpf"
root=$PWD/../../..
. "$root/ci/lib.sh"

# That of Debian 12: another version may write other code.
clang=clang-14 strip=llvm-strip-14
program bpf "$clang" clang-14
program bpf "$strip" llvm-14

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$clang" -target bpf -mcpu=v3 -O2 -g -Wall -Werror -fdebug-prefix-map="$PWD=." -c nostop.bpf.c -o "$work/nostop.bpf.o"
# BTF stays; the rest of what a debugger needs goes.
"$strip" --strip-debug "$work/nostop.bpf.o"
if [ "${1:-}" = --update ]; then
    cp "$work/nostop.bpf.o" nostop.bpf.o
elif ! cmp "$work/nostop.bpf.o" nostop.bpf.o; then
    echo "bpf: nostop.bpf.o is not what $clang makes of nostop.bpf.c: ci/bpf.sh --update" >&2
    exit 1
fi
echo "bpf: nostop.bpf.o has $(stat -c %s nostop.bpf.o) bytes, and is that of its source"
