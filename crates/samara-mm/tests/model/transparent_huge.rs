//! Which reads give anonymous memory an identity: one area at the end means that both merge.

use crate::releases::P;
use TransparentHuge::{Always, Madvise, Never};
use samara_mm::{
    Access, AddressSpace, Advice, Bases, Config, FileId, LockKind, MapFlags, MapRequest, Prot, TransparentHuge,
};

const HUGE: u64 = 512 * P;
type Space = AddressSpace<FileId>;

fn map(space: &mut Space, (from, to): (f64, f64), prot: Prot, more: MapFlags) {
    let (from, to) = ((from * HUGE as f64) as u64, (to * HUGE as f64) as u64);
    let one = MapRequest::anonymous(from, to - from, prot);
    space.map(&MapRequest { flags: one.flags | more, ..one }).unwrap();
}

/// Writes below `from`, in huge pages, does `act` to read-only memory from there to `to`, and makes
/// it writable.
fn areas(mode: TransparentHuge, (from, to): (f64, f64), more: MapFlags, act: impl Fn(&mut Space)) -> usize {
    let bases = Bases { huge: HUGE, ..Bases::default() };
    let mut space = Space::new(Config { bases, transparent_huge: mode, ..Config::default() });
    map(&mut space, (1.0, from), Prot::RW, more);
    space.fault(HUGE, Access::Write).unwrap();
    map(&mut space, (from, to), Prot::READ, more);
    act(&mut space);
    let (start, end) = ((from * HUGE as f64) as u64, (to * HUGE as f64) as u64);
    space.protect(start, end - start, Prot::RW, None).unwrap();
    space.check().unwrap();
    space.len()
}

/// Measured on 5.10, 6.12 and 7.3 under each setting.
#[test]
fn a_read_of_a_huge_page_of_zeros_gives_an_identity() {
    let none = MapFlags::empty();
    let read = |at: f64| move |s: &mut Space| s.fault((at * HUGE as f64) as u64, Access::Read).map(|_| ()).unwrap();
    let advised = |advice: Advice| {
        move |s: &mut Space| {
            s.advise(HUGE, 2 * HUGE, advice).unwrap();
            s.fault(2 * HUGE, Access::Read).unwrap();
        }
    };
    for (mode, plain, huge) in [(Always, 2, 2), (Madvise, 1, 2), (Never, 1, 1)] {
        let whole = (2.0, 3.0);
        assert_eq!(areas(mode, whole, none, |_| ()), 1);
        assert_eq!(areas(mode, whole, none, read(2.0)), plain, "{mode:?}");
        assert_eq!(areas(mode, whole, none, advised(Advice::HugePage)), huge, "{mode:?}");
        assert_eq!(areas(mode, whole, none, advised(Advice::NoHugePage)), 1);
        assert_eq!(areas(mode, whole, MapFlags::STACK, read(2.0)), 1, "without huge pages");
        assert_eq!(areas(mode, whole, MapFlags::POPULATE, |_| ()), plain);
        assert_eq!(areas(mode, whole, none, |s| _ = s.lock(HUGE, 2 * HUGE, LockKind::Now).unwrap()), plain);
        assert_eq!(areas(mode, whole, none, |s| _ = s.advise(2 * HUGE, P, Advice::PopulateRead).unwrap()), plain);
        // No whole huge page, or another part than the one that is read.
        assert_eq!(areas(mode, (2.0, 2.5), none, read(2.0)), 1);
        assert_eq!(areas(mode, (1.5, 2.5), none, read(1.5)), 1);
        assert_eq!(areas(mode, (1.5, 3.5), none, read(1.6)), 1);
        assert_eq!(areas(mode, (1.5, 3.5), none, read(3.2)), 1);
        assert_eq!(areas(mode, (1.5, 3.5), none, read(2.5)), plain);
    }
}
