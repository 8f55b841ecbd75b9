//! Faults: a child really reads, writes and executes memory. The model must predict which signal it
//! gets and how its stacks grow.

use crate::child::{self, BASE, PAGE, QueriedArea, Raw, Window};
use crate::rng::Rng;
use crate::skip::skipped;
use samara_mm::*;
use samara_oracle::harness::has_protection_keys;

/// Pages that are looked at: wider than what is kept free below a stack.
const PAGES: u64 = 1024;
const WINDOW: Window = Window { start: BASE, end: BASE + PAGES * PAGE, guards: (true, true) };
const GROWS: MapFlags = MapFlags::GROWSDOWN;

#[derive(Clone, Copy, Debug)]
enum Op {
    /// From and to as pages.
    Map(u64, u64, Prot, MapFlags),
    Protect(u64, u64, Prot),
    Unmap(u64, u64),
    Move(u64, u64, u64),
    Access(Access, u64),
    /// RLIMIT_STACK in bytes.
    Limit(&'static [u64; 2]),
}

fn at(page: u64) -> u64 {
    BASE + page * PAGE
}

impl Op {
    fn raw(self) -> Raw {
        let len = |from: u64, to: u64| (to - from) * PAGE;
        let call = |nr, args| Raw::Call(nr, args);
        match self {
            Op::Map(from, to, prot, more) => {
                let flags = MapFlags::PRIVATE | MapFlags::ANONYMOUS | MapFlags::FIXED | more;
                let (prot, flags) = (prot.bits().into(), flags.bits().into());
                call(libc::SYS_mmap, [at(from), len(from, to), prot, flags, u64::MAX, 0])
            }
            Op::Protect(from, to, prot) => {
                call(libc::SYS_mprotect, [at(from), len(from, to), prot.bits().into(), 0, 0, 0])
            }
            Op::Unmap(from, to) => call(libc::SYS_munmap, [at(from), len(from, to), 0, 0, 0, 0]),
            Op::Move(from, to, new) => call(libc::SYS_mremap, [at(from), len(from, to), len(from, to), 3, at(new), 0]),
            Op::Access(access, page) => Raw::Access(access, at(page)),
            Op::Limit(limit) => {
                call(libc::SYS_prlimit64, [0, libc::RLIMIT_STACK.into(), limit.as_ptr() as u64, 0, 0, 0])
            }
        }
    }

    fn apply(self, space: &mut AddressSpace<FileId>) -> i64 {
        let len = |from: u64, to: u64| (to - from) * PAGE;
        let done = match self {
            Op::Map(from, to, prot, more) => {
                let request = MapRequest::anonymous(at(from), len(from, to), prot);
                space.map(&MapRequest { flags: request.flags | more, ..request })
            }
            Op::Protect(from, to, prot) => space.protect(at(from), len(from, to), prot, None),
            Op::Unmap(from, to) => space.unmap(at(from), len(from, to)),
            Op::Move(from, to, new) => {
                let (old, len, mode) = (at(from), len(from, to), RemapMode::Fixed(at(new)));
                space.remap(&RemapRequest { old, old_len: len, new_len: len, mode, dontunmap: false })
            }
            Op::Access(access, page) => {
                return space.fault(at(page), access).map_or_else(
                    |r| r.si_code().into(),
                    |f| {
                        assert!(f.at.start <= at(page) && f.at.end > at(page));
                        0
                    },
                );
            }
            Op::Limit(limit) => {
                let stack = Limit { soft: limit[0], hard: limit[1] };
                space.set_limits(Limits { stack, ..*space.limits() });
                Ok(Plan::default())
            }
        };
        done.map_or_else(|e| -i64::from(e.errno.raw()), |_| 0)
    }
}

fn seen(space: &AddressSpace<FileId>) -> Vec<QueriedArea> {
    let one = |a: Placed<'_, FileId>| {
        let perms = (a.area.flags & Flags::ACCESS).bits();
        QueriedArea { start: a.start, end: a.end, perms, offset: 0 }
    };
    space.areas_in(WINDOW.start, WINDOW.end).map(one).collect()
}

