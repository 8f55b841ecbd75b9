#!/usr/bin/env bash
# The real programs that the tests trace, and the tools of other steps. Installs those that are
# missing, by apt-get; fails where that is not possible.
set -euo pipefail
cd "$(dirname "$0")/.."

install() {
    if [ -z "${updated:-}" ]; then
        $root apt-get update -qq </dev/null
        updated=1
    fi
    DEBIAN_FRONTEND=noninteractive $root apt-get install -y -qq --no-install-recommends "$1" </dev/null >/dev/null
}

root=
if [ "$(id -u)" != 0 ]; then root="sudo -n"; fi
missing=0
# Each line: the program, and the package that has it.
while read -r program package; do
    if ! command -v "$program" >/dev/null 2>&1; then
        echo "programs: $program is missing; installing $package"
        if ! { command -v apt-get >/dev/null 2>&1 && install "$package" && command -v "$program" >/dev/null 2>&1; }; then
            echo "programs: $program cannot be installed" >&2
            missing=1
        fi
    fi
done <<'LIST'
bash bash
gcc gcc
g++ g++
make make
python3 python3
node nodejs
java default-jre-headless
javac default-jdk-headless
go golang-go
strace strace
valgrind valgrind
script bsdutils
sqlite3 sqlite3
jq jq
redis-server redis-server
redis-benchmark redis-tools
LIST
[ "$missing" = 0 ] && echo "programs: all there"
exit "$missing"
