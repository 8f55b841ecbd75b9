#!/usr/bin/env bash
# The real programs that the tests trace, and the tools of other steps. Installs those that are
# missing, by apt-get; fails where that is not possible.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/lib.sh

missing=0
# Each line: the program, and the package that has it.
while read -r program package; do
    if ! command -v "$program" >/dev/null 2>&1; then
        echo "programs: $program is missing; installing $package"
        if ! installed "$program" "$package"; then
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
