//! Mixes of calls around one matter, which the general mix meets too seldom.

use crate::ops::{Files, Mix, Op, draw, range};
use crate::rng::Rng;
use crate::sys::{BASE, PAGE};
use samara_mm::*;

fn moved(r: &mut Rng, mix: Mix, old: u64, old_len: u64, new_len: u64) -> Op {
    let (to, _) = range(r, mix);
    Op::Remap { old, old_len, new_len, fixed: Some(to), dontunmap: mix.dontunmap && r.one_in(4) }
}

/// Anonymous memory, alike but for protection, so that identities alone keep areas apart.
pub(crate) fn hot(r: &mut Rng, mix: Mix) -> Op {
    let (at, len) = range(r, mix);
    let kind = MapFlags::PRIVATE | MapFlags::ANONYMOUS | MapFlags::FIXED | MapFlags::NORESERVE;
    match r.below(20) {
        0..=4 => Op::Map { at, len, prot: r.pick(&[0, 1, 3, 3, 3]), flags: kind.bits(), file: None, offset: 0 },
        5 => Op::Unmap { at, len },
        6..=9 => Op::Protect { at, len, prot: r.pick(&[0, 1, 3, 3, 3]) },
        10..=13 => moved(r, mix, at, len, len),
        14 => Op::Remap { old: at, old_len: len, new_len: range(r, mix).1, fixed: None, dontunmap: false },
        15 if mix.forks && r.one_in(3) => Op::Fork,
        15 => {
            use Advice::*;
            Op::Advise { at, len, advice: r.pick(&[WipeOnFork, KeepOnFork, DontFork, DoFork]) }
        }
        _ => Op::Write { at: at & !(PAGE - 1) },
    }
}

/// Maps of files, at the same place in file and window for the most part.
pub(crate) fn files(r: &mut Rng, mix: Mix, files: &Files) -> Op {
    use Advice::*;
    const FIXED: u32 = MapFlags::FIXED.bits();
    let advice = [WipeOnFork, DontFork, DoFork, Remove, Remove, Mergeable, Unmergeable, PopulateWrite, PopulateRead];
    let (at, len) = range(r, mix);
    match r.below(20) {
        0..=6 => {
            let kind = r.pick(&[MapFlags::SHARED, MapFlags::PRIVATE, MapFlags::PRIVATE, MapFlags::PRIVATE]).bits();
            let flags = FIXED | kind | if r.one_in(4) { MapFlags::NORESERVE.bits() } else { 0 };
            let file = Some(r.below(files.0.len() as u64) as usize);
            let offset = if r.one_in(6) { r.below(8) * PAGE } else { at - BASE };
            Op::Map { at, len, prot: r.pick(&[0, 1, 3, 3, 3, 5]), flags, file, offset }
        }
        7 => Op::Unmap { at, len },
        8..=11 => Op::Protect { at, len, prot: r.pick(&[0, 1, 3, 3, 3, 5]) },
        12 => Op::Remap { old: at, old_len: len, new_len: range(r, mix).1, fixed: None, dontunmap: false },
        13..=15 => {
            let new_len = if r.one_in(4) { range(r, mix).1 } else { len };
            let old_len = if r.one_in(6) { 0 } else { len };
            moved(r, mix, at, old_len, new_len)
        }
        16 if mix.forks && r.one_in(3) => Op::Fork,
        16 => Op::Advise { at, len, advice: r.pick(&advice) },
        17 => Op::Policy { at, len, local: r.one_in(2) },
        _ => Op::Write { at: at & !(PAGE - 1) },
    }
}

/// The general mix with registrations.
pub(crate) fn uffd(r: &mut Rng, mix: Mix, files: &Files) -> Op {
    let (at, len) = range(r, mix);
    match r.below(10) {
        0..=3 => Op::Uffd { on: r.one_in(2), at, len: if r.one_in(20) { len } else { len.next_multiple_of(PAGE) } },
        _ => draw(r, Mix { forks: false, ..mix }, files),
    }
}
