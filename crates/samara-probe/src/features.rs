//! Finds the features of the running kernel, by a few calls in a child process for each. The
//! release's number is not enough, because distributions backport changes.

use crate::child::{Kernel, Scope};
use crate::op::{Op, PAGE, SYS_MSEAL, at, fd, segment};
use crate::proc::{read, vm_flags};
use samara_mm::{Features, Flags};
use std::io;

const HUGE: u64 = 2 << 20;

/// The result of the probe.
#[derive(Clone, Copy, Debug)]
pub struct Probed {
    /// The features that the kernel has, among `told`.
    pub has: Features,
    /// The features that the calls decided.
    pub told: Features,
}

/// The sign of a feature.
#[derive(Clone, Copy, Debug)]
enum Tells {
    /// The result of the last call.
    Answer(fn(i64) -> bool),
    /// Whether an area begins at this page in the end.
    Begins(u64, bool),
    /// Whether the area that begins at this page has such a flag in the end.
    Has(u64, Flags, bool),
}

/// A feature, the calls to make, and the sign. All calls but the last must succeed, else the
/// feature is undecided; without calls, those of the previous question count.
type Question = (Features, Vec<Op>, Tells);

/// The questions that need only calls in the window. Each uses separate pages, and the model gives
/// the same answer as a kernel with the feature.
fn questions() -> Vec<Question> {
    use Tells::{Answer, Begins, Has};
    let map = |page, pages, prot, flags, file, from| {
        Op::call(libc::SYS_mmap, &[at(page), pages * PAGE, prot, flags, file, from * PAGE])
    };
    let rw = |page, pages| map(page, pages, 3, 0x32, fd::NONE, 0);
    // MAP_NORESERVE.
    let nr = |page, prot| map(page, 1, prot, 0x4032, fd::NONE, 0);
    let protect = |page, prot| Op::call(libc::SYS_mprotect, &[at(page), PAGE, prot]);
    let remap =
        |from, (old, new), flags, to| Op::call(libc::SYS_mremap, &[at(from), old * PAGE, new * PAGE, flags, at(to)]);
    let advise = |page, advice| Op::call(libc::SYS_madvise, &[at(page), PAGE, advice]);
    let write = |page| Op::Write(at(page));
    let lock_on_fault = |page| Op::call(libc::SYS_mlock2, &[at(page), PAGE, 1]);
    // MREMAP_MAYMOVE with FIXED, and with DONTUNMAP as well.
    let (fixed, dontunmap) = (3, 7);
    let guard_install = 102;
    let done: fn(i64) -> bool = |answer| answer >= 0;
    vec![
        (
            Features::MOVE_MANY,
            vec![rw(0, 1), map(1, 1, 1, 0x32, fd::NONE, 0), remap(0, (2, 2), fixed, 8)],
            Answer(done),
        ),
        (Features::GUARD_PAGES, vec![rw(4, 1), advise(4, guard_install)], Answer(done)),
        // MAP_SHARED_VALIDATE, MAP_FIXED and MAP_ABOVE4G.
        (Features::ABOVE4G, vec![map(10, 1, 1, 0x93, fd::FILE, 0)], Answer(done)),
        // A hole, and a page that cannot be written: MADV_POPULATE_WRITE.
        (
            Features::POPULATE_STOPS,
            vec![map(21, 1, 1, 0x32, fd::NONE, 0), Op::call(libc::SYS_madvise, &[at(20), 2 * PAGE, 23])],
            Answer(|answer| answer == -i64::from(libc::ENOMEM)),
        ),
        (
            Features::ONFAULT_WITHOUT_ACCESS,
            // The first call checks that locking is allowed at all.
            vec![
                map(11, 1, 3, 0x4032, fd::NONE, 0),
                lock_on_fault(11),
                Op::call(libc::SYS_munlock, &[at(11), PAGE]),
                protect(11, 0),
                lock_on_fault(11),
            ],
            Answer(done),
        ),
        (Features::GUARD_MARK, vec![rw(4, 1), advise(4, guard_install)], Has(4, Flags::MAYBE_GUARD, true)),
        // MADV_POPULATE_READ and MADV_DONTNEED_LOCKED.
        (Features::POPULATE, vec![rw(6, 1), advise(6, 22)], Answer(done)),
        (Features::DONTNEED_LOCKED, vec![rw(6, 1), advise(6, 24)], Answer(done)),
        // MADV_COLLAPSE of nothing, PR_GET_MDWE, PR_GET_MEMORY_MERGE.
        (Features::COLLAPSE, vec![rw(6, 1), Op::call(libc::SYS_madvise, &[at(6), 0, 25])], Answer(done)),
        (Features::MDWE, vec![rw(6, 1), Op::call(libc::SYS_prctl, &[66, 0, 0, 0, 0])], Answer(done)),
        (Features::MEMORY_MERGE, vec![rw(6, 1), Op::call(libc::SYS_prctl, &[68, 0, 0, 0, 0])], Answer(done)),
        (Features::KEEPS_CHARGE, vec![rw(12, 1), remap(12, (1, 1), dontunmap, 14)], Has(12, Flags::ACCOUNT, true)),
        (
            Features::ROUNDS_FIRST,
            vec![Op::call(libc::SYS_mremap, &[at(12), PAGE - 1, PAGE, dontunmap, at(16)])],
            Answer(done),
        ),
        (Features::DROPPABLE, vec![map(18, 1, 3, 0x38, fd::NONE, 0)], Answer(done)),
        (Features::DROPPABLE_EOPNOTSUPP, vec![], Answer(|answer| answer == -i64::from(libc::EOPNOTSUPP))),
        (Features::STACK_NO_HUGE, vec![rw(22, 1), map(23, 1, 3, 0x2_0032, fd::NONE, 0)], Begins(23, true)),
        (Features::RO_DROPS_CHARGE, vec![rw(26, 1), protect(26, 1)], Has(26, Flags::ACCOUNT, false)),
        (Features::GROW_IN_PLACE_JOINS, vec![rw(30, 1), rw(32, 1), remap(30, (1, 2), 0, 0)], Begins(32, false)),
        (Features::SOURCE_FOUND_FIRST, vec![rw(36, 1), remap(34, (3, 1), 0, 0)], Begins(36, true)),
        (
            Features::ARGUMENTS_BEFORE_SOURCE,
            vec![remap(38, (2, 2), fixed, 39)],
            Answer(|answer| answer == -i64::from(libc::EINVAL)),
        ),
        (Features::TARGET_KEPT, vec![rw(42, 1), rw(46, 3), remap(42, (2, 3), fixed, 46)], Begins(46, true)),
        (
            Features::DONTUNMAP_SHARED,
            vec![map(52, 1, 3, 0x31, fd::NONE, 0), remap(52, (1, 1), dontunmap, 54)],
            Answer(done),
        ),
        (
            Features::DONTUNMAP_SPLITS_LOCKED,
            vec![rw(56, 2), Op::call(libc::SYS_mlock, &[at(56), 2 * PAGE]), remap(57, (1, 1), dontunmap, 60)],
            Has(56, Flags::LOCKED, true),
        ),
        (Features::DONTUNMAP_NO_SELF_MERGE, vec![rw(64, 2), remap(65, (1, 1), dontunmap, 66)], Begins(66, true)),
        (Features::DONTUNMAP_JOINS_OTHER, vec![rw(7, 3), remap(9, (1, 1), dontunmap, 8)], Begins(8, false)),
        (
            Features::DONTUNMAP_RESETS_OFFSET,
            vec![nr(70, 3), write(70), remap(70, (1, 1), fixed, 72), remap(72, (1, 1), dontunmap, 75), nr(73, 3)],
            Begins(73, false),
        ),
        (Features::NEXT_WINS, vec![rw(80, 1), rw(82, 1), write(80), write(82), rw(81, 1)], Begins(81, true)),
        (
            Features::WRITTEN_JOINS_UNWRITTEN,
            vec![nr(86, 3), write(86), protect(86, 1), nr(87, 3), protect(86, 3)],
            Begins(87, false),
        ),
        // A written page moves away and back, beside one that was not written. Then it moves next
        // to new memory, which it joins if it has no identity.
        (
            Features::MOVED_LOSES_IDENTITY,
            vec![
                nr(150, 2),
                write(150),
                remap(150, (2, 2), fixed, 154),
                nr(150, 1),
                remap(155, (1, 1), fixed, 151),
                remap(151, (1, 1), fixed, 158),
                nr(159, 1),
            ],
            Begins(159, false),
        ),
        (Features::GUARD_FILES, vec![map(90, 1, 1, 0x12, fd::FILE, 0), advise(90, guard_install)], Answer(done)),
        (
            Features::SELF_ADVICE_ANY,
            // MADV_DONTDUMP.
            vec![rw(94, 1), Op::Advise { advice: 16, ranges: [(at(94), PAGE), (0, 0), (0, 0)] }],
            Answer(|answer| answer > 0),
        ),
        (Features::SEALS, vec![rw(98, 1), Op::call(SYS_MSEAL, &[at(98), PAGE])], Answer(done)),
        (
            Features::SEALS_GUARD_ZERO,
            // MADV_DONTNEED.
            vec![map(102, 1, 1, 0x12, fd::ZERO, 0), Op::call(SYS_MSEAL, &[at(102), PAGE]), advise(102, 4)],
            Answer(|answer| answer == -i64::from(libc::EPERM)),
        ),
        // The middle is sealed, then all but the first pages.
        (
            Features::SEALS_JOIN,
            vec![rw(130, 6), Op::call(SYS_MSEAL, &[at(134), PAGE]), Op::call(SYS_MSEAL, &[at(132), 4 * PAGE])],
            Begins(135, false),
        ),
        // The last two pages of a segment, then the one before them.
        (
            Features::SEGMENTS_JOIN,
            vec![
                Op::call(libc::SYS_shmat, &[segment::FIVE, at(140), 0x4000]),
                Op::call(libc::SYS_mprotect, &[at(143), 2 * PAGE, 1]),
                protect(142, 1),
            ],
            Begins(143, false),
        ),
        // Moves with another area, or not.
        (
            Features::SHARED_ZERO_IS_SHMEM,
            vec![map(106, 1, 1, 0x11, fd::ZERO_READ_ONLY, 20), rw(107, 1), remap(106, (2, 2), fixed, 110)],
            Answer(done),
        ),
        // Written pages of a private file move next to their continuation. (Without
        // `WRITTEN_JOINS_UNWRITTEN`, that keeps them apart.)
        (
            Features::ANON_OFFSET_OF_FILES,
            vec![
                map(112, 1, 3, 0x12, fd::FILE, 0),
                write(112),
                map(117, 1, 3, 0x12, fd::FILE, 1),
                remap(112, (1, 1), fixed, 116),
            ],
            Begins(117, true),
        ),
        // The last one, because it marks all memory: PR_SET_MEMORY_MERGE.
        (
            Features::MERGEABLE_FIRST,
            vec![Op::call(libc::SYS_prctl, &[67, 1]), rw(120, 1), rw(121, 1)],
            Begins(121, false),
        ),
    ]
}

