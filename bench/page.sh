#!/usr/bin/env bash
# How long the page of a million events takes to be drawn and to answer, in Chromium without a window, as
# `ci/page.sh` measures it of a larger one. Needs what that needs, and gcc. `cargo build --release` first.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
million_calls "$dir"
"$samara" trace --quiet --stacks -o "$dir/million.samara" -- "$dir/million"
"$samara" report "$dir/million.samara" --json >"$dir/million.json"
SAMARA_PAGE_DATA=$dir/million.json ci/page.sh
