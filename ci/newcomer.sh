#!/usr/bin/env bash
# What a newcomer waits for: a fresh clone with nothing built, and the README's two commands as they
# stand there. Prints the seconds and the processor seconds of each; fails where a command fails, or
# takes more processor time than it may. Two cores are assumed to be quiet; downloads are not counted.
set -euo pipefail
cd "$(dirname "$0")/.."

# Most processor seconds of each.
declare -A most=(["cargo build --release"]=300 ["cargo test --workspace"]=900)

clone=$(mktemp -d)
trap 'rm -rf "$clone"' EXIT
git clone --quiet . "$clone/samara"
cd "$clone/samara"
# Nothing that a newcomer does not have: other flags, a shared target folder, a cache of the compiler.
unset RUSTFLAGS RUSTC_WRAPPER CI
for setting in $(compgen -e | grep -E '^(CARGO_(PROFILE|BUILD|TARGET|INCREMENTAL|ENCODED)|SAMARA_)' || true); do
    unset "$setting"
done
cargo fetch --locked --quiet

# The commands of the README's block `sh` that begin with `cargo build` or `cargo test`, without their comments.
mapfile -t commands < <(awk '/^```sh$/ { code = 1; next } /^```/ { code = 0 } code' README.md |
    sed -nE 's/^(cargo (build|test)[^#]*[^# ]) *(#.*)?$/\1/p')
[ "${#commands[@]}" = 2 ] || { echo "newcomer: README.md has ${#commands[@]} such commands, not two" >&2; exit 1; }
failed=0
for command in "${commands[@]}"; do
    [ -n "${most[$command]:-}" ] || { echo "newcomer: README.md has another command: $command" >&2; exit 1; }
    start=$SECONDS
    TIMEFORMAT='%U %S'
    used=$({ time bash -c "$command" >"$clone/log" 2>&1 </dev/null; } 2>&1) ||
        { tail -n 100 "$clone/log"; echo "newcomer: failed: $command" >&2; exit 1; }
    used=$(awk 'END { printf "%d", $1 + $2 }' <<<"$used")
    echo "newcomer: $command: $((SECONDS - start)) s, $used processor seconds of ${most[$command]}"
    [ "$used" -le "${most[$command]}" ] || failed=1
done
[ "$failed" = 0 ] || echo "newcomer: more processor time than a newcomer should wait for" >&2
exit "$failed"
