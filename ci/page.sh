#!/usr/bin/env bash
# The page of `samara report` in a browser without a window: it opens without an error or a request,
# its numbers are those of the data, a span selects, names stay text, the keyboard reaches everything;
# and how long a large page takes, printed. Installs Chromium and npm where they are missing, and the
# browser's driver into a temporary directory.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/lib.sh

[ "${SAMARA_REQUIRE_PROGRAMS:-}" != 1 ] || export CI=true
browser() { command -v chromium || command -v chromium-browser || command -v google-chrome; }
browser >/dev/null || program page chromium chromium
program page node nodejs
program page npm npm

tests=crates/samara-cli/tests/page
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cp "$tests/package.json" "$tests/package-lock.json" "$directory"
npm ci --prefix "$directory" --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null ||
    skip page "puppeteer-core cannot be installed by npm"

SAMARA_CHROMIUM=$(browser) SAMARA_PAGE_MODULES=$directory TMPDIR=$directory \
    node --test "$tests/page.test.mjs" >"$directory/told" 2>&1 || { cat "$directory/told" && exit 1; }
sed -n 's/^# \(page: .*\)/\1/p' "$directory/told"
echo "page: $(sed -n 's/^# pass //p' "$directory/told") tests, no failure"
