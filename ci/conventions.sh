#!/usr/bin/env bash
# Conventions that a script can hold: lengths of files, lines and headings, no blanket
# `allow(dead_code)`, actors with a name, no short times in tests, every script of ci/ in
# CONTRIBUTING.md, current lock files. Prints every violation, then fails.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C
shopt -s lastpipe # `violations` ends pipes, and sets `failed` in this shell

failed=0
# Prints what comes in as violations of the named convention.
violations() { # CONVENTION
    local lines
    lines=$(cat)
    if [ -n "$lines" ]; then
        printf '%s:\n%s\n' "$1" "$lines"
        failed=1
    fi
}
files() { git ls-files --cached --others --exclude-standard -- "$@" | while read -r file; do [ ! -e "$file" ] || echo "$file"; done; }

# A source file has at most 850 lines; those over 600 are listed, to be split in time.
mapfile -t sources < <(files 'crates/*/src/*.rs')
wc -l "${sources[@]}" | awk '$2 != "total" && $1 > 600 && $1 <= 850 { print "conventions: " $2 " has " $1 " lines" }'
wc -l "${sources[@]}" | awk '$2 != "total" && $1 > 850 { print "  " $2 ": " $1 " lines" }' |
    violations "source files of over 850 lines"

# Comment lines of Rust have at most 100 columns; tables, code and addresses in them may be wider.
# A column is a character: the second and later bytes of one do not count.
mapfile -t rust < <(files '*.rs')
awk '
    FNR == 1 { code = 0 }
    !/^[ \t]*\/\// { code = 0; next }
    /^[ \t]*\/\/[\/!]? *```/ { code = !code; next }
    code || /^[ \t]*\/\/[\/!]? *\|/ || /https?:\/\// { next }
    { line = $0; gsub(/[\200-\277]/, "", line); sub(/\r$/, "", line) }
    length(line) > 100 { printf "  %s:%d: %d columns\n", FILENAME, FNR, length(line) }
' "${rust[@]}" | violations "comment lines of over 100 columns"

# Prose of documents too; tables, code blocks and the targets of links may be wider.
mapfile -t documents < <(files '*.md')
awk '
    FNR == 1 { code = 0 }
    /^ *(```|~~~)/ { code = !code; next }
    code || /^ *\|/ { next }
    {
        line = $0
        gsub(/\]\([^)]*\)/, "]()", line); sub(/^ *\[[^]]*\]: .*/, "", line); gsub(/https?:\/\/[^ )>]*/, "", line)
        gsub(/[\200-\277]/, "", line)
    }
    length(line) > 100 { printf "  %s:%d: %d columns\n", FILENAME, FNR, length(line) }
' "${documents[@]}" | violations "lines of prose of over 100 columns"

# A heading has at most eight words, in documents and in the documentation of Rust items. One that
# is longer is often a paragraph that was joined to its heading.
awk '
    FNR == 1 { code = 0; rust = FILENAME ~ /\.rs$/ }
    {
        line = $0
        if (rust && !sub(/^[ \t]*\/\/[\/!] ?/, "", line)) { code = 0; next }
    }
    line ~ /^ *(```|~~~)/ { code = !code; next }
    !code && line ~ /^ ? ? ?#+ / {
        sub(/^ *#+ +/, "", line)
        words = split(line, word, / +/)
        if (words > 8) printf "  %s:%d: %d words: %s\n", FILENAME, FNR, words, line
    }
' "${documents[@]}" "${rust[@]}" | violations "headings of over eight words"

# An actor has a name: no thread, no other call, the first request.
{ git grep --untracked -nwiE 'nobody|somebody|whoever' -- '*.rs' '*.md' '*.sh' '*.py' '*.c' '*.js' '*.html' ':!lab' || true; } |
    { grep -vE '\.rs:[0-9]+: *(fn nobody|const NOBODY|text: "an area|command\.uid|\("follow_a)|conventions\.sh' || true; } | sed 's/^/  /' |
    violations "actors without a name"

# Unused code is allowed item by item, or in one set of features; never in a whole file or crate.
{ grep -nE '^ *#!\[allow\([^)]*dead_code' "${sources[@]}" || true; } | sed 's/^/  /' | violations "blanket allow(dead_code)"

# The reader and the writer of trace files know no analysis of them.
{ grep -nE '^[^/]*crate::(why|survey|summary|trace|spaces)\b' crates/samara-trace/src/file/*.rs || true; } | sed 's/^/  /' |
    violations "analyses that samara-trace's files import"

# No test fails because a machine is busy: what a test compares with a time since a moment is a limit
# of minutes, which only turns a hang into a message, or says on the line why no machine misses it.
mapfile -t tests < <(files 'crates/*/tests/*.rs' 'crates/*/src/*tests.rs')
{ grep -nE '(elapsed\(\)(\.as_(secs|millis)\(\))?|took\.as_(secs|millis)\(\)) *<=? *((std::time::)?Duration::from_(micros|millis|secs)\([0-9_]{1,2}\)|(std::time::)?Duration::from_(micros|millis)\(|[0-9]{1,2}\b)' "${tests[@]}" || true; } |
    { grep -v '// busy: ' || true; } | sed 's/^/  /' | violations "tests that a busy machine fails: times under 100 seconds"

# CONTRIBUTING.md says what every script is for.
files 'ci/*.sh' | while read -r script; do
    grep -qF "\`$script" CONTRIBUTING.md || echo "  $script"
done | violations "scripts that CONTRIBUTING.md does not name"

# Every workspace has a tracked lock file, and it is current.
files '*Cargo.toml' | while read -r manifest; do
    grep -q '^\[workspace\]' "$manifest" || continue
    lock=${manifest%Cargo.toml}Cargo.lock
    git ls-files --error-unmatch "$lock" >/dev/null 2>&1 || { echo "  $lock is not tracked"; continue; }
    told=$(cargo metadata --locked --format-version 1 --manifest-path "$manifest" 2>&1 >/dev/null) || sed "s|^|  $lock: |" <<<"$told"
done | violations "lock files that are not current"

[ "$failed" = 0 ] || exit 1
echo "conventions: ${#sources[@]} source files, ${#documents[@]} documents, as they should be"
