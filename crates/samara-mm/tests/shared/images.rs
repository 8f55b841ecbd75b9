//! map_image against the calls of a loader, one after the other.

use crate::rng::Rng;
use crate::world::{Call, PAGE, shown, space};
use crate::{FEW, seed, times};
use samara_mm::*;

/// Where images go that are fixed, and what they meet.
const ARENA: u64 = crate::world::ARENA;

fn image(r: &mut Rng) -> Image<FileId> {
    let (mut segments, mut at) = (Vec::new(), 0);
    for _ in 0..1 + r.below(5) {
        at += r.below(3) * PAGE;
        let within = if r.one_in(3) { r.below(PAGE) } else { 0 };
        let len = 1 + r.below(3 * PAGE);
        let file_len = if r.one_in(3) { r.below(len + 1) } else { len };
        // Now and then malformed: longer in the file, or not congruent.
        let odd = r.one_in(40);
        let offset = r.below(6) * PAGE + within + u64::from(odd && r.one_in(2));
        let file_len = file_len + if odd { r.below(2) * PAGE } else { 0 };
        let prot = r.pick(&[Prot::READ, Prot::READ | Prot::EXEC, Prot::RW, Prot::NONE]);
        segments.push(ImageSegment { addr: at + within, len, offset, file_len, prot });
        // Some begin in the last page of the one before.
        at += (within + len).div_ceil(PAGE) * PAGE - if r.one_in(6) { PAGE } else { 0 };
    }
    if r.one_in(60) {
        segments.clear();
    }
    let backing = FileId { dev: (8, 1), inode: 1 + r.below(2), open: 1, name: "/file".into() };
    let mode = if r.one_in(12) { FileMode::READ | FileMode::NOEXEC } else { FileMode::READ };
    let (fixed, start) = (r.below(3) > 0, ARENA + r.below(30) * PAGE);
    let start = if !fixed && r.one_in(2) { 0 } else { start };
    Image { start: start + u64::from(r.one_in(50)), fixed, backing, mode, segments }
}

/// The calls of a loader. Segments are rounded here as a loader does it.
fn load(space: &mut AddressSpace<FileId>, image: &Image<FileId>) -> Result<u64, Errno> {
    let (down, up) = (|at: u64| at / PAGE * PAGE, |at: u64| at.div_ceil(PAGE) * PAGE);
    let bad = |s: &ImageSegment| s.file_len > s.len || s.len == 0 || s.addr % PAGE != s.offset % PAGE;
    if image.segments.is_empty() || image.segments.iter().any(bad) {
        return Err(Errno::EINVAL);
    }
    let len = image.segments.iter().map(|s| up(s.addr + s.len)).max().unwrap();
    let mut whole = MapRequest::anonymous(image.start, len, Prot::NONE);
    whole.flags.set(MapFlags::FIXED_NOREPLACE, image.fixed);
    let (start, _) = space.mmap(&whole, &mut Linux).map_err(|e| e.errno)?;
    for s in &image.segments {
        let (from, to) = (start + down(s.addr), start + up(s.addr + s.len));
        let zeros = if s.file_len == 0 { from } else { start + up(s.addr + s.file_len) };
        if zeros > from {
            let flags = MapFlags::PRIVATE | MapFlags::FIXED;
            let file = MapRequest::file(from, zeros - from, s.prot, flags, image.backing.clone(), down(s.offset));
            space.map(&MapRequest { mode: image.mode, ..file }).map_err(|e| e.errno)?;
        }
        if to > zeros {
            let mut bss = MapRequest::anonymous(zeros, to - zeros, s.prot);
            bss.flags |= MapFlags::FIXED;
            space.map(&bss).map_err(|e| e.errno)?;
        }
    }
    Ok(start)
}

/// The calls that map one page. Where it has been written to it has an identity, which joins pass
/// on.
fn neighbour(at: u64, prot: Prot, written: bool) -> Vec<Call> {
    if written {
        let map = Call::Map(MapRequest::anonymous(at, PAGE, Prot::READ));
        vec![map, Call::Touch(at, at + PAGE), Call::Protect(at, PAGE, prot)]
    } else {
        vec![Call::Map(MapRequest::anonymous(at, PAGE, prot))]
    }
}

