//! The physical memory of a virtual machine: RAM, ROM and devices by guest address.
//!
//! RAM stores the difference between host and guest address. So every part of an area has the same
//! value, and the map may cut areas without a change of values.
#![forbid(unsafe_code)]

use samara::{Entry, EntryError, RangeMap, Remains, Span, key_newtype};
use std::error;

key_newtype! {
    /// A guest-physical address.
    struct Guest(u64);
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Area {
    /// Host address minus guest address.
    Ram(u64),
    Rom(u64),
    Device(&'static str),
}

const GIB: u64 = 1 << 30;

fn span(first: u64, len: u64) -> Span<Guest> {
    Span::with_len(Guest(first), Guest(len)).expect("a range of the guest")
}

/// What a vCPU exit at `address` has to do.
#[derive(Debug, PartialEq)]
enum Exit {
    Host(u64),
    Device { name: &'static str, offset: u64 },
    Nothing,
}

fn resolve(memory: &RangeMap<Guest, Area>, address: u64) -> Exit {
    match memory.get(Guest(address)) {
        Some((_, Area::Ram(bias) | Area::Rom(bias))) => Exit::Host(address.wrapping_add(*bias)),
        Some((span, Area::Device(name))) => Exit::Device { name, offset: address - span.first.0 },
        None => Exit::Nothing,
    }
}

fn main() -> Result<(), Box<dyn error::Error>> {
    let host = 0x7f00_0000_0000u64;
    let mut memory = RangeMap::<Guest, Area>::default();

    // 4 GiB of RAM around the hole for devices, which starts at 3 GiB.
    memory.insert(span(0, 3 * GIB), Area::Ram(host))?;
    memory.insert(span(4 * GIB, GIB), Area::Ram(host - GIB))?;
    memory.insert(span(0xfec0_0000, 0x1000), Area::Device("ioapic"))?;

    // The option ROM covers RAM: the observer is shown what goes, and the RAM is cut in two.
    let mut covered = Vec::new();
    memory.replace(span(0xc_0000, 0x4_0000), Area::Rom(0x1000), |piece| {
        covered.push((piece.span, piece.remains()));
    })?;
    assert_eq!(covered, [(span(0xc_0000, 0x4_0000), Remains::Both)]);

    assert_eq!(resolve(&memory, 0x1000), Exit::Host(host + 0x1000));
    assert_eq!(resolve(&memory, 0x10_0000), Exit::Host(host + 0x10_0000)); // above the ROM
    assert_eq!(resolve(&memory, 4 * GIB), Exit::Host(host + 3 * GIB)); // RAM goes on behind the hole
    assert_eq!(resolve(&memory, 0xfec0_0010), Exit::Device { name: "ioapic", offset: 0x10 });
    assert_eq!(resolve(&memory, 0xd000_0000), Exit::Nothing);

    // A snapshot in O(1): a migration reads it while the guest's memory changes.
    let before = memory.snapshot();

    // Hotplug goes into free addresses only: an entry of a gap refuses to overwrite.
    let Entry::Vacant(gap) = memory.entry(Guest(5 * GIB)) else { panic!("nothing is at 5 GiB") };
    gap.insert(span(5 * GIB, GIB), Area::Ram(host - GIB))?;
    let Entry::Vacant(gap) = memory.entry(Guest(6 * GIB)) else { panic!("nothing is at 6 GiB") };
    let refused = gap.insert(span(5 * GIB, 2 * GIB), Area::Ram(0)).unwrap_err();
    assert!(matches!(refused, EntryError::OutsideGap { .. }));

    assert_eq!(resolve(&memory, 5 * GIB), Exit::Host(host + 4 * GIB));
    assert_eq!(resolve(&before, 5 * GIB), Exit::Nothing);

    for (span, area) in &memory {
        println!("{span} {area:x?}");
    }
    Ok(())
}

#[test]
fn runs() {
    main().unwrap();
}
