//! A virtual machine monitor places the memory windows (BARs) of its PCI devices: each at a
//! multiple of its size, 32-bit ones below 4 GiB, and all of a device or none.
#![forbid(unsafe_code)]

use samara::{End, Error, GapQuery, RangeMap, Span};
use std::error;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Where the windows of devices may lie.
const LOW: Span = Span { first: 3 * GIB, last: 4 * GIB - 1 };
const HIGH: Span = Span { first: 64 * GIB, last: 1024 * GIB - 1 };

struct Bar {
    size: u64,
    wide: bool,
}

/// Where a window may lie: 64-bit windows from above, 32-bit ones from below. An error if its size
/// is not a power of two.
fn query(bar: &Bar) -> Result<GapQuery, Error> {
    let (window, end) = if bar.wide { (HIGH, End::Highest) } else { (LOW, End::Lowest) };
    Ok(GapQuery::new(bar.size).aligned(bar.size)?.within(window).from(end))
}

/// Places all windows of a device, or none. `None`: there is no room.
fn place(bus: &mut RangeMap<u64, &'static str>, name: &'static str, bars: &[Bar]) -> Result<Option<Vec<Span>>, Error> {
    let queries = bars.iter().map(query).collect::<Result<Vec<_>, _>>()?;
    // Memory first. The stores below then cannot fail, and none has to be undone for lack of it.
    bus.reserve(bars.len())?;
    let mut placed: Vec<Span> = Vec::new();
    for query in queries {
        let Some(span) = bus.find_gap(&query) else {
            for span in placed {
                bus.remove(span.first);
            }
            return Ok(None);
        };
        bus.insert(span, name).expect("memory was set aside for each window");
        placed.push(span);
    }
    Ok(Some(placed))
}

fn main() -> Result<(), Box<dyn error::Error>> {
    let mut bus = RangeMap::<u64, _>::new();
    bus.insert(0xfec0_0000..=0xfec0_0fff, "ioapic")?;
    bus.insert(0xfee0_0000..=0xfee0_0fff, "lapic")?;

    let net = place(&mut bus, "net", &[Bar { size: 0x1000, wide: false }, Bar { size: 16 * MIB, wide: true }])?;
    assert_eq!(net, Some(vec![Span::new(0xc000_0000, 0xc000_0fff), Span::new(0xff_ff00_0000, 0xff_ffff_ffff)]));

    // Behind the page of `net`, at the next multiple of its own size.
    let gpu = place(&mut bus, "gpu", &[Bar { size: 256 * MIB, wide: false }, Bar { size: 16 * GIB, wide: true }])?;
    assert_eq!(gpu, Some(vec![Span::new(0xd000_0000, 0xdfff_ffff), Span::new(0xf8_0000_0000, 0xfb_ffff_ffff)]));

    // The page would fit, but 512 MiB do not: nothing of the device stays.
    let before = bus.len();
    let disk = place(&mut bus, "disk", &[Bar { size: 0x1000, wide: false }, Bar { size: 512 * MIB, wide: false }])?;
    assert_eq!(disk, None);
    assert_eq!(bus.len(), before);

    // What is left for 32-bit windows.
    let free: u64 = bus.gaps(LOW).filter_map(|gap| gap.len()).sum();
    assert_eq!(free, GIB - 256 * MIB - 3 * 0x1000);

    for (span, name) in &bus {
        println!("{:>12x} - {:>12x} {name}", span.first, span.last);
    }
    Ok(())
}

#[test]
fn runs() {
    main().unwrap();
}
