#!/usr/bin/env bash
# The index of invariants, docs/invariants.md, from the heads of the modules (`//! - **LEAF-5** ...`). Fails where it is not current, where two
# modules define the same name, and where a comment names an invariant that no module defines. `--update` writes it anew.
set -euo pipefail
cd "$(dirname "$0")/.."
export LC_ALL=C

index=$(mktemp)
trap 'rm -f "$index"' EXIT
mapfile -t files < <(git ls-files --cached --others --exclude-standard 'crates/*.rs' 'bench/*.rs' 'fuzz/*.rs')
{
    echo '# Invariants'
    echo
    echo 'What the code keeps true, by name: the index of the heads of the modules.'
    echo '`ci/invariants.sh --update` writes this file.'
    awk '
        FNR == 1 { open = 0; told = 0 }
        /^\/\/! - \*\*[A-Z][A-Z-]*-[0-9]+\*\*/ {
            if (!told) { printf "\n## %s\n\n", FILENAME; told = 1 }
            print substr($0, 5); open = 1; next
        }
        open && /^\/\/!   / { print substr($0, 5); next }
        { open = 0 }
    ' "${files[@]}"
} >"$index"

twice=$(grep -oE '^- \*\*[A-Z-]+-[0-9]+' "$index" | sort | uniq -d)
[ -z "$twice" ] || { echo "defined twice: $twice"; exit 1; }

defined=$(grep -oE '^- \*\*[A-Z-]+-[0-9]+' "$index" | cut -c5- | sort -u)
# A prefix of a defined one, and a number of one digit: what looks like a reference.
prefixes=$(sed -E 's/-[0-9]+$//' <<<"$defined" | sort -u | paste -sd'|')
used=$(grep -hoE "(^|[^A-Za-z0-9_-])($prefixes)-[0-9]+" "${files[@]}" docs/design.md | grep -oE "($prefixes)-[0-9]+$" | sort -u)
unknown=$(comm -13 <(echo "$defined") <(echo "$used"))
[ -z "$unknown" ] || { echo "named and not defined:" $unknown; exit 1; }

if [ "${1-}" = --update ]; then
    cp "$index" docs/invariants.md
fi
diff -u docs/invariants.md "$index" || { echo "docs/invariants.md is not current: ci/invariants.sh --update"; exit 1; }
echo "invariants: $(wc -l <<<"$defined"), each defined once"
