#!/usr/bin/env bash
# The invariants of the modules' heads (`//! - **LEAF-5** ...`): no two modules define the same name,
# and every name that a comment or a document cites is defined.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

mapfile -t files < <(git ls-files --cached --others --exclude-standard 'crates/*.rs' 'bench/*.rs' 'fuzz/*.rs')
mapfile -t documents < <(git ls-files --cached --others --exclude-standard '*.md')

heads=$(grep -hoE '^//! - \*\*[A-Z][A-Z-]*-[0-9]+\*\*' "${files[@]}" | grep -oE '[A-Z][A-Z-]*-[0-9]+' | sort)
twice=$(uniq -d <<<"$heads")
[ -z "$twice" ] || { echo "defined twice:" $twice; exit 1; }

# A prefix of a defined one, and a number: what looks like a citation.
prefixes=$(sed -E 's/-[0-9]+$//' <<<"$heads" | sort -u | paste -sd'|')
cited=$(grep -hoE "(^|[^A-Za-z0-9_-])($prefixes)-[0-9]+" "${files[@]}" "${documents[@]}" | grep -oE "($prefixes)-[0-9]+$" | sort -u)
unknown=$(comm -13 <(echo "$heads") <(echo "$cited"))
[ -z "$unknown" ] || { echo "cited and not defined:" $unknown; exit 1; }
echo "invariants: $(wc -l <<<"$heads"), each defined once, and every citation is of one of them"
