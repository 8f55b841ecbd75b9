//! Which features the running kernel has. Each is asked for by a few calls in a child: a release's number does not tell, as kernels carry changes back.

use crate::child::{Kernel, Scope};
use crate::compare::vm_flags;
use crate::model::SYS_MSEAL;
use crate::op::{Op, PAGE, at, fd};
use samara_mm::{Features, Flags};
use std::io;

const HUGE: u64 = 2 << 20;

/// What the running kernel does that others do not: what [`samara_mm::Config`] wants to know of it. Takes a millisecond.
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

/// The calls whose answers tell.
pub(crate) fn calls() -> [Op; 10] {
    let rw = |page, prot| Op::call(libc::SYS_mmap, &[at(page), PAGE, prot, 0x32, fd::NONE]);
    let anywhere = Op::call(libc::SYS_mmap, &[0, HUGE + PAGE, 3, 0x4022, fd::NONE]);
    [
        rw(0, 3),
        rw(1, 1),
        Op::call(libc::SYS_mremap, &[at(0), 2 * PAGE, 2 * PAGE, 3, at(8)]),
        rw(4, 3),
        // MADV_GUARD_INSTALL.
        Op::call(libc::SYS_madvise, &[at(4), PAGE, 102]),
        Op::call(libc::SYS_mmap, &[at(6), PAGE, 1, 0x12, fd::FILE]),
        Op::call(SYS_MSEAL, &[at(6), PAGE]),
        // MADV_DONTNEED.
        Op::call(libc::SYS_madvise, &[at(6), PAGE, 4]),
        anywhere,
        anywhere,
    ]
}

pub(crate) fn probe(kernel: &mut Kernel) -> io::Result<Features> {
    let out = kernel.run(&calls(), Scope::Window)?;
    let answers: Vec<i64> = out.frames().1.map(|(answer, _)| answer).collect();
    let &[_, _, moved, _, guarded, _, sealed, spared, one, other] = &answers[..] else {
        return Err(io::Error::other(format!(
            "the process that asks for the kernel's features ended: {:?}",
            out.ended
        )));
    };
    let whole = |at: i64| (at as u64).is_multiple_of(HUGE);
    let marked = vm_flags(&out.smaps()).iter().any(|(_, flags)| flags.contains(Flags::MAYBE_GUARD));
    let answers = [
        (Features::GUARD_PAGES, guarded == 0),
        // What is not aligned lies right below what was mapped before it: only one of two can be at a multiple by chance.
        (Features::HUGE_MULTIPLES, !(whole(one) && whole(other))),
        (Features::MOVE_MANY, moved > 0),
        (Features::SEALS_SPARE_FILES, sealed == 0 && spared == 0),
        (Features::GUARD_MARK, marked),
    ];
    Ok(answers.into_iter().filter(|(_, has)| *has).map(|(feature, _)| feature).collect())
}
