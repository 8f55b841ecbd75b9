//! The model against the running kernel: random calls in a child process, every answer and every area compared.
//!
//! `SAMARA_MM_SEED` and `SAMARA_MM_RUNS` choose other runs; a failure prints the seed and a shortened sequence.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod chosen;
mod mixes;
mod ops;
mod rng;
mod sys;

use ops::{Files, Mix, Op, draw, model};
use rng::Rng;
use samara_mm::*;
use std::time::{Duration, Instant};
use sys::{BASE, END, PAGE, Raw, Seen};

fn files() -> Files {
    let (a, b) = (sys::memfd(1 << 20), sys::memfd(1 << 20));
    let again = sys::reopen(a, libc::O_RDWR);
    let read_only = sys::reopen(a, libc::O_RDONLY);
    Files(vec![(a, 1, true), (again, 2, true), (read_only, 3, false), (b, 4, true)])
}

fn seen(space: &AddressSpace<FileId>) -> Vec<Seen> {
    let bit = |f: Flags, flag, n: u64| if f.contains(flag) { n } else { 0 };
    let one = |a: Placed<'_, FileId>| {
        let f = a.area.flags;
        let perms =
            bit(f, Flags::READ, 1) | bit(f, Flags::WRITE, 2) | bit(f, Flags::EXEC, 4) | bit(f, Flags::MAYSHARE, 8);
        let file = matches!(a.area.object, Object::File(_));
        Seen { start: a.start, end: a.end, perms, offset: if file { a.offset(PageSize::K4) } else { 0 } }
    };
    space.areas_in(BASE, END).map(one).collect()
}

