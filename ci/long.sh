#!/usr/bin/env bash
# The long campaigns, with seeds that nobody has tried; not a part of CI. Takes some hours. Each prints what repeats it; the last line has
# the counts of all. SAMARA_SEED=N repeats a run. Campaigns can be named: `ci/long.sh tree calls`.
set -euo pipefail
cd "$(dirname "$0")/.."

seed=${SAMARA_SEED:-$(date +%s)}
export SAMARA_SEED=$seed
log=$(mktemp)
trap 'rm -f "$log"' EXIT
done=()

# Runs a campaign, shows its end where it fails, and leaves its output in the log.
campaign() { "$@" >"$log" 2>&1 || { tail -n 200 "$log"; echo "long: SAMARA_SEED=$seed fails in: $*"; exit 1; }; }

# Random operations on the tree, against the oracle.
tree() {
    campaign ci/properties.sh
    done+=("$(grep -oE '[0-9]+ random operations' "$log" | tail -n 1) on the tree")
}

# Random calls on the model, beside the running kernel.
calls() {
    local n=0 at
    for at in 0 1 2; do
        campaign cargo run --quiet --release --package samara-cli -- check --ops 1000000 --seed "$((seed + at))"
        n=$((n + 1000000))
    done
    done+=("$n calls beside the kernel")
}

# Programs whose threads race for the same pages, each recorded and with the engine in charge.
races() {
    SAMARA_RACES=${SAMARA_RACES:-738} campaign cargo test --package samara-trace --test own -- --exact races --nocapture
    done+=("$(grep -o 'races: [0-9].*' "$log" | tail -n 1)")
}

# What threads do to a shared tree, with more preemptions than in CI.
models() {
    LOOM_MAX_PREEMPTIONS=${LOOM_MAX_PREEMPTIONS:-3} SAMARA_MODEL_SHAPES=${SAMARA_MODEL_SHAPES:-2000} \
        MODELS_SECONDS=${MODELS_SECONDS:-7200} campaign ci/models.sh
    done+=("$(grep -c ' ways' "$log") models")
}

# The fuzz targets, ten minutes each.
fuzz() {
    campaign ci/fuzz.sh "${SAMARA_FUZZ_SECONDS:-600}"
    done+=("$(grep -c 'without a failure' "$log") fuzz targets of ${SAMARA_FUZZ_SECONDS:-600} s")
}

for name in "${@:-tree calls races models fuzz}"; do
    for one in $name; do
        start=$SECONDS
        "$one"
        echo "long: $one: $((SECONDS - start)) s"
    done
done
printf 'long: no failure, seed %s: %s\n' "$seed" "$(printf '%s; ' "${done[@]}" | sed 's/; $//')"