/// The questions on places that the kernel chooses.
fn places() -> Vec<Question> {
    let anywhere = |len| Op::call(libc::SYS_mmap, &[0, len, 3, 0x4022, fd::NONE]);
    let zeros = || Op::call(libc::SYS_mmap, &[0, 2 * HUGE + PAGE, 3, 0x4002, fd::ZERO]);
    // An unaligned map lies right below the one mapped before it: only one of two can be at a
    // multiple by chance.
    let aligned = Tells::Answer(|at| at > 0 && (at as u64).is_multiple_of(HUGE));
    vec![
        (Features::HUGE_ANY_LENGTH, vec![anywhere(HUGE + PAGE)], aligned),
        (Features::HUGE_ANY_LENGTH, vec![anywhere(HUGE + PAGE)], aligned),
        (Features::HUGE_MULTIPLES, vec![anywhere(HUGE)], aligned),
        (Features::HUGE_MULTIPLES, vec![anywhere(PAGE), anywhere(HUGE)], aligned),
        (Features::ZERO_ALIGNED, vec![zeros()], aligned),
        (Features::ZERO_ALIGNED, vec![zeros()], aligned),
    ]
}

/// The questions on areas that the process had before, which the model does not know. `first` calls
/// are made before these.
fn own_areas(first: usize) -> Vec<Question> {
    let end = |and| Op::result(first as u16, and * PAGE as i32);
    let brk = |to| Op::call(libc::SYS_brk, &[to]);
    // MADV_NORMAL, which any area allows.
    let is_there = || Op::call(libc::SYS_madvise, &[end(0), PAGE, 0]);
    let unmap = Op::call(libc::SYS_munmap, &[end(0), 2 * PAGE]);
    // If the heap does not shrink, it does not grow from there either.
    let shrink = vec![brk(0), brk(end(2)), is_there(), unmap, brk(end(0)), brk(end(1)), is_there()];
    let mut questions = vec![(Features::BRK_SHRINK_NEEDS_AREA, shrink, Tells::Answer(|answer| answer != 0))];
    // The child has it where its parent has it.
    let maps = read("/proc/self/maps").unwrap_or_default();
    let vdso = maps.lines().find(|line| line.ends_with("[vdso]")).and_then(|line| line.split_once('-'));
    if let Some(vdso) = vdso.and_then(|(start, _)| u64::from_str_radix(start, 16).ok()) {
        // MADV_DOFORK.
        let fork = vec![Op::call(libc::SYS_madvise, &[vdso, PAGE, 11])];
        let refused = Tells::Answer(|answer| answer == -i64::from(libc::EINVAL));
        questions.push((Features::DOFORK_REFUSES_SPECIAL, fork, refused));
    }
    questions
}

