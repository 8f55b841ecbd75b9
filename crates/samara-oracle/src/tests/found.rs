//! A divergence is found, shortened, and printed as a test: proved by a model that is made to
//! answer wrongly.

use crate::compare::Verdict;
use crate::draw::draw;
use crate::model::Model;
use crate::{Check, Divergence, Mix};
use samara_mm::{Config, Features, Touches};
use samara_probe::child::Scope;
use samara_probe::op::{Op, PAGE, PAGES, ROOM, at, fd, segment};

/// As if munmap of four pages and more were refused.
fn no_long_unmap(op: Op, answer: i64) -> i64 {
    match op {
        Op::Call(libc::SYS_munmap, [_, len, ..]) if len > 3 * PAGE => -12,
        _ => answer,
    }
}

#[test]
fn a_wrong_answer_is_found_shortened_and_printed() {
    if super::sides(Mix::Basic).is_none() {
        return;
    }
    let check = Check { ops: 5_000, seed: 1, mixes: vec![Mix::Basic] };
    let mut reported = 0;
    let report = check.run_with(Some(no_long_unmap), &|| false, |p| reported = reported.max(p.divergences)).unwrap();
    // Five are reported, all are counted, and all calls are made.
    let found = report.mixes[0].divergences;
    assert!(report.divergences.len() == 5 && found > 5 && reported == found, "{found} {reported}");
    assert!(report.compared < report.ops && report.ops == 5_000);
    let d = &report.divergences[0];
    assert!(matches!(d.ops[..], [Op::Call(libc::SYS_munmap, [_, len, ..])] if len > 3 * PAGE), "{d}");
    assert!(!d.once && d.at == 0 && d.drawn.is_some_and(|drawn| drawn.0 == 1));
    let text = d.to_string();
    for part in ["basic, seed 1, sequence ", "kernel: 0;", "model:  errno 12", "#[test]\nfn basic_1_", "&[at("] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

/// What is printed can be pasted into tests/found.rs, which holds this very text, and is compiled.
#[test]
fn prints_as_a_test() {
    let ops = vec![
        Op::Fill { left: 100 },
        Op::call(libc::SYS_mmap, &[at(5), 3 * PAGE, 3, 0x32, fd::NONE]),
        Op::call(libc::SYS_mmap, &[at(8), PAGE, 1, 0x11, fd::READ_ONLY, 0x8000]),
        Op::call(libc::SYS_madvise, &[at(5), 2 * PAGE, 16]),
        Op::call(libc::SYS_mremap, &[at(5), PAGE, PAGE, 7, at(20)]),
        Op::call(libc::SYS_mprotect, &[Op::result(4, 0x800), 0x1234, 0x0100_0001]),
        Op::Write(at(6)),
        Op::Fork,
        Op::Uffd { on: false, at: at(6), len: PAGE },
        Op::Heap { at: at(40) },
        Op::call(libc::SYS_brk, &[at(41)]),
        Op::Advise { advice: 16, ranges: [(at(5), PAGE), (0, 0), (at(6), 0x123)] },
        Op::call(libc::SYS_shmat, &[segment::ONE, at(50), 0x1000]),
        Op::call(libc::SYS_shmdt, &[at(50)]),
        Op::call(libc::SYS_mincore, &[at(5), PAGE, ROOM]),
        Op::call(libc::SYS_remap_file_pages, &[at(8), PAGE, 0, 9]),
        Op::call(libc::SYS_prctl, &[66]),
        Op::call(samara_probe::op::SYS_MSEAL, &[at(6), PAGE]),
    ];
    let (kernel, model) = ("0; 6-7 rw-p".to_owned(), "errno 1 (Operation not permitted); 6-7 rw-p".to_owned());
    let d =
        Divergence { mix: Mix::Limits, drawn: Some((3, 14)), ops, at: 17, kernel, model, once: false, history: None };
    let pasted = include_str!("../../tests/found.rs");
    assert!(pasted.contains(&d.to_string()), "tests/found.rs lacks\n{d}");
}

/// The model cannot be told to have other areas; what is asked is whether they are looked at.
#[test]
fn areas_and_flags_are_compared() {
    let Some(mut sides) = super::sides(Mix::Basic) else { return };
    let map = |page, prot| Op::call(libc::SYS_mmap, &[at(page), PAGE, prot, 0x32, fd::NONE, 0]);
    let first = sides.expected(Scope::Window, &[map(1, 3)]).unwrap().unwrap();
    for other in [map(2, 3), map(1, 1)] {
        let mut expected = sides.expected(Scope::Window, &[other]).unwrap().unwrap();
        expected.ops = first.ops.clone();
        let Verdict::Differ(difference) = sides.compare(Scope::Window, &expected).unwrap() else { panic!("{other}") };
        assert!(difference.at == 0 && difference.kernel.contains("1-2 rw-p"), "{difference:?}");
    }
    // Same areas, other flags (MADV_DONTDUMP).
    let dump = |advice| Op::call(libc::SYS_madvise, &[at(1), PAGE, advice]);
    let mut expected = sides.expected(Scope::Window, &[map(1, 3), dump(16)]).unwrap().unwrap();
    expected.ops[1] = dump(17);
    let Verdict::Differ(difference) = sides.compare(Scope::Window, &expected).unwrap() else { panic!("flags") };
    assert!(difference.at == 2 && difference.model.contains("dd") && !difference.kernel.contains("dd"));
}

/// What an access to a guard page answers is compared, wherever the page has come from.
#[test]
fn guard_pages_are_compared() {
    let Some(mut sides) = super::sides(Mix::Basic) else { return };
    let rw = |page, pages| Op::call(libc::SYS_mmap, &[at(page), pages * PAGE, 3, 0x32, fd::NONE, 0]);
    let advise = |page, pages, advice| Op::call(libc::SYS_madvise, &[at(page), pages * PAGE, advice]);
    let (install, remove, wipe_on_fork) = (102, 103, 18);
    let ops = [
        rw(0, 4),
        advise(1, 2, install),
        Op::Write(at(0)),
        Op::Read(at(1)),
        // Moved, with a page of none at both ends.
        Op::call(libc::SYS_mremap, &[at(0), 4 * PAGE, 4 * PAGE, 3, at(10)]),
        rw(0, 4),
        Op::Write(at(1)),
        Op::Write(at(11)),
        Op::Read(at(13)),
        // Taken away, one by one.
        advise(11, 1, remove),
        Op::Write(at(11)),
        Op::Write(at(12)),
        rw(12, 1),
        Op::Read(at(12)),
        // In a child.
        advise(2, 2, install),
        advise(12, 1, install),
        advise(3, 1, wipe_on_fork),
        Op::Fork,
        Op::Write(at(2)),
        Op::Write(at(3)),
        Op::Write(at(12)),
        // Around a hole.
        Op::call(libc::SYS_munmap, &[at(1), PAGE]),
        advise(0, 4, remove),
        Op::Write(at(2)),
        // By a call for several ranges.
        Op::Advise { advice: install, ranges: [(at(0), PAGE), (at(2), PAGE), (at(12), PAGE)] },
        Op::Advise { advice: remove, ranges: [(at(2), PAGE), (at(12), PAGE), (at(12), PAGE)] },
        Op::Read(at(0)),
        Op::Read(at(2)),
        Op::Read(at(12)),
    ];
    assert_eq!(sides.differ(Scope::Window, &ops).unwrap(), Verdict::Agree);
    sides.twist = Some(|op, answer| if matches!(op, Op::Read(_) | Op::Write(_)) { 0 } else { answer });
    let differs = matches!(sides.differ(Scope::Window, &ops).unwrap(), Verdict::Differ(_));
    assert_eq!(differs, sides.features.contains(Features::GUARD_PAGES));
}

#[test]
fn a_process_that_dies_is_a_divergence() {
    let Some(mut sides) = super::sides(Mix::Basic) else { return };
    let kill = |signal| Op::call(libc::SYS_tgkill, &[0, 0, signal]);
    // No such thread: the call fails, the process lives on, and the model knows no such call.
    let Verdict::Differ(difference) = sides.differ(Scope::Window, &[kill(0)]).unwrap() else { panic!() };
    assert_eq!(difference.at, 0);
    // exit, and a signal, in a forked child: with all that came before it compared.
    for (op, why) in [(Op::call(libc::SYS_exit, &[3]), "code 3"), (Op::call(libc::SYS_rt_sigreturn, &[]), "signal 11")]
    {
        let ops = [Op::call(libc::SYS_munmap, &[at(1), PAGE]), Op::Fork, op];
        let Verdict::Differ(difference) = sides.differ(Scope::Window, &ops).unwrap() else { panic!("{op}") };
        assert!(difference.at == 2 && difference.kernel.contains(why), "{difference:?}");
    }
    // Nothing is left: no child to wait for.
    let children = std::fs::read_to_string("/proc/thread-self/children");
    assert_eq!(children.unwrap_or_default(), "");
}

/// A length that is no error of this kernel would take the process's own memory: none is drawn that
/// goes beyond the window, and is not refused, with page tables of four levels or of five.
#[test]
fn no_call_takes_the_process_s_own_memory() {
    let Some(mut sides) = super::sides(Mix::Errors) else { return };
    let start = sides.start(Scope::Window).unwrap();
    for task in [(1 << 47) - PAGE, (1 << 56) - PAGE] {
        let mut model = Model::new(&start, Touches::Told, None);
        let config = Config { task_size: task, ..model.space.config().clone() };
        model.space = model.space.snapshot(config).unwrap();
        let mut rng = crate::rng::Rng::new(1, "errors", 0);
        for (shape, draws) in [(Mix::Errors.shapes()[0], 20_000), (Mix::Huge.shapes()[0], 5_000)] {
            let window = at(0)..at(shape.pages.max(PAGES));
            for _ in 0..draws {
                let op = draw(&mut rng, shape, &model, 1);
                if let Op::Call(libc::SYS_mmap | libc::SYS_munmap | libc::SYS_mprotect, [start, len, ..]) = op {
                    let end = start.checked_add(len).filter(|end| *end <= task);
                    assert!(!window.contains(&start) || end.is_none_or(|end| end <= window.end), "{op}");
                }
            }
        }
    }
}

#[test]
fn same_seed_same_sequences() {
    let Some(mut sides) = super::sides(Mix::Locks) else { return };
    let mut drawn = |seed, sequence| {
        let rng = crate::rng::Rng::new(seed, "locks", sequence);
        sides.drawn(Scope::Window, Mix::Locks.shapes()[2], rng).unwrap().ops
    };
    assert_eq!(drawn(7, 3), drawn(7, 3));
    assert_ne!(drawn(7, 3), drawn(7, 4));
    assert_ne!(drawn(7, 3), drawn(8, 3));
}

#[test]
fn results_as_arguments() {
    let op = Op::call(libc::SYS_munmap, &[Op::result(5, -4096), PAGE]);
    assert_eq!(op.resolved(|of| of as i64 * 0x10000), Op::call(libc::SYS_munmap, &[0x4f000, PAGE]));
    // Earlier ops go: the number follows. The one that is meant goes: so does this.
    assert_eq!(op.without(1, 3), Some(Op::call(libc::SYS_munmap, &[Op::result(3, -4096), PAGE])));
    assert_eq!((op.without(5, 6), op.without(6, 9)), (None, Some(op)));
    assert_eq!(
        samara_probe::print::Code(&op).to_string(),
        "Op::call(libc::SYS_munmap, &[Op::result(5, -0x1000), 0x1000])"
    );
}
