//! Spaces that threads share, where the n-th allocation of a call, a fault or a fork fails: it is
//! done as a whole or leaves the space and the reverse maps of its files as they were.

use crate::file::File;
use crate::rng::Rng;
use crate::{LEFT, LIVE, PAGE, REFUSED};
use samara_mm::*;

const HEAP: u64 = 1000 * PAGE;
type Space = SharedAddressSpace<File>;
/// An area, with its first address and the first one after it.
type Placed = (u64, u64, Area<File>);

fn space() -> Space {
    let mut space = AddressSpace::new(Config::default());
    space.set_layout(Layout { start_brk: HEAP, brk: HEAP, ..Layout::default() });
    SharedAddressSpace::from_space(space, FencedDomain::new()).unwrap()
}

fn program(file: &File, start: u64) -> Image<File> {
    let segment =
        |(page, prot)| ImageSegment { addr: page * PAGE, len: PAGE, offset: page * PAGE, file_len: PAGE, prot };
    let segments = [(0, Prot::READ), (1, Prot::EXEC)].map(segment).to_vec();
    Image { start, fixed: true, backing: file.clone(), mode: FileMode::READ, segments }
}

/// What is tried: whether it was done, and whether it says that memory was short.
#[allow(clippy::too_many_arguments)] // numbers that were drawn
fn call(
    space: &Space,
    file: &File,
    image: &Image<File>,
    kind: u64,
    at: u64,
    len: u64,
    to: u64,
) -> Result<(), Option<Errno>> {
    let plain = |done: Result<Plan, Error>| {
        // ENOMEM with something done tells of a hole, after all else.
        done.map(|_| ()).map_err(|error| {
            assert!(error.done.is_empty() || !REFUSED.get(), "a part is done");
            error.done.is_empty().then_some(error.errno)
        })
    };
    let placed = |done: Result<(u64, Plan), Error>| plain(done.map(|(_, plan)| plan));
    let faulted = |error| match error {
        FaultError::Memory => Some(Errno::ENOMEM),
        _ => None,
    };
    let prot = if to & PAGE == 0 { Prot::RW } else { Prot::READ };
    match kind {
        0 | 1 => plain(space.map(&MapRequest::anonymous(at, len, prot))),
        2 => plain(space.map(&MapRequest::file(at, len, prot, MapFlags::SHARED, file.clone(), to & !PAGE))),
        3 | 4 => plain(space.unmap(at, len)),
        5 | 6 => plain(space.protect(at, len, prot, None)),
        7 => placed(space.mmap(&MapRequest::anonymous(0, len, prot), &mut Linux)),
        8 => placed(space.mremap((at, PAGE), len, RemapFlags::MAYMOVE, 0, &mut Linux)),
        9 => placed(space.mremap((at, len), len, RemapFlags::MAYMOVE | RemapFlags::FIXED, to, &mut Linux)),
        10 => plain(space.brk(HEAP + to % (24 * PAGE))),
        11 => plain(space.advise(at, len, Advice::DontFork)),
        12 => plain(space.lock(at, len, LockKind::OnFault)),
        13 => placed(space.map_image(image, &mut Linux)),
        14 => space.fork().map(drop).map_err(Some),
        15 => space.fork_eager().map(drop).map_err(Some),
        16 => {
            let mut faulter = space.try_faulter().map_err(Some)?;
            faulter.fault(at, Access::Write).map(drop).map_err(faulted)
        }
        17 => {
            let mut faulter = space.try_faulter().map_err(Some)?;
            faulter.fault_range(at, len, Access::Write).map(drop).map_err(|error| faulted(error.error))
        }
        18 => plain(space.unlock_all()),
        _ => space.snapshot().map(drop).map_err(Some),
    }
}

#[test]
fn shared_calls_happen_whole_or_not_at_all() {
    const STEPS: u64 = if cfg!(feature = "long") { 3000 } else { 300 };
    let live = LIVE.get();
    let (mut refused, mut done) = (0, 0);
    {
        let mut r = Rng(5);
        let file = File::new(4);
        let mut space = space();
        for step in 0..STEPS {
            if step % 100 == 0 {
                // So that records and writers are made anew: of a child, which inherits.
                space = if step % 300 == 0 { self::space() } else { space.fork().unwrap() };
            }
            let (kind, at, len) = (r.below(20), r.below(900) * PAGE, (1 + r.below(40)) * PAGE);
            let to = r.below(900) * PAGE;
            let shown = || -> Vec<_> {
                let maps = space.maps();
                let areas = maps.areas_in(0, u64::MAX);
                areas.map(|(start, end, area)| (start, end, area.into_owned())).collect()
            };
            for allowed in 0.. {
                let before = shown();
                let image = program(&file, at);
                LEFT.set(Some(allowed));
                let answer = call(&space, &file, &image, kind, at, len, to);
                let short = REFUSED.replace(false);
                LEFT.set(None);
                let what = || format!("step {step}, call {kind}, {allowed} allocations: {answer:?}");
                match answer {
                    Err(errno)
                        if short && errno.is_some_and(|errno| matches!(errno, Errno::ENOMEM | Errno::EAGAIN)) =>
                    {
                        // Faults over a range give identities area by area.
                        let same = |(a, b): (&Placed, &Placed)| {
                            (a.0, a.1, a.2.flags, a.2.bias) == (b.0, b.1, b.2.flags, b.2.bias)
                        };
                        let now = shown();
                        assert!(now == before || (kind == 17 && now.iter().zip(&before).all(same)), "{}", what());
                        refused += 1;
                    }
                    _ => {
                        done += 1;
                        break;
                    }
                }
            }
            if step % 10 == 0 {
                space.check().unwrap_or_else(|violation| panic!("step {step}, call {kind}: {violation}"));
            }
        }
        drop(space);
        assert!(file.map.is_empty(), "areas of spaces that are gone are linked");
    }
    assert!(refused > 500 && done == STEPS, "{refused} refused for want of memory, {done} got through");
    // What a thread keeps for itself stays: little.
    assert!(LIVE.get() - live < 1 << 16, "{} bytes are left", LIVE.get() - live);
}

/// A guard holds up memory of its own space alone, however long it is held.
#[test]
fn a_guard_holds_up_no_other_space() {
    let [held, other] = [(); 2].map(|()| space());
    held.map(&MapRequest::anonymous(PAGE, PAGE, Prot::RW)).unwrap();
    let mut faulter = held.faulter();
    let guard = faulter.fault(PAGE, Access::Read).unwrap();
    let mut caller = other.caller();
    let mut pairs = |n: u64| {
        for i in 0..n {
            caller.map(&MapRequest::anonymous(2 * i * PAGE + PAGE, PAGE, Prot::RW)).unwrap();
            caller.unmap(2 * i * PAGE + PAGE, PAGE).unwrap();
        }
        LIVE.get()
    };
    let (first, last) = (pairs(1_000), pairs(10_000));
    // If it did, 12 MiB. Threads of other tests pin for a moment.
    assert!(last - first < 4 << 20, "{} bytes more", last - first);
    drop(guard);
}
