//! Prints the bytes that each map asks of the allocator for a range: `samara-bench-bytes N`.
//!
//! Linking `allocation_counter` makes it the allocator of this program.
#![forbid(unsafe_code)]

use samara_bench::cases::{Built, bytes};
use samara_bench::data::Data;
use samara_bench::index::Kind;
use std::collections::BTreeMap;

fn main() {
    let n = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1000);
    let data = Data::new(n);
    let count = |build: &mut dyn FnMut()| allocation_counter::measure(build).bytes_current;
    for (kind, bytes) in [
        (Kind::Samara, bytes::<samara::RangeMap<u64>>(&data, Built::Insert, count)),
        (Kind::SamaraBulk, bytes::<samara::RangeMap<u64>>(&data, Built::Bulk, count)),
        (Kind::BTreeMap, bytes::<BTreeMap<u64, (u64, u64)>>(&data, Built::Insert, count)),
        (Kind::BTreeMapBulk, bytes::<BTreeMap<u64, (u64, u64)>>(&data, Built::Bulk, count)),
        (Kind::RangeMap, bytes::<rangemap::RangeMap<u64, u64>>(&data, Built::Insert, count)),
    ] {
        println!("{} {bytes:.2}", kind.name());
    }
}
