# What the scripts of bench/ share. They source it from anywhere: it changes to the repository's root.
# `dir` is a new directory that goes when the script ends.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
samara=$PWD/target/release/samara runs=${RUNS:-5}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

median() { sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }
