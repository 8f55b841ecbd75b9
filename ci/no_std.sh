#!/usr/bin/env bash
# The libraries build without std, for a bare 64-bit and a bare 32-bit target, and so does a program that
# uses the range maps. The parts of the shared map that have code of their own without std
# (reclamation, the lock that spins) pass their tests without it.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/lib.sh

# Generic code is compiled where it is used: with keys of each width.
caller=$(mktemp -d)
trap 'rm -rf "$caller"' EXIT
cat >"$caller/Cargo.toml" <<TOML
[package]
name = "caller"
version = "0.0.0"
edition = "2024"
[lib]
path = "caller.rs"
[dependencies]
samara = { path = "$PWD/crates/samara", default-features = false }
[workspace]
TOML
{
    echo '#![no_std]'
    echo 'use samara::{GapQuery, RangeMap, RangeSet};'
    for key in u16 u32 u64 usize u128; do
        echo "pub fn map_$key(map: &mut RangeMap<$key, u8>) -> bool { map.insert(1..=2, 3).is_ok() && map.get(1).is_some() }"
        echo "pub fn set_$key(set: &mut RangeSet<$key>) -> bool { set.insert(1..=2).is_ok() && set.find_gap(&GapQuery::new(9)).is_some() }"
    done
} >"$caller/caller.rs"
cp Cargo.lock "$caller"

for target in x86_64-unknown-none thumbv7em-none-eabi; do
    target "$target"
    cargo build --locked --target "$target" --package samara --package samara-mm --lib --no-default-features
    cargo build --locked --target "$target" --package samara --lib --no-default-features --features serde,shared
    cargo build --quiet --manifest-path "$caller/Cargo.toml" --target-dir "${CARGO_TARGET_DIR:-target}/no_std" --target "$target"
    echo "no_std: builds for $target"
done
# It needs atomics of 64 bits.
cargo build --locked --target x86_64-unknown-none --package samara-mm --lib --no-default-features --features shared
cargo test --locked --package samara --no-default-features --features shared --lib --test linearizability --test shared_owners