#[test]
fn an_image_is_what_the_calls_of_a_loader_leave() {
    let seed = seed();
    let (mut mapped, mut refused, mut merged, mut ranged) = (0, 0, 0, 0);
    for round in 0..times(1500) {
        let mut r = Rng(seed.wrapping_mul(31).wrapping_add(round));
        let mut one = space(&mut r);
        if r.one_in(4) {
            drop(one.lock_all(false, true, LockKind::Now));
        }
        for _ in 0..r.below(12) {
            Call::random(&mut r, 30).on_space(&mut one);
        }
        let copy = |space: &AddressSpace<FileId>| space.snapshot(space.config().clone()).unwrap();
        let shared: SharedAddressSpace<FileId> =
            SharedAddressSpace::from_space(copy(&one), FencedDomain::new()).unwrap();
        for step in 0..4 {
            let image = image(&mut r);
            if r.one_in(2) {
                // Something to join at an end.
                let end = image.segments.iter().map(|s| s.addr + s.len).max().unwrap_or(0).div_ceil(PAGE) * PAGE;
                let first = image.start.saturating_sub(PAGE) & !(PAGE - 1);
                let last = image.segments.last().map_or(Prot::NONE, |s| s.prot);
                let sides = 1 + r.below(3); // below it, above it, or both
                for (side, at) in [(1, first), (2, first + end + PAGE)] {
                    if sides & side != 0 {
                        for call in neighbour(at, r.pick(&[Prot::NONE, last]), r.one_in(3)) {
                            call.on_space(&mut one);
                            call.on_shared(&mut shared.caller(), &mut shared.faulter());
                        }
                    }
                }
            }
            let what = || format!("seed {seed} round {round} step {step} {image:x?}");
            let (before, total, mut calls) = (shown(&one), one.counters().total, copy(&one));
            let want = load(&mut calls, &image);
            let got = one.map_image(&image, &mut Linux);
            let also = shared.map_image(&image, &mut Linux);
            assert_eq!(also, got, "{}", what());
            match got {
                Ok((start, plan)) => {
                    assert_eq!(Ok(start), want, "{}", what());
                    assert_eq!(shown(&one), shown(&calls), "{}", what());
                    let pieces = plan.iter().filter(|step| step.kind == StepKind::Mapped);
                    let bytes: u64 = pieces.map(|step| step.end - step.start).sum();
                    assert_eq!(one.counters().total - total, bytes, "{}", what());
                    merged += plan.count(StepKind::Merged);
                    mapped += 1;
                }
                Err(error) => {
                    assert_eq!(Err(error.errno), want, "{}", what());
                    assert!(error.done.is_empty(), "{}", what());
                    assert_eq!(shown(&one), before, "{}", what());
                    refused += 1;
                }
            }
            one.check().unwrap();
            assert_eq!(shown(&shared.snapshot().unwrap()), shown(&one), "{}", what());
        }
        shared.check().unwrap();
        ranged += shared.statistics().ranged;
    }
    println!("{mapped} images, {refused} refused, {merged} joins, {ranged} under a range lock, seed {seed}");
    assert!(FEW || (mapped > 500 && refused > 500 && merged > 50 && ranged > 300));
}

/// The range that is reserved first joins both neighbours, and what is mapped over it parts them
/// again: the right one, which was not written, then has the identity of the left one.
#[test]
fn neighbours_that_were_joined_for_a_while() {
    let mut one = AddressSpace::<FileId>::new(Config::default());
    // What may be written to is charged, and would not be joined.
    one.map(&MapRequest::anonymous(ARENA + 2 * PAGE, PAGE, Prot::READ)).unwrap();
    one.touch(ARENA + 2 * PAGE, ARENA + 3 * PAGE);
    one.protect(ARENA + 2 * PAGE, PAGE, Prot::NONE, None).unwrap();
    one.map(&MapRequest::anonymous(ARENA + 6 * PAGE, 3 * PAGE, Prot::NONE)).unwrap();
    let backing = FileId { dev: (8, 1), inode: 1, open: 1, name: "/file".into() };
    let text = ImageSegment { addr: PAGE, len: 2 * PAGE, offset: 0, file_len: 2 * PAGE, prot: Prot::READ };
    let image = Image { start: ARENA + 3 * PAGE, fixed: true, backing, mode: FileMode::READ, segments: vec![text] };

    let copy = |space: &AddressSpace<FileId>| space.snapshot(space.config().clone()).unwrap();
    let shared: SharedAddressSpace<FileId> = SharedAddressSpace::from_space(copy(&one), FencedDomain::new()).unwrap();
    let mut calls = copy(&one);
    load(&mut calls, &image).unwrap();
    let with_identity = shown(&calls).iter().filter(|area| area.contains("Identity")).count();
    assert_eq!(with_identity, 2, "both neighbours");
    one.map_image(&image, &mut Linux).unwrap();
    shared.map_image(&image, &mut Linux).unwrap();
    assert_eq!(shown(&one), shown(&calls));
    assert_eq!(shown(&shared.snapshot().unwrap()), shown(&calls));
    one.check().unwrap();
    shared.check().unwrap();
}
