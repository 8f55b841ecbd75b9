//! Which features the running kernel has. All who need to know it ask here. Each feature is asked
//! for by a few calls in a child: a release's number does not tell, as kernels carry changes back.

use crate::child::{Kernel, Scope};
use crate::op::{Op, PAGE, at, fd};
use crate::proc::{read, vm_flags};
use samara_mm::{Features, Flags};
use std::io;

const HUGE: u64 = 2 << 20;

/// What the running kernel does that others do not: what [`samara_mm::Config`] wants to know of it.
/// Takes a millisecond.
///
/// Two are left out: [`Features::DROPPABLE_EOPNOTSUPP`] where there is droppable memory, and
/// [`Features::REMAP_NEEDS_FOUR`], which takes as many areas as there may be (`samara check` asks
/// for it where its calls come near to that).
///
/// # Errors
/// No process could be made in which to make calls.
///
/// ```
/// use samara_mm::{AddressSpace, Config, FileId};
/// let config = Config { features: samara_oracle::features()?, ..Config::default() };
/// let space = AddressSpace::<FileId>::new(config);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn features() -> io::Result<Features> {
    probe(&mut Kernel::new()?)
}

/// What the running kernel does, for those who need an answer in any case. Where no process can be
/// made in which to make calls, and for [`Features::REMAP_NEEDS_FOUR`], the release's number
/// decides.
///
/// ```
/// use samara_mm::Features;
/// let asked = samara_oracle::features()?;
/// let presumed = samara_oracle::presumed_features();
/// assert!(presumed.contains(asked) && (asked | Features::REMAP_NEEDS_FOUR).contains(presumed));
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn presumed_features() -> Features {
    let release = Features::of_release(&read("/proc/sys/kernel/osrelease").unwrap_or_default());
    features().map_or(release, |asked| asked | (release & Features::REMAP_NEEDS_FOUR))
}

/// How many of the calls are about the window; the others are about places that the kernel chooses.
pub(crate) const WINDOW: usize = 12;

/// The calls whose answers tell, and the areas that they leave.
pub(crate) fn calls() -> [Op; WINDOW + 5] {
    let rw = |page, prot| Op::call(libc::SYS_mmap, &[at(page), PAGE, prot, 0x32, fd::NONE]);
    let remap = |from, len, flags, to| Op::call(libc::SYS_mremap, &[at(from), len, len, flags, at(to)]);
    let anywhere = |len| Op::call(libc::SYS_mmap, &[0, len, 3, 0x4022, fd::NONE]);
    [
        rw(0, 3),
        rw(1, 1),
        remap(0, 2 * PAGE, 3, 8),
        rw(4, 3),
        // MADV_GUARD_INSTALL.
        Op::call(libc::SYS_madvise, &[at(4), PAGE, 102]),
        // DONTUNMAP, of equal lengths and of those that become equal.
        rw(STAYS, 3),
        remap(STAYS, PAGE, 7, 14),
        Op::call(libc::SYS_mremap, &[at(STAYS), PAGE - 1, PAGE, 7, at(16)]),
        // MAP_DROPPABLE.
        Op::call(libc::SYS_mmap, &[at(18), PAGE, 3, 0x38, fd::NONE]),
        // PR_SET_MEMORY_MERGE.
        Op::call(libc::SYS_prctl, &[67, 1]),
        rw(JOINS - 1, 3),
        rw(JOINS, 3),
        anywhere(HUGE + PAGE),
        anywhere(HUGE + PAGE),
        anywhere(HUGE),
        anywhere(PAGE),
        anywhere(HUGE),
    ]
}

/// Where memory stays that was moved from, and where a map comes to be next to another, both
/// mergeable.
const STAYS: u64 = 12;
const JOINS: u64 = 21;

pub(crate) fn probe(kernel: &mut Kernel) -> io::Result<Features> {
    let out = kernel.run(&calls(), Scope::Window)?;
    let answers: Vec<i64> = out.frames().1.map(|(answer, _)| answer).collect();
    let &[_, _, moved, _, guarded, _, _, rounded, droppable, _, _, _, one, other, whole, _, next] = &answers[..] else {
        return Err(io::Error::other(format!(
            "the process that asks for the kernel's features ended: {:?}",
            out.ended
        )));
    };
    // What is not aligned lies right below what was mapped before it: only one of two can be at a
    // multiple by chance.
    let aligned = |one: i64, other: i64| [one, other].iter().all(|at| *at > 0 && (*at as u64).is_multiple_of(HUGE));
    let any_length = aligned(one, other);
    let flags = vm_flags(&out.smaps());
    let of = |page| flags.iter().find(|(start, _)| *start == at(page)).map(|(_, flags)| *flags);
    let answers = [
        (Features::GUARD_PAGES, guarded == 0),
        (Features::HUGE_ANY_LENGTH, any_length),
        (Features::HUGE_MULTIPLES, aligned(whole, next) && !any_length),
        (Features::MOVE_MANY, moved > 0),
        (Features::GUARD_MARK, flags.iter().any(|(_, flags)| flags.contains(Flags::MAYBE_GUARD))),
        (Features::ROUNDS_FIRST, rounded > 0),
        (Features::KEEPS_CHARGE, of(STAYS).is_some_and(|flags| flags.contains(Flags::ACCOUNT))),
        // Joined, it is no area of its own. (Where pages are not merged at all, it has joined,
        // too.)
        (Features::MERGEABLE_FIRST, of(JOINS).is_none()),
        (Features::DROPPABLE, droppable > 0),
        (Features::DROPPABLE_EOPNOTSUPP, droppable == -i64::from(libc::EOPNOTSUPP)),
    ];
    Ok(answers.into_iter().filter(|(_, has)| *has).map(|(feature, _)| feature).collect())
}

/// The calls whose answers tell how much room mremap wants: three areas are left when it comes, and
/// changes nothing.
pub(crate) fn crowded() -> [Op; 4] {
    let rw = |page| Op::call(libc::SYS_mmap, &[at(page), PAGE, 3, 0x32, fd::NONE]);
    [Op::Fill { left: 5 }, rw(0), rw(4), Op::call(libc::SYS_mremap, &[at(0), PAGE, PAGE, 0])]
}

/// [`Features::REMAP_NEEDS_FOUR`], if the kernel has it. Takes a fifth of a second.
pub(crate) fn probe_crowded(kernel: &mut Kernel) -> io::Result<Features> {
    let out = kernel.run(&crowded(), Scope::Window)?;
    let refused = out.frames().1.nth(3).is_some_and(|(answer, _)| answer == -i64::from(libc::ENOMEM));
    Ok(if refused { Features::REMAP_NEEDS_FOUR } else { Features::empty() })
}