fn show(areas: &[Seen]) -> String {
    let perms = |p: u64| [(1, 'r'), (2, 'w'), (4, 'x'), (8, 's')].map(|(b, c)| if p & b != 0 { c } else { '-' });
    let page = |a: u64| a.wrapping_sub(BASE) / PAGE;
    let one = |a: &Seen| {
        format!("{}-{} {} +{}", page(a.start), page(a.end), String::from_iter(perms(a.perms)), a.offset / PAGE)
    };
    areas.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// VmFlags of the areas in the window, from smaps; without the one that depends on the kernel's build.
fn vm_flags(smaps: &str) -> Vec<(u64, Flags)> {
    let (mut at, mut out) = (None, Vec::new());
    for line in smaps.lines() {
        if let Some(letters) = line.strip_prefix("VmFlags:") {
            out.extend(at.take().map(|a| (a, Flags::from_letters(letters) - Flags::SOFTDIRTY)));
        } else if let Some((start, _)) = line.split_once('-')
            && let Ok(start) = u64::from_str_radix(start, 16)
        {
            at = Some(start).filter(|a| (BASE..END).contains(a));
        }
    }
    out
}

/// The first difference between the model and the kernel, if any.
fn differ(ops: &[Op], files: &Files) -> Option<String> {
    differ_after(ops, files, 0, None)
}

/// The same, in a child that first makes `fill` areas elsewhere, under a limit of so many areas in all.
fn differ_after(ops: &[Op], files: &Files, fill: u64, limit: Option<usize>) -> Option<String> {
    let raw: Vec<Raw> = [Raw::Fill(fill)].into_iter().chain(ops.iter().map(|o| o.raw(files))).collect();
    let mut out = match sys::run(&raw, sys::USUAL) {
        Ok(out) => out,
        Err(e) => return Some(e),
    };
    assert_eq!(out.frames.remove(0).0, 0, "making areas outside the window");
    // The two guards are counted among the others, and are in the model.
    let room = limit.map_or(65530, |l| l - out.others + 2);
    let mut space = model(Touches::Told, room);
    for (i, op) in ops.iter().enumerate() {
        let (ret, kernel) = &out.frames[i];
        if op.depends_on_pages(&space) {
            return None;
        }
        let errno = op.apply(&mut space, files, i as u64);
        if let Err(v) = space.check() {
            return Some(format!("op {i} {op:x?}: {v}"));
        }
        let expected = if *ret < 0 { -*ret } else { 0 };
        if i64::from(errno) != expected {
            return Some(format!(
                "op {i} {op:x?}: the kernel says errno {expected}, the model {errno}\n before {}\n kernel {}\n model  {}",
                show(&before(&out.frames, i)),
                show(kernel),
                show(&seen(&space))
            ));
        }
        let ours = seen(&space);
        if ours != *kernel {
            return Some(format!(
                "op {i} {op:x?} (errno {errno}):\n before {}\n kernel {}\n model  {}",
                show(&before(&out.frames, i)),
                show(kernel),
                show(&ours)
            ));
        }
    }
    let kernel = vm_flags(&out.smaps);
    let ours: Vec<(u64, Flags)> = space.areas_in(BASE, END).map(|a| (a.start, a.area.flags)).collect();
    let d = kernel.iter().zip(&ours).find(|(k, o)| k != o);
    d.map(|(k, o)| format!("flags at page {}: kernel {}, model {}", (k.0 - BASE) / PAGE, k.1.letters(), o.1.letters()))
}

/// As `differ`, for a driver that sees no writes: whatever the kernel has otherwise must be learnable, and learnt.
fn differ_unseen(ops: &[Op], files: &Files) -> Option<String> {
    let raw: Vec<Raw> = ops.iter().map(|o| o.raw(files)).collect();
    let out = match sys::run(&raw, sys::USUAL) {
        Ok(out) => out,
        Err(e) => return Some(e),
    };
    let mut space = model(Touches::Unseen, Config::default().max_map_count);
    for (i, op) in ops.iter().enumerate() {
        let (ret, kernel) = &out.frames[i];
        if let Op::Write { .. } = op {
            // All that a write can change is a stack's start.
            for k in kernel {
                if let Some(a) = space.area_at(k.end - 1).filter(|a| a.start > k.start && a.end <= k.end) {
                    let at = a.start;
                    space.grow_down(at, k.start).expect("only a stack grows");
                }
            }
        } else {
            let pages = op.depends_on_pages(&space);
            let errno = op.apply(&mut space, files, i as u64);
            if i64::from(errno) != -(*ret).min(0) {
                let why = format!("op {i} {op:x?}: the kernel returns {ret:x}, the model says errno {errno}");
                return if pages { None } else { Some(why) };
            }
        }
        let model_was = seen(&space);
        let learnt = learn(&mut space, kernel);
        let checked = space.check();
        if seen(&space) != *kernel || checked.is_err() {
            let (k, m, was) = (show(kernel), show(&seen(&space)), show(&before(&out.frames, i)));
            let unlearnt = show(&model_was);
            return Some(format!(
                "op {i} {op:x?}: {learnt:?} {checked:?}\n before {was}\n kernel {k}\n model  {unlearnt}\n learnt {m}"
            ));
        }
    }
    let known = |f: Flags| f - Flags::ACCOUNT - Flags::MAYBE_GUARD;
    let ours = space.areas_in(BASE, END).map(|a| (a.start, known(a.area.flags)));
    let mut d = vm_flags(&out.smaps).into_iter().map(|(a, f)| (a, known(f))).zip(ours);
    d.find(|(k, o)| k != o).map(|(k, o)| {
        format!("flags at page {}: kernel {}, model {}", (k.0 - BASE) / PAGE, k.1.letters(), o.1.letters())
    })
}

fn learn(space: &mut AddressSpace<FileId>, kernel: &[Seen]) -> Result<(), NotLearnable> {
    let inside = |k: &[Seen], x: u64| k.iter().any(|a| a.start < x && x < a.end);
    for pair in kernel.windows(2).filter(|p| p[0].end == p[1].start) {
        if inside(&seen(space), pair[1].start) {
            space.learn_cut(pair[1].start)?;
        }
    }
    for a in seen(space) {
        if inside(kernel, a.start) {
            space.learn_join(a.start)?;
        }
    }
    Ok(())
}

fn before(frames: &[(i64, Vec<Seen>)], i: usize) -> Vec<Seen> {
    i.checked_sub(1).map(|i| frames[i].1.clone()).unwrap_or_default()
}

/// Takes ops away as long as a difference remains, and time (a run near the limit of areas is slow).
fn shrink(mut ops: Vec<Op>, differ: impl Fn(&[Op]) -> Option<String>) -> (Vec<Op>, String) {
    let until = Instant::now() + Duration::from_secs(10);
    let mut why = differ(&ops).unwrap_or_default();
    let mut chunk = ops.len() / 2;
    while chunk > 0 {
        let mut i = 0;
        while i < ops.len() && Instant::now() < until {
            let mut fewer = ops.clone();
            fewer.drain(i..(i + chunk).min(ops.len()));
            match differ(&fewer) {
                Some(w) => (ops, why) = (fewer, w),
                None => i += chunk,
            }
        }
        chunk /= 2;
    }
    (ops, why)
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// What this kernel lacks of what the model follows (6.17 and later), if anything.
fn lacking(files: &Files) -> Option<&'static str> {
    let rw = |page: u64, prot| Op::Map { at: BASE + page * PAGE, len: PAGE, prot, flags: 0x32, file: None, offset: 0 };
    let ops = [
        rw(0, 3),
        rw(1, 1),
        Op::Remap { old: BASE, old_len: 2 * PAGE, new_len: 2 * PAGE, fixed: Some(BASE + 8 * PAGE), dontunmap: false },
        Op::Advise { at: BASE + 8 * PAGE, len: PAGE, advice: Advice::GuardInstall },
        Op::Seal { at: BASE + 8 * PAGE, len: PAGE },
    ];
    let raw: Vec<Raw> = ops.iter().map(|o| o.raw(files)).collect();
    let Ok(out) = sys::run(&raw, sys::USUAL) else { return Some("a child process in which to make the calls") };
    let names = ["mmap", "mmap", "mremap of several areas", "guard pages", "mseal"];
    if out.frames[1].1.len() != 2 {
        return Some("PROCMAP_QUERY");
    }
    out.frames.iter().zip(names).find(|(f, _)| f.0 < 0).map(|(_, n)| n)
}

fn explore(name: &str, mix: Mix, len: u64, runs: u64, differ: impl Fn(&[Op], &Files) -> Option<String>) {
    explore_with(name, |r, files| draw(r, mix, files), len, runs, differ);
}

fn explore_with(
    name: &str,
    draw: impl Fn(&mut Rng, &Files) -> Op,
    len: u64,
    runs: u64,
    differ: impl Fn(&[Op], &Files) -> Option<String>,
) {
    let files = files();
    if let Some(what) = lacking(&files) {
        println!("skipped: this kernel lacks {what}, and the model follows Linux 6.17 and later");
        return;
    }
    let seed = setting("SAMARA_MM_SEED", 1);
    let runs = setting("SAMARA_MM_RUNS", runs);
    for run in 0..runs {
        let mut rng = Rng(seed.wrapping_mul(0x1_0000_0001).wrapping_add(run));
        let ops: Vec<Op> = (0..len).map(|_| draw(&mut rng, &files)).collect();
        if differ(&ops, &files).is_some() {
            let (ops, why) = shrink(ops, |o| differ(o, &files));
            let list: Vec<String> = ops.iter().map(|o| format!("  {o:x?}")).collect();
            panic!("{name}: seed {seed}, run {run}: model and kernel differ\n{}\n{why}", list.join("\n"));
        }
    }
    println!("{name}: {} calls compared, no difference", runs * len);
}

const PLAIN: Mix = Mix { seal: false, lock: false, forks: false, odd: false, dontunmap: true, pages: 24 };

#[test]
fn chosen_sequences() {
    let files = files();
    if let Some(what) = lacking(&files) {
        println!("skipped: this kernel lacks {what}, and the model follows Linux 6.17 and later");
        return;
    }
    let uffd = has_uffd();
    for case in chosen::CASES {
        if case.contains("uffd") && !uffd {
            println!("skipped: {case} (no userfaultfd that protects files' memory from writing)");
            continue;
        }
        let why = differ(&chosen::parse(case), &files);
        assert!(why.is_none(), "{case}: {}", why.unwrap_or_default());
        let why = differ_unseen(&chosen::parse(case), &files);
        assert!(why.is_none(), "writes unseen: {case}: {}", why.unwrap_or_default());
    }
}

#[test]
fn plain_calls() {
    explore("plain", PLAIN, 40, 300, differ);
}

/// Few pages, so that neighbours meet often.
#[test]
fn few_pages() {
    explore("few pages", Mix { pages: 7, ..PLAIN }, 60, 600, differ);
}

#[test]
fn everything() {
    explore(
        "everything",
        Mix { seal: true, lock: true, forks: true, odd: true, dontunmap: true, pages: 40 },
        60,
        300,
        differ,
    );
}

fn has_uffd() -> bool {
    sys::run(&[Raw::Uffd(true, BASE, PAGE)], sys::USUAL).is_ok()
}

/// Anonymous memory, writes, moves and forks alone: identities.
#[test]
fn hot() {
    let mix = Mix { forks: true, pages: 8, ..PLAIN };
    explore_with("hot", |r, _| mixes::hot(r, mix), 120, 200, differ);
    explore_with("hot, longer", |r, _| mixes::hot(r, Mix { pages: 16, ..mix }), 300, 40, differ);
    explore_with("hot, writes unseen", |r, _| mixes::hot(r, mix), 60, 100, differ_unseen);
}

/// Files alone, for the most part private and written to.
#[test]
fn file_maps() {
    let mix = Mix { forks: true, pages: 8, ..PLAIN };
    explore_with("files", |r, files| mixes::files(r, mix, files), 80, 200, differ);
    explore_with("files, apart", |r, files| mixes::files(r, Mix { pages: 24, ..mix }, files), 80, 100, differ);
}

#[test]
fn registrations() {
    if !has_uffd() {
        println!(
            "skipped: no userfaultfd that protects files' memory from writing (privileges, or the kernel's build)"
        );
        return;
    }
    let mix = Mix { seal: true, lock: true, pages: 8, ..PLAIN };
    explore_with("uffd", |r, files| mixes::uffd(r, mix, files), 60, 200, differ);
    explore_with("uffd, apart", |r, files| mixes::uffd(r, Mix { pages: 30, ..PLAIN }, files), 60, 100, differ);
}

#[test]
fn writes_unseen() {
    let mix = Mix { seal: true, forks: true, ..PLAIN };
    explore("writes unseen", mix, 60, 300, differ_unseen);
    explore("writes unseen, few pages", Mix { pages: 7, ..mix }, 60, 300, differ_unseen);
    // Whether locked memory that was moved away with DONTUNMAP joins its copy cannot be learnt: not both.
    explore("writes unseen, locks", Mix { lock: true, dontunmap: false, ..mix }, 60, 300, differ_unseen);
}

/// Near the limit of `vm.max_map_count`: what is refused there, and what a refusal leaves behind.
#[test]
fn at_the_limit() {
    let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").expect("procfs");
    let limit: usize = text.trim().parse().expect("a number");
    if limit > 300_000 {
        println!("skipped: vm.max_map_count is {limit}, too many areas to make in a test");
        return;
    }
    for room in [14, 20] {
        let differ = |ops: &[Op], files: &Files| {
            let nothing = sys::run(&[Raw::Write(0)], sys::USUAL).expect("a child that does nothing");
            let fill = limit - nothing.others - room;
            differ_after(ops, files, fill as u64, Some(limit))
        };
        explore("at the limit", Mix { pages: 40, seal: true, lock: true, ..PLAIN }, 60, 5, differ);
    }
}
