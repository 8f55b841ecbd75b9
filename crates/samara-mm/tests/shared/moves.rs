//! `mremap` that moves memory: it locks the two ranges, and nothing between them.

use samara_mm::*;
use std::sync::mpsc::channel;
use std::time::Duration;

const PAGE: u64 = 0x1000;
/// End of the addresses that searches choose from.
const TOP: u64 = 0x1000_0000;
const OLD: u64 = 0x40_0000;
const TO: u64 = 0x80_0000;
const BETWEEN: u64 = 0x60_0000;
const SOON: Duration = Duration::from_millis(5);
const FIXED: RemapFlags = RemapFlags::MAYMOVE.union(RemapFlags::FIXED);

fn rw(at: u64, pages: u64) -> MapRequest<FileId> {
    MapRequest::anonymous(at, pages * PAGE, Prot::RW)
}

/// A space with four pages at `OLD`, and one at `BETWEEN`, all written.
fn shared() -> SharedAddressSpace<FileId> {
    let bases = Bases { top_down: TOP, bottom_up: TOP, window: TOP, ..Bases::default() };
    let space = SharedAddressSpace::new(Config { bases, ..Config::default() }).unwrap();
    for (at, pages) in [(OLD, 4), (BETWEEN, 1)] {
        space.map(&rw(at, pages)).unwrap();
        space.faulter().fault(at, Access::Write).unwrap();
    }
    space
}

fn areas(space: &SharedAddressSpace<FileId>) -> Vec<(u64, u64)> {
    space.maps().areas_in(0, u64::MAX).map(|(start, end, _)| (start, end)).collect()
}

/// Whether the call locked ranges, and not the whole space; and its answer.
fn ranged(
    space: &SharedAddressSpace<FileId>,
    request: (u64, u64, u64),
    flags: RemapFlags,
    to: u64,
) -> (Option<u64>, bool) {
    let before = space.statistics();
    let (old, old_len, new_len) = request;
    let done = space.mremap((old, old_len * PAGE), new_len * PAGE, flags, to, &mut Linux);
    let after = space.statistics();
    (done.ok().map(|(at, _)| at), after.ranged > before.ranged && after.whole == before.whole)
}

#[test]
fn moves_lock_two_ranges() {
    let space = shared();
    assert_eq!(ranged(&space, (OLD, 4, 4), FIXED, TO), (Some(TO), true));
    assert_eq!(areas(&space), [(BETWEEN, BETWEEN + PAGE), (TO, TO + 4 * PAGE)]);
    // A part, which then grows where it is.
    assert_eq!(ranged(&space, (TO + PAGE, 1, 2), FIXED, OLD), (Some(OLD), true));
    assert_eq!(ranged(&space, (OLD, 2, 3), RemapFlags::MAYMOVE, 0), (Some(OLD), true));
    // The place of one that cannot grow is searched for.
    space.map(&MapRequest { prot: Prot::READ, ..rw(OLD + 3 * PAGE, 1) }).unwrap();
    assert_eq!(ranged(&space, (OLD, 3, 5), RemapFlags::MAYMOVE, 0), (Some(TOP - 5 * PAGE), true));
    // Over what is there, and next to where it comes from.
    assert_eq!(ranged(&space, (TOP - 5 * PAGE, 2, 2), FIXED, TO), (Some(TO), true));
    assert_eq!(ranged(&space, (TO, 1, 1), FIXED, TO + PAGE), (Some(TO + PAGE), true));
    space.check().unwrap();
    // Several areas, and the hole between them.
    let space = shared();
    space.protect(OLD + PAGE, PAGE, Prot::READ, None).unwrap();
    space.unmap(OLD + 2 * PAGE, PAGE).unwrap();
    assert_eq!(ranged(&space, (OLD, 4, 4), FIXED, TO), (Some(TO), true));
    let at = [0, 1, 3].map(|page| (TO + page * PAGE, TO + (page + 1) * PAGE));
    assert_eq!(areas(&space)[1..], at);
    // What stays is counted.
    let dontunmap = RemapFlags::MAYMOVE | RemapFlags::DONTUNMAP;
    assert_eq!(ranged(&space, (TO, 1, 1), dontunmap, 0), (Some(TOP - PAGE), false));
    space.check().unwrap();
}