/// The calls in the window, and those on places: the ones that the model can answer.
pub fn calls() -> (Vec<Op>, Vec<Op>) {
    let calls = |questions: Vec<Question>| questions.into_iter().flat_map(|(_, calls, _)| calls).collect();
    (calls(questions()), calls(places()))
}

/// Asks all questions.
pub fn ask(kernel: &mut Kernel) -> io::Result<Probed> {
    let mut asked = questions();
    asked.extend(places());
    let before = asked.iter().map(|(_, calls, _)| calls.len()).sum();
    asked.extend(own_areas(before));
    let calls: Vec<Op> = asked.iter().flat_map(|(_, calls, _)| calls.iter().copied()).collect();
    let out = kernel.run(&calls, Scope::Window)?;
    let answers: Vec<i64> = out.frames().1.map(|(answer, _)| answer).collect();
    if answers.len() != calls.len() {
        return Err(io::Error::other(format!(
            "the process that asks for the kernel's features ended: {:?}",
            out.ended
        )));
    }
    let flags = vm_flags(&out.smaps());
    let of = |page| flags.iter().find(|(start, _)| *start == at(page)).map(|(_, flags)| *flags);
    let (mut told, mut has, mut done, mut ready) = (Features::empty(), Features::all(), 0, true);
    for (feature, calls, tells) in &asked {
        let now = &answers[done..done + calls.len()];
        done += calls.len();
        if let Some((_, before)) = now.split_last() {
            ready = before.iter().all(|answer| *answer >= 0);
        }
        let yes = match tells {
            Tells::Answer(says) => says(answers[done - 1]),
            Tells::Begins(page, yes) => of(*page).is_some() == *yes,
            Tells::Has(page, flag, yes) => of(*page).is_some_and(|flags| flags.contains(*flag) == *yes),
        };
        if ready && is_told(answers[done - 1], yes) {
            told |= *feature;
            has.set(*feature, has.contains(*feature) && yes);
        }
    }
    if !has.contains(Features::WRITTEN_JOINS_UNWRITTEN) {
        has -= Features::ANON_OFFSET_OF_FILES;
    }
    if has.contains(Features::HUGE_ANY_LENGTH) {
        has -= Features::HUGE_MULTIPLES;
    }
    Ok(Probed { has: has & told, told })
}

