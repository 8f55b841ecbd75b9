//! The calls that programs make seldom, and the heap.

use super::{FILES, MADV_FLAGS, MADV_REST, Shape, general, madvise, mmap, mprotect, munmap, prot, range};
use crate::model::Model;
use crate::rng::Rng;
use samara_mm::{FileId, Flags, MapFlags, PageSize, Placed};
use samara_probe::op::{BASE, Op, PAGE, PAGES, ROOM, at, fd, segment};

/// PR_SET_MDWE and PR_GET_MDWE, PR_SET_MEMORY_MERGE and PR_GET_MEMORY_MERGE.
const PRCTL: [u64; 4] = [65, 66, 67, 68];

/// ADDR_NO_RANDOMIZE, without which a window would be drawn anew by each call; READ_IMPLIES_EXEC; a
/// question.
const PERSONALITY: [u64; 4] = [0x4_0000, 0x44_0000, 0x44_0000, 0xffff_ffff];

/// One of them; of some, with wrong arguments now and then.
pub(super) fn rare(r: &mut Rng, shape: Shape, model: &Model) -> Op {
    let (at, len) = range(r, shape);
    match r.below(24) {
        0..=6 if shape.segments => attach(r, at),
        7..=9 if shape.segments => {
            // Where one was attached, perhaps.
            let from = shared(r, model).map_or(at, |a| a.start.wrapping_sub(a.offset(PageSize::K4)));
            Op::call(libc::SYS_shmdt, &[if r.one_in(6) { at } else { from }])
        }
        0..=9 => madvise(at, len.min(64 * PAGE), r.pick(&MADV_FLAGS)),
        10..=12 => {
            let mut ranges = [(0, 0); 3];
            ranges.iter_mut().for_each(|to| *to = if r.one_in(12) { (0, 0) } else { range(r, shape) });
            let advice = if r.one_in(4) { r.pick(&MADV_REST) } else { r.pick(&MADV_FLAGS) };
            Op::Advise { advice: if r.one_in(30) { 99 } else { advice as u64 }, ranges }
        }
        13 => Op::call(libc::SYS_msync, &[at, len, r.pick(&[0, 1, 2, 2, 4, 6, 5, 8])]),
        14 => Op::call(libc::SYS_mincore, &[at, len, if r.one_in(8) { r.pick(&[0, u64::MAX, 1 << 47]) } else { ROOM }]),
        // Protection must be 0; the offset is in pages.
        15..=17 => {
            let (at, len) = match shared(r, model).filter(|_| !r.one_in(6)) {
                Some(a) => (a.start + r.below(2) * PAGE, (1 + r.below(3)) * PAGE),
                None => (at, len),
            };
            Op::call(libc::SYS_remap_file_pages, &[at, len, u64::from(r.one_in(20)), r.below(200)])
        }
        // No key, and keys that no process has.
        18 | 19 => {
            let key = if r.one_in(6) { r.pick(&[1, 15, 16, 1 << 31, 99]) } else { u64::MAX };
            Op::call(libc::SYS_pkey_mprotect, &[at, len, prot(r, &[0, 1, 3, 3, 5]), key])
        }
        // Files, shared for the most part: remap_file_pages wants them.
        20 | 21 => {
            let kind = r.pick(&[MapFlags::SHARED, MapFlags::SHARED, MapFlags::PRIVATE]) | MapFlags::FIXED;
            mmap(at, len, prot(r, &[1, 3, 3]), kind, r.pick(&FILES), at.wrapping_sub(BASE) & !(PAGE - 1))
        }
        22 if r.one_in(6) => {
            let option = if shape.merge_pages { r.pick(&PRCTL) } else { r.pick(&PRCTL[..2]) };
            let value = if option % 2 == 1 { r.pick(&[0, 1, 1, 1, 2, 3]) } else { u64::from(r.one_in(4)) };
            Op::call(libc::SYS_prctl, &[option, value, u64::from(r.one_in(8))])
        }
        23 if r.one_in(6) => Op::call(libc::SYS_personality, &[r.pick(&PERSONALITY)]),
        _ => mprotect(at, len, prot(r, &[0, 1, 3, 5])),
    }
}

/// A shared area of the window.
fn shared<'a>(r: &mut Rng, model: &'a Model) -> Option<Placed<'a, FileId>> {
    let areas = || model.space.areas_in(at(0), at(PAGES)).filter(|a| a.area.flags.contains(Flags::MAYSHARE));
    let count = areas().count() as u64;
    (count > 0).then(|| areas().nth(r.below(count) as usize))?
}

/// shmat, where something is or not.
fn attach(r: &mut Rng, at: u64) -> Op {
    // RDONLY, RND, REMAP, EXEC.
    let flags = [(4, 0x1000), (3, 0x2000), (2, 0x4000), (6, 0x8000)];
    let flags = flags.into_iter().filter(|(odds, _)| r.one_in(*odds)).map(|f| f.1).sum::<u64>();
    let which = if r.one_in(20) { r.pick(&[u64::MAX, 0x7fff_fff0]) } else { r.pick(&[segment::FIVE, segment::ONE]) };
    let within = if r.one_in(8) { r.below(PAGE) } else { 0 };
    Op::call(libc::SYS_shmat, &[which, (at & !(PAGE - 1)) + within, flags])
}

/// The heap's end, and what lies in its way.
pub(super) fn heap(r: &mut Rng, shape: Shape, model: &Model) -> Op {
    let layout = model.space.layout();
    if layout.start_brk == 0 || r.one_in(40) {
        let within = if r.one_in(4) { r.below(PAGE) } else { 0 };
        return Op::Heap { at: at(r.below(shape.pages)) + within };
    }
    let near = |r: &mut Rng| (layout.brk & !(PAGE - 1)).wrapping_add(r.below(12).wrapping_sub(5).wrapping_mul(PAGE));
    let kind = MapFlags::PRIVATE | MapFlags::ANONYMOUS | MapFlags::FIXED;
    match r.below(16) {
        0..=6 => Op::call(libc::SYS_brk, &[near(r) + if r.one_in(4) { r.below(PAGE) } else { 0 }]),
        7 => {
            Op::call(libc::SYS_brk, &[r.pick(&[0, layout.start_brk, layout.start_brk - 1, u64::MAX, 1 << 47, 1 << 63])])
        }
        8 => mmap(near(r), (1 + r.below(3)) * PAGE, prot(r, &[1, 3, 3, 7]), kind, fd::NONE, 0),
        // The gap of what grows down is 256 pages.
        9 => mmap(near(r) + r.pick(&[0, 256]) * PAGE, PAGE, 3, kind | MapFlags::GROWSDOWN, fd::NONE, 0),
        10 => munmap(near(r), (1 + r.below(3)) * PAGE),
        11 => mprotect(near(r), (1 + r.below(3)) * PAGE, prot(r, &[1, 3, 3, 7])),
        12 => Op::Write(near(r)),
        13 if r.one_in(4) => Op::call(libc::SYS_personality, &[r.pick(&PERSONALITY)]),
        _ => general(r, shape),
    }
}