fn show(areas: &[QueriedArea]) -> String {
    let page = |a: u64| a.wrapping_sub(BASE) as i64 / PAGE as i64;
    areas.iter().map(|a| format!("{}-{}:{}", page(a.start), page(a.end), a.perms)).collect::<Vec<_>>().join(" ")
}

/// Where model and kernel differ, if they do. What the kernel answered.
fn compare(ops: &[Op]) -> Result<Vec<i64>, String> {
    let raw: Vec<Raw> = ops.iter().map(|o| o.raw()).collect();
    let out = child::run(&raw, WINDOW)?;
    let mut space = AddressSpace::new(Config { protection_keys: has_protection_keys(), ..Config::default() });
    let Some(stack) = stack_limit() else { return Ok(Vec::new()) };
    space.set_limits(Limits { stack, ..Limits::NONE });
    // The guards, which no access may come across: PROT_NONE.
    for (start, open) in [(WINDOW.start - PAGE, 998), (WINDOW.end, 999)] {
        let flags = Flags::SHARED | Flags::MAYSHARE | Flags::MAYREAD | Flags::MAYWRITE | Flags::MAYEXEC;
        let file = FileId { dev: (0, 1), inode: open, open, name: "/dev/zero (deleted)".into() };
        space.import(start, start + PAGE, Area::new(flags, Object::File(file), 0)).map_err(|e| e.to_string())?;
    }
    for (i, op) in ops.iter().enumerate() {
        let (ret, kernel) = &out.frames[i];
        let ours = op.apply(&mut space);
        let ret = if matches!(op, Op::Access(..)) { *ret } else { (*ret).min(0) };
        space.check().map_err(|v| v.to_string())?;
        if ours != ret || seen(&space) != *kernel {
            let ops: Vec<String> = ops[..=i].iter().map(|o| format!("  {o:?}\n")).collect();
            let (kernel, model) = (show(kernel), show(&seen(&space)));
            return Err(format!("{}kernel {ret}, {kernel}\nmodel  {ours}, {model}", ops.concat()));
        }
    }
    Ok(out.frames.iter().map(|f| f.0).collect())
}

const RWX: Prot = Prot::RW.union(Prot::EXEC);
const NO_LIMIT: &[u64; 2] = &[u64::MAX, u64::MAX];

fn write(page: u64) -> Op {
    Op::Access(Access::Write, page)
}

