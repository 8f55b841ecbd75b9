//! A routing table: the longest prefix decides where an address goes. A thread looks up while
//! another one adds a route.
#![forbid(unsafe_code)]

use samara::{RangeMap, SharedRangeMap, Span, StoreError, key_newtype};
use std::net::Ipv4Addr;
use std::{error, thread};

key_newtype! {
    /// An IPv4 address as a number.
    struct Address(u32);
}

fn address(text: &str) -> Address {
    Address(u32::from(text.parse::<Ipv4Addr>().expect("an IPv4 address")))
}

/// The addresses of the network `base/bits`.
fn network(base: &str, bits: u32) -> Span<Address> {
    let host = u32::MAX.checked_shr(bits).unwrap_or(0);
    let first = address(base).0 & !host;
    Span::new(Address(first), Address(first | host))
}

type Table = RangeMap<Address, &'static str>;

/// Stores short prefixes first, so that longer ones overwrite them: a lookup is then one `get`.
fn table(routes: &mut [(&str, u32, &'static str)]) -> Result<Table, StoreError<Address>> {
    routes.sort_by_key(|(_, bits, _)| *bits);
    RangeMap::try_from_iter(routes.iter().map(|(base, bits, hop)| (network(base, *bits), *hop)))
}

fn main() -> Result<(), Box<dyn error::Error>> {
    let table = table(&mut [
        ("10.1.0.0", 16, "lab"),
        ("10.0.0.0", 8, "campus"),
        ("0.0.0.0", 0, "upstream"),
        ("192.168.0.0", 16, "home"),
    ])?;
    assert_eq!(table[address("10.1.2.3")], "lab");
    assert_eq!(table[address("10.2.0.1")], "campus");
    assert_eq!(table[address("255.255.255.255")], "upstream");
    // The prefixes cut one another: upstream, campus, lab, campus, upstream, home, upstream.
    assert_eq!(table.len(), 7);

    // Readers take no lock: at every moment they see the old route or the new one.
    let shared: SharedRangeMap<Address, _> = SharedRangeMap::from(table);
    let target = address("10.1.2.3");
    let always_routed = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            (0..10_000).all(|_| match shared.pin().get(target) {
                Some((span, hop)) if *hop == "lab" => span == network("10.1.0.0", 16),
                Some((span, hop)) if *hop == "rack" => span == network("10.1.2.0", 24),
                _ => false,
            })
        });
        shared.write().insert(network("10.1.2.0", 24), "rack")?;
        Ok::<_, StoreError<Address>>(reader.join().expect("the reader does not panic"))
    })?;
    assert!(always_routed);
    assert_eq!(shared.pin().get(target).map(|(_, hop)| *hop), Some("rack"));

    for (span, hop) in shared.pin().iter() {
        println!("{:>15} - {:<15} {hop}", Ipv4Addr::from(span.first.0), Ipv4Addr::from(span.last.0));
    }
    Ok(())
}

#[test]
fn runs() {
    main().unwrap();
}
