#!/usr/bin/env bash
# The crates as a registry would have them: `cargo package` of each that may be published, then `cargo
# install` of the command from these packages and those of others alone, without a network. A package
# lacks nothing that builds it. The packages lie in target/crates, the command in target/crates/bin.
set -euo pipefail
cd "$(dirname "$0")/.."

built=$(realpath -m "${CARGO_TARGET_DIR:-target}")
to=$built/crates
rm -rf "$to"
mkdir -p "$to"
mapfile -t crates < <(cargo metadata --locked --no-deps --format-version 1 | jq --raw-output '.packages[] | select(.publish != []) | .name')
[ ${#crates[@]} -ge 7 ] || { echo "crates: only ${#crates[@]} may be published" >&2 && exit 1; }

# A folder that stands in for the registry: the crates of others, and ours, each with its checksum.
cargo vendor --locked --quiet --versioned-dirs "$to/registry" >/dev/null
cargo package --locked --quiet --no-verify --allow-dirty --target-dir "$to/made" "${crates[@]/#/--package=}"
for crate in "$to"/made/package/*.crate; do
    tar --extract --file "$crate" --directory "$to/registry"
    printf '{"files":{},"package":"%s"}' "$(sha256sum "$crate" | cut -d' ' -f1)" >"$to/registry/$(basename "$crate" .crate)/.cargo-checksum.json"
    mv "$crate" "$to"
done
rm -r "$to/made"

# In a folder without a workspace. Cargo takes a package of the same version as the same: what an
# earlier run built of ours is forgotten.
rm -rf "$built"/crates-target/debug/.fingerprint/samara*
(cd / && cargo install --config "source.crates-io.replace-with='packages'" --config "source.packages.directory='$to/registry'" \
    --offline --locked --quiet --debug --no-track --target-dir "$built/crates-target" --root "$to" samara-cli)
rm -r "$to/registry"
echo "crates: ${#crates[@]} packages; cargo install makes of them: $("$to/bin/samara" --version)"