/// Pages as numbers; the last answer.
#[test]
fn chosen() {
    use Op::{Map, Protect, Unmap};
    const NONE: MapFlags = MapFlags::empty();
    let stack = |from, to| Map(from, to, Prot::RW, GROWS);
    let limit = |pages: &'static [u64; 2]| Op::Limit(pages);
    let (ok, mapped, allowed) = (0, Refused::NotMapped.si_code().into(), Refused::NotAllowed.si_code().into());
    let cases: &[(&[Op], i64)] = &[
        (&[stack(600, 602), write(599)], ok),
        (&[stack(600, 602), write(597)], ok),
        (&[stack(600, 602), write(344)], ok),
        (&[Map(600, 602, Prot::RW, NONE), write(599)], mapped),
        // An area in the way; how near another may be, and which.
        (&[Map(400, 401, Prot::RW, NONE), stack(600, 602), write(599)], mapped),
        (&[Map(300, 302, Prot::NONE, NONE), stack(600, 602), write(302)], ok),
        (&[Map(300, 302, Prot::READ, NONE), stack(600, 602), write(558)], ok),
        (&[Map(300, 302, Prot::READ, NONE), stack(600, 602), write(557)], mapped),
        (&[Map(300, 302, Prot::WRITE, NONE), stack(600, 602), write(557)], mapped),
        (&[Map(300, 302, Prot::EXEC, NONE), stack(600, 602), write(557)], mapped),
        (&[Map(300, 302, Prot::RW, GROWS), stack(600, 602), write(302)], ok),
        (&[Map(580, 590, Prot::RW, NONE), Map(590, 592, Prot::NONE, NONE), stack(600, 602), write(592)], ok),
        (&[Map(580, 582, Prot::RW, NONE), Map(590, 592, Prot::NONE, GROWS), stack(600, 602), write(589)], mapped),
        (&[stack(590, 592), stack(600, 602), write(589)], ok),
        // Growth comes before the question whether the access is allowed.
        (&[Map(600, 602, Prot::READ, GROWS), write(599)], allowed),
        (&[Map(600, 602, Prot::NONE, GROWS), Op::Access(Access::Read, 590)], allowed),
        (&[stack(600, 602), Op::Access(Access::Execute, 597)], allowed),
        (&[stack(600, 602), Protect(600, 601, Prot::NONE), write(599)], allowed),
        (&[stack(600, 602), Protect(601, 602, Prot::READ), write(599)], ok),
        (&[stack(600, 602), Unmap(600, 601), write(600)], ok),
        // Its own limit.
        (&[stack(600, 602), limit(&[16 * PAGE, u64::MAX]), write(586)], ok),
        (&[stack(600, 602), limit(&[16 * PAGE, u64::MAX]), write(585)], mapped),
        (&[stack(600, 602), limit(&[16 * PAGE - 1, u64::MAX]), write(586)], mapped),
        (&[stack(600, 602), limit(&[0, u64::MAX]), write(600)], ok),
        // Whom a limit refuses has been touched: it and another do not become one. Whom a neighbour
        // refuses has not.
        (&[stack(600, 602), limit(&[0, u64::MAX]), write(599), stack(604, 606), write(604), stack(602, 604)], ok),
        (
            &[Map(590, 591, Prot::RW, NONE), stack(600, 602), write(599), stack(604, 606), write(604), stack(602, 604)],
            ok,
        ),
        // Growth touches, whatever the access was; and takes the identity of a neighbour.
        (
            &[
                Map(600, 602, Prot::READ, GROWS),
                Op::Access(Access::Read, 599),
                Map(604, 606, Prot::RW, GROWS),
                write(604),
                Protect(604, 606, Prot::READ),
                Map(602, 604, Prot::READ, GROWS),
            ],
            ok,
        ),
        (
            &[
                stack(602, 604),
                write(602),
                Protect(602, 604, Prot::READ),
                stack(600, 602),
                Op::Access(Access::Read, 599),
                Protect(602, 604, Prot::RW),
            ],
            ok,
        ),
    ];
    for (ops, last) in cases {
        let answers = compare(ops).unwrap_or_else(|why| panic!("{why}"));
        assert!(answers.last().is_none_or(|a| a == last || (*a > 200 && *last == 0)), "{ops:?}: {answers:?}");
    }
}

/// Every access to every protection, private and not growing.
#[test]
fn protections() {
    for bits in 0..8 {
        let map = Op::Map(10, 11, Prot::from_bits_retain(bits), MapFlags::empty());
        for access in [Access::Read, Access::Write, Access::Execute] {
            compare(&[map, Op::Access(access, 10), Op::Access(access, 12)]).unwrap_or_else(|why| panic!("{why}"));
        }
    }
}

/// What concerns places outside the window, and limits.
#[derive(Clone, Copy, Debug)]
enum Far {
    /// One page that grows down, with flags.
    Map(u64, MapFlags),
    /// That page at 0x20000, moved.
    Move(u64),
    Write(u64),
    /// RLIMIT_AS, DATA, STACK or MEMLOCK: soft and hard, in bytes.
    Limit(u32, &'static [u64; 2]),
    NoCaps,
}

impl Far {
    fn raw(self) -> Raw {
        // The header of version 3, for oneself; no capability.
        static HEADER: [u32; 2] = [0x2008_0522, 0];
        static NONE: [u32; 6] = [0; 6];
        match self {
            Far::Map(at, more) => {
                let flags = MapFlags::PRIVATE | MapFlags::ANONYMOUS | MapFlags::FIXED | GROWS | more;
                Raw::Call(libc::SYS_mmap, [at, PAGE, 3, flags.bits().into(), u64::MAX, 0])
            }
            Far::Move(to) => Raw::Call(libc::SYS_mremap, [0x2_0000, PAGE, PAGE, 3, to, 0]),
            Far::Write(addr) => Raw::Access(Access::Write, addr),
            Far::Limit(of, limit) => Raw::Call(libc::SYS_prlimit64, [0, of.into(), limit.as_ptr() as u64, 0, 0, 0]),
            Far::NoCaps => Raw::Call(libc::SYS_capset, [HEADER.as_ptr() as u64, NONE.as_ptr() as u64, 0, 0, 0, 0]),
        }
    }

