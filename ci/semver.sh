#!/usr/bin/env bash
# The public interface of the published libraries against the lists in ci/api. A difference fails:
# look at it, say in CHANGELOG.md what it means for users, and write the lists anew with
# `ci/semver.sh --update`.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/lib.sh

version=0.52.0

cargo public-api --version >/dev/null 2>&1 || cargo install cargo-public-api --debug --locked --version "$version"
nightly

mkdir -p ci/api
now=$(mktemp)
trap 'rm -f "$now" "$now.err"' EXIT
differs=0
for package in samara samara-mm samara-trace samara-record samara-probe samara-oracle; do
    list=ci/api/$package.txt
    cargo +nightly public-api --package "$package" --simplified >"$now" 2>"$now.err" ||
        { cat "$now.err" >&2; exit 1; }
    if [ "${1:-}" = --update ]; then
        cp "$now" "$list"
        echo "semver: wrote $list"
    elif diff -u "$list" "$now"; then
        echo "semver: $package is as listed"
    else
        differs=1
    fi
done
if [ "$differs" = 1 ]; then
    echo "semver: the public interface changed; if that is meant: ci/semver.sh --update" >&2
    exit 1
fi
