//! Aligned places below an area that grows down. The kernel's answers (Linux 6.18) are those of a
//! process that maps 2 MiB of huge pages where one gap is left, with and without MAP_32BIT.

use samara::End;
use samara_mm::{AddressSpace, Config, FileId, MapFlags, MapRequest, PageSize, Prot};

const HUGE: u64 = 2 << 20;
const AT: u64 = 0x5000_0000;

/// The place in a gap `start..end` with an area of 1 MiB behind it. `None`: not there.
fn place(start: u64, end: u64, grows_down: bool, from: End) -> Option<u64> {
    let mut space = AddressSpace::<FileId>::new(Config::default());
    let mut map = |at: u64, len: u64, flags: MapFlags| {
        let mut request = MapRequest::anonymous(at, len, Prot::NONE);
        request.flags |= flags;
        space.map(&request).unwrap();
    };
    let (low, high) = (AT - (256 << 20), AT + end + (256 << 20));
    map(low, AT + start - low, MapFlags::empty());
    map(AT + end, 1 << 20, if grows_down { MapFlags::GROWSDOWN } else { MapFlags::empty() });
    map(AT + end + (1 << 20), high - AT - end - (1 << 20), MapFlags::empty());
    space.free_place(HUGE, PageSize::M2, low, high, from).map(|at| at - AT)
}

#[test]
fn the_highest_place() {
    for (start, end, expected) in [
        (0x1000, 0x50_b000, Some(0x20_0000)),
        (0xc000, 0x50_b000, Some(0x20_0000)),
        (0xd000, 0x50_b000, None),
        (0xb_1000, 0x50_b000, None),
        (0, 0x4f_f000, Some(0)),
        (0, 0x50_0000, Some(0x20_0000)),
        (0x1f_f000, 0x6f_f000, Some(0x20_0000)),
        (0x1f_f000, 0x70_0000, Some(0x40_0000)),
    ] {
        assert_eq!(place(start, end, true, End::Highest), expected, "{start:#x}..{end:#x}");
    }
    assert_eq!(place(0xb_1000, 0x50_b000, false, End::Highest), Some(0x20_0000));
}

#[test]
fn the_lowest_place() {
    for (start, end, expected) in [
        (0, 0x3f_f000, None),
        (0, 0x40_0000, None),
        (0, 0x4f_f000, Some(0)),
        (0x1000, 0x50_0000, None),
        (0x1000, 0x6f_e000, None),
        (0x1000, 0x6f_f000, Some(0x20_0000)),
        (0x1f_f000, 0x6f_e000, None),
        (0x20_0000, 0x6f_e000, None),
        (0x20_0000, 0x6f_f000, Some(0x20_0000)),
    ] {
        assert_eq!(place(start, end, true, End::Lowest), expected, "{start:#x}..{end:#x}");
    }
    for (start, end, expected) in
        [(0x1000, 0x6f_e000, Some(0x20_0000)), (0x1000, 0x40_0000, Some(0x20_0000)), (0x1000, 0x3f_f000, None)]
    {
        assert_eq!(place(start, end, false, End::Lowest), expected, "{start:#x}..{end:#x}, no stack");
    }
}