/// Whether an answer counts. `yes`: the answer shows the feature. A no with EPERM or EACCES may
/// come from a filter or a limit, and does not count.
fn is_told(answer: i64, yes: bool) -> bool {
    yes || ![libc::EPERM, libc::EACCES].map(|errno| -i64::from(errno)).contains(&answer)
}

/// The features that show only near the maximum number of areas.
pub const NEAR_THE_LIMIT: Features = Features::REMAP_NEEDS_FOUR.union(Features::LIMIT_IS_EAGAIN);

/// The calls for these features: three areas are left at mremap, which changes nothing, and none at
/// madvise.
pub fn crowded() -> [Op; 8] {
    let rw = |page, pages| Op::call(libc::SYS_mmap, &[at(page), pages * PAGE, 3, 0x32, fd::NONE]);
    [
        Op::Fill { left: 5 },
        rw(0, 1),
        rw(4, 3),
        Op::call(libc::SYS_mremap, &[at(0), PAGE, PAGE, 0]),
        rw(8, 1),
        rw(10, 1),
        rw(12, 1),
        // MADV_DONTDUMP.
        Op::call(libc::SYS_madvise, &[at(5), PAGE, 16]),
    ]
}

/// Which of [`NEAR_THE_LIMIT`] the kernel has. Takes a fifth of a second.
pub fn probe_crowded(kernel: &mut Kernel) -> io::Result<Features> {
    let out = kernel.run(&crowded(), Scope::Window)?;
    let answers: Vec<i64> = out.frames().1.map(|(answer, _)| answer).collect();
    let is = |i: usize, errno: i32| answers.get(i).is_some_and(|answer| *answer == -i64::from(errno));
    let answers = [(Features::REMAP_NEEDS_FOUR, is(3, libc::ENOMEM)), (Features::LIMIT_IS_EAGAIN, is(7, libc::EAGAIN))];
    Ok(answers.into_iter().filter(|(_, has)| *has).map(|(feature, _)| feature).collect())
}

#[cfg(test)]
mod tests {
    use super::is_told;

    /// A filter's refusal does not answer a question; a sealed area's refusal does.
    #[test]
    fn what_is_refused_tells_nothing() {
        let [filtered, unknown] = [libc::EPERM, libc::EINVAL].map(|errno| -i64::from(errno));
        assert_eq!(
            [(filtered, false), (filtered, true), (unknown, false), (0, true)]
                .map(|(answer, yes)| is_told(answer, yes)),
            [false, true, true, true]
        );
    }
}
