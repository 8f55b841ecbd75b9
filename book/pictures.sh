#!/usr/bin/env bash
# Makes the pictures of the book anew: records each worked case that has one with call stacks,
# writes its page, and takes pictures of it. Needs cc, Chromium, Node and npm. `cargo build --release` first.
set -euo pipefail
cd "$(dirname "$0")/.."
samara=$PWD/target/release/samara tests=$PWD/crates/samara-cli/tests/page pages=$PWD/book/src
# The names of these directories are in the pictures.
dir=/tmp/rec modules=$(mktemp -d)
mkdir "$dir"
trap 'rm -rf "$dir" "$modules"' EXIT
cp "$tests/package.json" "$tests/package-lock.json" "$modules"
npm ci --prefix "$modules" --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null
SAMARA_CHROMIUM=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
export SAMARA_CHROMIUM SAMARA_PAGE_MODULES=$modules

cd "$dir"
for picture in "$pages"/cases/pictures/*.png; do
    name=$(basename "$picture" .png)
    cp "$pages/cases/$name.c" .
    cc -O1 -g -pthread -o "$name" "$name.c"
    "$samara" trace --quiet --stacks --report -o "$name.samara" "./$name" 2>/dev/null
done
node "$tests/pictures.mjs" "$pages/cases/pictures" 1000 1000 light ./*.html
for theme in light dark; do
    node "$tests/pictures.mjs" "$pages/report" 1000 panels "$theme" guard_pages.html
done
