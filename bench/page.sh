#!/usr/bin/env bash
# Time to draw the page of a million events and to respond, in Chromium without a window, as
# `ci/page.sh` measures it for a larger page. Needs the same tools, and gcc. `cargo build --release`
# first.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
million_calls "$dir"
"$samara" trace --quiet --stacks -o "$dir/million.samara" -- "$dir/million"
"$samara" report "$dir/million.samara" --json >"$dir/million.json"
SAMARA_PAGE_DATA=$dir/million.json ci/page.sh