    fn apply(self, space: &mut AddressSpace<FileId>) -> i64 {
        let done = match self {
            Far::Map(at, more) => {
                let request = MapRequest::anonymous(at, PAGE, Prot::RW);
                space.map(&MapRequest { flags: request.flags | GROWS | more, ..request })
            }
            Far::Move(to) => {
                let (old, old_len, new_len, mode) = (0x2_0000, PAGE, PAGE, RemapMode::Fixed(to));
                space.remap(&RemapRequest { old, old_len, new_len, mode, dontunmap: false })
            }
            Far::Write(addr) => return space.fault(addr, Access::Write).map_or_else(Refused::si_code, |_| 0).into(),
            Far::Limit(of, &[soft, hard]) => {
                let (limit, mut limits) = (Limit { soft, hard }, *space.limits());
                match of {
                    libc::RLIMIT_AS => limits.address_space = limit,
                    libc::RLIMIT_DATA => limits.data = limit,
                    libc::RLIMIT_STACK => limits.stack = limit,
                    _ => limits.locked = limit,
                }
                space.set_limits(limits);
                Ok(Plan::default())
            }
            Far::NoCaps => {
                space.set_caps(Caps::empty());
                Ok(Plan::default())
            }
        };
        done.map_or_else(|e| -i64::from(e.errno.raw()), |_| 0)
    }
}

/// Where maps may begin: where a wish for the second page is granted.
fn least() -> u64 {
    let kind = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let at = child::call(libc::SYS_mmap, [PAGE, PAGE, 0, kind, u64::MAX, 0]) as u64;
    child::call(libc::SYS_munmap, [at, PAGE, 0, 0, 0, 0]);
    at
}

/// Near address 0, at the end of user space; a stack that moved, and cannot count its pages below
/// 0; every limit.
#[test]
fn far_away() {
    use Far::*;
    const NONE: MapFlags = MapFlags::empty();
    let Some(stack) = stack_limit() else { return };
    let least = least();
    if least > 0x1_0000 {
        skipped(format_args!("maps begin at {least:#x} here"));
        return;
    }
    let (far, huge) = (BASE + (1 << 30), 1 << 46);
    let mut cases: Vec<Vec<Far>> = vec![
        vec![Map(least + 3 * PAGE, NONE), Write(least + 2 * PAGE), Write(least), Write(least - 1), Write(0)],
        vec![Map(0x2_0000, NONE), Write(0x2_0000), Move(at(600)), Write(at(568)), Write(at(567))],
        vec![Map(0x2_0000, NONE), Move(at(600)), Write(at(567))],
        vec![Write(0), Write(0x7fff_ffff_f000), Write(0x7fff_ffff_ffff), Write(0xffff_8000_0000_0000), Write(u64::MAX)],
        vec![Write(0xffff_ffff_ff60_0000)],
        vec![Map(far, NONE), Limit(libc::RLIMIT_STACK, &[1 << 20, u64::MAX]), Write(far + PAGE - (1 << 20))],
        vec![Map(far, NONE), Limit(libc::RLIMIT_STACK, &[1 << 20, u64::MAX]), Write(far - (1 << 20))],
        vec![Map(far, NONE), Limit(libc::RLIMIT_AS, &[PAGE, PAGE]), Write(far - PAGE)],
        vec![Map(far, NONE), Limit(libc::RLIMIT_DATA, &[0, 0]), Write(far - PAGE)],
        vec![
            Map(far, MapFlags::LOCKED),
            Limit(libc::RLIMIT_MEMLOCK, &[3 * PAGE, 3 * PAGE]),
            NoCaps,
            Write(far - 2 * PAGE),
            Write(far - 3 * PAGE),
        ],
        vec![Map(far, MapFlags::LOCKED), Limit(libc::RLIMIT_MEMLOCK, &[0, 0]), NoCaps, Write(far - PAGE)],
        vec![Map(far, NONE), Limit(libc::RLIMIT_MEMLOCK, &[0, 0]), NoCaps, Write(far - PAGE)],
    ];
    let mode = std::fs::read_to_string("/proc/sys/vm/overcommit_memory").unwrap_or_default();
    if mode.trim() == "0" {
        // 32 TiB, which no machine has: all growth is charged, also where the area is not.
        let unlimited = Limit(libc::RLIMIT_STACK, NO_LIMIT);
        cases.push(vec![Map(huge, NONE), unlimited, Write(huge / 2)]);
        cases.push(vec![Map(huge, MapFlags::NORESERVE), unlimited, Write(huge / 2)]);
    } else {
        skipped("growth that is not promised (vm.overcommit_memory is not 0)");
    }
    for steps in cases {
        let raw: Vec<Raw> = steps.iter().map(|s| s.raw()).collect();
        let out = child::run(&raw, WINDOW).expect("a child that lives");
        let overcommit = Overcommit::Guess { total: 1 << 44 };
        let bases = Bases { least, ..Bases::default() };
        let mut space = AddressSpace::<FileId>::new(Config { overcommit, bases, ..Config::default() });
        space.set_limits(Limits { stack, ..Limits::NONE });
        for (step, (ret, _)) in steps.iter().zip(&out.frames) {
            let ours = step.apply(&mut space);
            assert!(ours == *ret || (ours == 0 && *ret > 200), "{steps:x?}: {step:x?}: {ours}, {ret}");
        }
    }
}

/// RLIMIT_STACK as it is. None where it cannot be raised.
fn stack_limit() -> Option<Limit> {
    let mut now = [0u64; 2];
    child::call(libc::SYS_prlimit64, [0, libc::RLIMIT_STACK.into(), 0, now.as_mut_ptr() as u64, 0, 0]);
    if now[1] != u64::MAX {
        skipped("RLIMIT_STACK has a hard limit");
        return None;
    }
    Some(Limit { soft: now[0], hard: now[1] })
}

fn draw(r: &mut Rng) -> Op {
    let range = |r: &mut Rng, longest: u64| {
        let from = r.below(PAGES - longest);
        // Near one another, for the most part.
        let from = if r.one_in(2) { 500 + from % 60 } else { from };
        (from, from + 1 + r.below(longest))
    };
    let prot = |r: &mut Rng| r.pick(&[Prot::NONE, Prot::READ, Prot::RW, Prot::RW, Prot::RW, RWX, Prot::EXEC]);
    match r.below(20) {
        0..=5 => {
            let (from, to) = range(r, 4);
            let more = if r.one_in(3) { MapFlags::NORESERVE } else { MapFlags::empty() };
            let prot = prot(r);
            Op::Map(from, to, prot, if r.one_in(4) { more } else { more | GROWS })
        }
        6 => {
            let (from, to) = range(r, 40);
            Op::Unmap(from, to)
        }
        7 | 8 => {
            let (from, to) = range(r, 4);
            Op::Protect(from, to, prot(r))
        }
        9 => {
            let ((from, to), (new, _)) = (range(r, 8), range(r, 8));
            Op::Move(from, to, new)
        }
        10 => Op::Limit(r.pick(&[&[8 << 20, u64::MAX], &[0, u64::MAX], &[12 * PAGE, u64::MAX], NO_LIMIT])),
        _ => Op::Access(r.pick(&[Access::Read, Access::Write, Access::Write, Access::Execute]), range(r, 1).0),
    }
}

#[test]
fn random() {
    let setting = |name: &str, usual| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(usual);
    let (seed, runs) = (setting("SAMARA_MM_SEED", 1), setting("SAMARA_MM_RUNS", 400));
    for run in 0..runs {
        let mut rng = Rng(seed * 0x1_0000_0001 + run);
        let mut ops: Vec<Op> = (0..60).map(|_| draw(&mut rng)).collect();
        let Err(mut why) = compare(&ops) else { continue };
        let mut i = ops.len();
        while i > 0 {
            i -= 1;
            let mut fewer = ops.clone();
            fewer.remove(i);
            if let Err(w) = compare(&fewer) {
                (ops, why) = (fewer, w);
            }
        }
        panic!("seed {seed}, run {run}: model and kernel differ\n{why}");
    }
}