#[test]
fn what_is_refused_is_refused_alike() {
    let space = shared();
    let mut one = space.snapshot().unwrap();
    let odd = [0, 1, PAGE, OLD, OLD + PAGE, OLD + 4 * PAGE, TO, 0x7fff_ffff_f000, u64::MAX - PAGE + 1, u64::MAX];
    let flags = [RemapFlags::empty(), RemapFlags::MAYMOVE, FIXED, RemapFlags::FIXED, RemapFlags::from_bits_retain(8)];
    let before = areas(&space);
    for (old, old_len, new_len, to, flags) in odd.iter().flat_map(|old| {
        let lens = [0, 1, PAGE, 9 * PAGE, u64::MAX];
        let pairs = lens.into_iter().flat_map(move |a| lens.into_iter().map(move |b| (*old, a, b)));
        pairs.flat_map(|(old, a, b)| odd.into_iter().flat_map(move |to| flags.map(|flags| (old, a, b, to, flags))))
    }) {
        let want = one.mremap((old, old_len), new_len, flags, to, &mut Linux);
        let got = space.mremap((old, old_len), new_len, flags, to, &mut Linux);
        assert_eq!(got, want, "{old:x} {old_len:x} {new_len:x} {flags:?} {to:x}");
        if want.is_ok() {
            one = shared().snapshot().unwrap();
            space.replace(shared().snapshot().unwrap()).unwrap();
        }
    }
    assert_eq!(areas(&space), before);
    space.check().unwrap();
}

/// A move waits in `apply`: between its ranges others go on, in them they wait.
#[test]
fn between_the_ranges_nobody_waits() {
    let space = shared();
    let ((applying, is_applying), (go, may_go)) = (channel(), channel::<()>());
    std::thread::scope(|scope| {
        let space = &space;
        let moved = scope.spawn(move || {
            let apply = |_: &Plan| {
                applying.send(()).unwrap();
                may_go.recv().map_err(|_| Errno::EBUSY)
            };
            space.caller_with(apply).mremap((OLD, 4 * PAGE), 4 * PAGE, FIXED, TO, &mut Linux).map(|(at, _)| at)
        });
        is_applying.recv().unwrap();
        let mut caller = space.caller().timeout(SOON);
        let mut faulter = space.faulter();
        assert_eq!(caller.protect(OLD, PAGE, Prot::READ, None).unwrap_err().errno, Errno::ETIMEDOUT);
        assert_eq!(caller.map(&rw(TO + 3 * PAGE, 1)).unwrap_err().errno, Errno::ETIMEDOUT);
        assert!(matches!(faulter.try_fault(OLD, Access::Read), Err(FaultError::Changing)));
        assert!(matches!(faulter.try_fault(TO, Access::Read), Err(FaultError::Changing)));
        assert!(faulter.try_fault(BETWEEN, Access::Write).is_ok());
        assert!(caller.protect(BETWEEN, PAGE, Prot::READ, None).is_ok());
        assert!(caller.mremap((BETWEEN, PAGE), 2 * PAGE, RemapFlags::MAYMOVE, 0, &mut Linux).is_ok());
        go.send(()).unwrap();
        assert_eq!(moved.join().unwrap(), Ok(TO));
    });
    assert_eq!(areas(&space), [(BETWEEN, BETWEEN + 2 * PAGE), (TO, TO + 4 * PAGE)]);
    space.check().unwrap();
}

/// What a move leaves becomes free when it is published. It chose its place before. So a search
/// that begins meanwhile comes after the move.
#[test]
fn a_search_beside_a_move_waits_for_what_the_move_frees() {
    let space = shared();
    let source = TOP - 4 * PAGE;
    let blocker = source - 4 * PAGE;
    let freed = blocker - 7 * PAGE;
    let below = freed - 4 * PAGE;
    for (at, pages) in [(source, 4), (freed, 4)] {
        space.map(&rw(at, pages)).unwrap();
        space.faulter().fault(at, Access::Write).unwrap();
    }
    for at in [TOP, blocker, below] {
        space.map(&MapRequest { prot: Prot::READ, ..rw(at, 1) }).unwrap();
    }
    let search = |caller: &mut Caller<'_, _, _, _, Ignore>| caller.mmap(&rw(0, 4), &mut Linux).map(|(at, _)| at);
    let mut beside = None;
    let mut mover = space.caller_with(|_| {
        space.unmap(freed, 4 * PAGE).unwrap();
        beside = Some(search(&mut space.caller().timeout(SOON)).unwrap_err().errno);
        Ok(())
    });
    let (to, _) = mover.mremap((source, 4 * PAGE), 8 * PAGE, RemapFlags::MAYMOVE, 0, &mut Linux).unwrap();
    drop(mover);
    assert_eq!((to, beside), (below - 8 * PAGE, Some(Errno::ETIMEDOUT)));
    assert_eq!(search(&mut space.caller()).unwrap(), source);
    space.check().unwrap();
}
