#!/usr/bin/env bash
# The book: it has at most 25,000 words; every relative link of the documents leads somewhere; mdBook
# builds it; every command in its `sh` blocks runs, and prints what the page shows (but for numbers,
# `ci/book.py`). A page's blocks run in the order of the page, in a directory that has `book`, the
# traces `t.samara`, `old.samara` and `new.samara`, and the programs `app`, `guard_pages`, `server`
# and `test-suite`. Needs python3, cc and jq. Installs mdBook.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/lib.sh

words=$(find book/src -name '*.md' -exec cat {} + | wc -w)
[ "$words" -le 25000 ] || { echo "book: $words words, more than 25,000" >&2; exit 1; }

for program in python3 cc jq; do
    command -v "$program" >/dev/null || skip book "$program is missing"
done
python3 ci/book.py links

# A newer mdBook may warn of other things.
version=0.5.4
mdbook --version 2>/dev/null | grep -q " v$version" ||
    cargo install mdbook --debug --quiet --locked --no-default-features --version "$version"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mdbook build book 2>"$work/told" || { cat "$work/told" >&2; exit 1; }
! grep -E 'WARN|ERROR' "$work/told" || exit 1

# The binary that the tests run. In CI features of one crate alone would build it anew.
scope=(-p samara-cli)
if [ "${CI:-}" = true ]; then scope=(--workspace); fi
cargo test --locked --quiet "${scope[@]}" --no-run
PATH=$(realpath "${CARGO_TARGET_DIR:-target}")/debug:$PATH

mkdir "$work/given"
ln -s "$PWD/book" "$work/given/book"
# Fewer areas than the case has: each command runs this program again.
sed 's/: 10000;/: 300;/' book/src/cases/guard_pages.c | cc -g -O1 -x c -o "$work/given/app" -
cp "$work/given/app" "$work/given/guard_pages"
cp "$work/given/app" "$work/given/test-suite"
cc -x c -g -O1 -o "$work/given/server" - <<'C'
#include <sys/mman.h>
#include <unistd.h>
int main(void) {
    for (int i = 0; i < 3000; i++) {
        char *at = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mprotect(at, 4096, PROT_NONE);
        usleep(10000);
    }
}
C
(
    cd "$work/given"
    for trace in t:1000 old:100 new:1000; do
        samara trace --quiet --stacks -o "${trace%:*}.samara" -- ./app "${trace#*:}"
    done
)

scope=$(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo 0)
run=0
while read -r page; do
    rm -f "$work/script"
    python3 ci/book.py blocks "$page" "$work/script"
    [ -e "$work/script" ] || continue
    if [[ $page =~ /(attach|production).md$ && $scope != 0 && $(id -u) != 0 ]]; then
        echo "skipped: book: $page: kernel.yama.ptrace_scope is $scope"
        continue
    fi
    rm -rf "$work/page"
    cp -a "$work/given" "$work/page"
    (cd "$work/page" && timeout 300 bash -euxo pipefail "$work/script") >"$work/said" 2>&1 </dev/null ||
        { tail -n 40 "$work/said" >&2; echo "book: a command of $page fails" >&2; exit 1; }
    python3 ci/book.py texts "$page" "$work/said"
    run=$((run + 1))
done < <(find book/src -name '*.md' | sort)
echo "book: $words words; links, build and the commands of $run pages as they should be"
