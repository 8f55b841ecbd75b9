//! What Linux does, case by case: window pages as numbers. The random runs beside this file hold the same rules against a running kernel.

use samara_mm::*;
use std::sync::Arc;

const BASE: u64 = 0x10_0000_0000;
const PAGE: u64 = 4096;
type Space = AddressSpace<FileId>;

/// Runs a script of calls. Bounds are pages: `10-12`. Commands:
/// `rw|r|none|rwx|nr-rw|nr-r|gd A-B` map (nr: NORESERVE, gd: grows down), `t A-B` write, `p-rw|p-r|p-none A-B` protect,
/// `u A-B` unmap, `mv A-B TO`, `keep A-B TO` (DONTUNMAP), `size A-B LEN`, `dup A LEN TO`, `dontfork|dofork|dontdump|dodump A-B`, `lock|unlock|onfault A-B`, `seal A-B`,
/// `local|default A-B` policy, `uffd|unuffd A-B`, `file|pfile N A-B OFF` (pfile: private, read and write), `drop A-B` (DROPPABLE),
/// `dev A-B` (device memory), `guard|remove A-B`, `fork`, `future`. A call that is refused ends with `!ERRNO`.
fn run(script: &str) -> Space {
    run_in(Config::default(), script)
}

fn run_in(config: Config, script: &str) -> Space {
    let mut space = Space::new(config);
    for call in script.split(';').map(str::trim).filter(|c| !c.is_empty()) {
        let (call, refused) = call.split_once('!').map_or((call, None), |(c, e)| (c, Some(e.trim())));
        let done = one(&mut space, &call.split_whitespace().collect::<Vec<_>>());
        let errno = done.err().map(|e| e.errno.name());
        assert_eq!(errno, refused, "{call}, in {script}");
        space.check().unwrap_or_else(|v| panic!("{call}, in {script}: {v}"));
    }
    space
}

fn one(space: &mut Space, words: &[&str]) -> Result<Plan, Error> {
    let range = |w: &str| {
        let (a, b) = w.split_once('-').expect("a range");
        let n = |s: &str| s.parse::<u64>().expect("a page");
        (BASE + n(a) * PAGE, (n(b) - n(a)) * PAGE)
    };
    let pages = |i: usize| words[i].parse::<u64>().expect("a number") * PAGE;
    let (at, len) = words[1..].iter().find(|w| w.contains('-')).map_or((0, 0), |w| range(w));
    let map = |prot, flags: MapFlags| {
        let base = MapRequest::anonymous(at, len, prot);
        MapRequest { flags: base.flags | flags, ..base }
    };
    let remap = |new_len, to: Option<u64>, dontunmap| RemapRequest {
        old: at,
        old_len: len,
        new_len,
        mode: to.map_or(RemapMode::InPlace, |t| RemapMode::Fixed(BASE + t)),
        dontunmap,
    };
    let uffd = Uffd { id: 7, fork_events: false, remap_events: false };
    match words[0] {
        "rw" => space.map(&map(Prot::RW, MapFlags::empty())),
        "rwx" => space.map(&map(Prot::RW | Prot::EXEC, MapFlags::empty())),
        "r" => space.map(&map(Prot::READ, MapFlags::empty())),
        "none" => space.map(&map(Prot::NONE, MapFlags::empty())),
        "nr-rw" => space.map(&map(Prot::RW, MapFlags::NORESERVE)),
        "nr-r" => space.map(&map(Prot::READ, MapFlags::NORESERVE)),
        "gd" => space.map(&map(Prot::RW, MapFlags::GROWSDOWN)),
        "stack" => space.map(&map(Prot::RW, MapFlags::STACK)),
        "new" => space.map(&map(Prot::RW, MapFlags::FIXED_NOREPLACE)),
        "drop" => {
            let flags = MapFlags::DROPPABLE | MapFlags::ANONYMOUS;
            space.map(&MapRequest { flags, ..MapRequest::anonymous(at, len, Prot::RW) })
        }
        "file" | "pfile" | "dev" => {
            let open = if words[0] == "dev" { 9 } else { words[1].parse().expect("a file") };
            let file = FileId { dev: (8, 1), inode: 5, open, name: Arc::from("/f") };
            let offset = words.get(3).map_or(0, |_| pages(3));
            space.map(&match words[0] {
                "pfile" => MapRequest::file(at, len, Prot::RW, MapFlags::PRIVATE, file, offset),
                "file" => MapRequest::file(at, len, Prot::READ, MapFlags::SHARED, file, offset),
                _ => MapRequest {
                    driver_flags: Flags::IO | Flags::PFNMAP,
                    ..MapRequest::file(at, len, Prot::RW, MapFlags::PRIVATE, file, offset)
                },
            })
        }
        "t" => {
            space.touch(at, at + len);
            Ok(Plan::default())
        }
        "u" => space.unmap(at, len),
        "p-rw" => space.protect(at, len, Prot::RW, None),
        "p-r" => space.protect(at, len, Prot::READ, None),
        "p-none" => space.protect(at, len, Prot::NONE, None),
        "p-down" => space.protect(at, len, Prot::READ | Prot::GROWSDOWN, None),
        "mv" => space.remap(&remap(len, Some(pages(2)), false)),
        "keep" => space.remap(&remap(len, Some(pages(2)), true)),
        "free" => space.remap(&RemapRequest { mode: RemapMode::MoveTo(BASE + pages(2)), ..remap(len, None, false) }),
        "size" => space.remap(&remap(pages(2), None, false)),
        "resize" => space.remap(&remap(pages(2), Some(pages(3)), false)),
        "dup" => space.remap(&RemapRequest { old_len: 0, ..remap(len, Some(pages(2)), false) }),
        "dontfork" => space.advise(at, len, Advice::DontFork),
        "dofork" => space.advise(at, len, Advice::DoFork),
        "dontdump" => space.advise(at, len, Advice::DontDump),
        "dodump" => space.advise(at, len, Advice::DoDump),
        "remove" => space.advise(at, len, Advice::Remove),
        "guard" => space.advise(at, len, Advice::GuardInstall),
        "lock" => space.lock(at, len, LockKind::Now),
        "onfault" => space.lock(at, len, LockKind::OnFault),
        "unlock" => space.unlock(at, len),
        "future" => space.lock_all(false, true, LockKind::Now),
        "seal" => space.seal(at, len),
        "local" => space.set_policy(at, len, Some(Arc::new(Policy { mode: 4, nodes: Arc::new([]) }))),
        "default" => space.set_policy(at, len, None),
        "uffd" => space.register_uffd(at, len, uffd, Flags::UFFD_MISSING),
        "unuffd" => space.unregister_uffd(at, len),
        "fork" => {
            *space = space.fork().expect("memory");
            Ok(Plan::default())
        }
        other => panic!("no such call: {other}"),
    }
}

fn areas(space: &Space) -> String {
    let page = |a: u64| (a - BASE) / PAGE;
    space.areas().map(|a| format!("{}-{}", page(a.start), page(a.end))).collect::<Vec<_>>().join(" ")
}

#[test]
fn areas_after_calls() {
    let cases = [
        // Merging.
        ("rw 10-11; rw 12-13; rw 11-12", "10-13"),
        ("rw 10-11; rw 12-13; t 10-11; t 12-13; rw 11-12", "10-12 12-13"),
        ("rw 10-14; p-r 11-12; p-rw 11-12", "10-14"),
        ("rw 10-14; t 10-14; p-r 11-12; p-rw 11-12", "10-14"),
        ("rw 10-14; t 10-14; p-r 11-12", "10-11 11-12 12-14"),
        ("r 10-12; rw 12-14; p-rw 10-12", "10-14"),
        ("rw 10-12; t 10-12; p-r 10-12; r 12-14", "10-12 12-14"),
        ("rw 10-12; p-r 10-12; r 12-14", "10-14"),
        ("nr-rw 10-12; t 10-12; p-r 10-12; nr-r 12-14", "10-14"),
        ("nr-rw 10-12; t 10-12; nr-r 12-14; nr-rw 14-16; t 14-16; p-rw 12-14", "10-14 14-16"),
        ("nr-rw 10-12; t 10-12; nr-r 12-14; nr-rw 14-16; p-rw 12-14", "10-16"),
        ("rw 10-12; nr-rw 12-14", "10-12 12-14"),
        ("rw 10-12; stack 12-14", "10-12 12-14"),
        ("gd 10-12; gd 12-14", "10-14"),
        // A first write takes the identity of a neighbour that differs in protection only.
        ("rw 10-13; t 10-13; p-r 11-12; rw 20-22", "10-11 11-12 12-13 20-22"),
        ("rw 10-11; r 11-12; t 10-11; p-rw 11-12", "10-12"),
        ("rw 10-11; r 11-12; rw 12-13; t 10-11; t 12-13; p-rw 11-12", "10-12 12-13"),
        ("rw 10-11; rwx 11-12; rw 12-13; t 10-11; t 12-13; t 11-12; p-rw 11-12", "10-11 11-13"),
        // The cases of a change within an area M, by what it joins.
        ("rw 8-10; r 10-14; p-rw 10-12", "8-12 12-14"),
        ("rw 8-10; r 10-14; p-rw 10-14", "8-14"),
        ("r 10-14; rw 14-16; p-rw 12-14", "10-12 12-16"),
        ("r 10-14; rw 14-16; p-rw 10-14", "10-16"),
        ("rw 8-10; r 10-14; rw 14-16; p-rw 10-14", "8-16"),
        ("r 10-14; p-rw 11-12", "10-11 11-12 12-14"),
        ("r 10-14; p-rw 10-14", "10-14"),
        ("r 10-14; p-r 11-12", "10-14"),
        // Files: the open file, and the offset.
        ("file 1 10-12 0; file 1 12-14 2", "10-14"),
        ("file 1 10-12 0; file 1 12-14 3", "10-12 12-14"),
        ("file 1 10-12 0; file 2 12-14 2", "10-12 12-14"),
        ("file 1 10-12 0; file 1 14-16 4; file 1 12-14 2", "10-16"),
        // Fork: inherited memory keeps to itself, what was not written does not.
        ("rw 10-12; t 10-12; fork; rw 12-14", "10-12 12-14"),
        ("rw 10-12; fork; rw 12-14", "10-14"),
        ("rw 10-12; t 10-12; rw 12-14; fork; p-r 12-14; p-rw 12-14", "10-14"),
        ("rw 10-12; dontfork 11-12; fork", "10-11"),
        // Moves.
        ("rw 10-12; t 10-12; rw 20-22; mv 10-12 18", "18-20 20-22"),
        ("rw 10-12; rw 20-22; mv 10-12 18", "18-22"),
        ("rw 10-14; t 10-14; mv 12-14 30; mv 30-32 12", "10-14"),
        ("rw 10-12; r 12-14; rw 16-18; mv 10-18 100", "100-102 102-104 106-108"),
        ("r 12-14; rw 16-18; mv 10-18 100 !EFAULT", "12-14 16-18"),
        ("rw 10-12; r 12-14; uffd 12-14; mv 10-14 100 !EFAULT", "12-14 100-102"),
        ("rw 10-12; r 12-14; size 10-14 4", "10-12 12-14"),
        ("rw 10-12; r 12-14; size 10-14 5 !EFAULT", "10-12 12-14"),
        ("rw 10-12; r 12-14; size 10-14 1", "10-11"),
        ("rw 10-12; size 10-12 4", "10-14"),
        ("rw 10-12; rw 14-16; size 10-12 4", "10-16"),
        ("rw 10-12; rw 13-14; size 10-12 4 !ENOMEM", "10-12 13-14"),
        ("file 1 10-12 0; dup 10-13 20", "10-12 20-23"),
        ("rw 10-12; dup 10-12 20 !EINVAL", "10-12"),
        ("rw 10-14; keep 10-12 20", "10-14 20-22"),
        ("rw 10-12; resize 10-12 4 20", "20-24"),
        ("rw 10-12; r 20-22; resize 10-12 1 21", "20-21 21-22"),
        // The copy joins its own source before that is unmapped, and what stays of the source keeps the identity.
        ("rw 1-7; t 1-7; p-r 2-5; rw 3-7; mv 3-4 2; p-none 6-7; none 7-8", "1-3 4-6 6-7 7-8"),
        ("rw 1-7; t 1-7; p-r 2-5; rw 3-7; p-none 6-7; none 7-8", "1-2 2-3 3-6 6-8"),
        // Growth in place joins inherited memory with what was never written.
        ("rw 10-12; t 10-12; rw 14-16; fork; size 10-12 4", "10-16"),
        ("rw 10-12; t 10-12; rw 14-16; t 14-16; fork; size 10-12 4", "10-14 14-16"),
        // What a first write takes an identity from is alike in policy, object, offset, and was not inherited.
        ("rw 10-12; local 10-11; t 10-11; t 11-12; default 10-11", "10-11 11-12"),
        (
            "pfile 1 10-11 0; pfile 2 11-12 1; pfile 1 12-13 2; t 10-11; t 11-12; t 12-13; u 11-12; pfile 1 11-12 1",
            "10-12 12-13",
        ),
        ("pfile 1 10-11 0; pfile 1 12-13 2; t 10-11; pfile 1 11-12 1; t 12-13", "10-13"),
        ("rw 10-12; t 10-12; mv 11-12 20; rw 21-22; t 21-22; rw 11-21", "10-21 21-22"),
        ("rw 10-12; t 10-12; rwx 12-14; fork; t 12-14; p-rw 12-14", "10-12 12-14"),
        // A move: the registration that hears of no moves goes after the join, and the neighbour's with it.
        ("rw 10-12; rw 20-22; uffd 10-12; uffd 20-22; mv 10-12 18; rw 16-18", "16-22"),
        ("rw 10-12; rw 20-22; uffd 10-12; mv 10-12 18", "18-20 20-22"),
        ("drop 10-12; uffd 10-12 !EINVAL; unuffd 10-12 !EINVAL", "10-12"),
        ("rw 10-12; r 12-14; uffd 10-12; seal 10-12; mv 10-14 100 !EFAULT", "10-12 12-14"),
        ("rw 10-12; r 12-14; seal 10-12; mv 10-14 100 !EPERM", "10-12 12-14"),
        ("rw 10-12; uffd 10-12; seal 10-12; mv 10-12 100 !EPERM", "10-12"),
        ("file 1 10-12 0; remove 10-12", "10-12"),
        ("pfile 1 10-12 0; remove 10-12 !EACCES", "10-12"),
        // Holes and seals.
        ("rw 10-12; rw 14-16; p-r 11-16 !ENOMEM", "10-11 11-12 14-16"),
        ("rw 10-14; r 14-16; seal 14-16; u 12-15 !EPERM", "10-12 12-14 14-16"),
        ("rw 10-14; seal 12-13; u 10-14 !EPERM", "10-12 12-13 13-14"),
        ("rw 10-14; seal 12-13; p-r 11-14 !EPERM", "10-11 11-12 12-13 13-14"),
        ("rw 10-14; seal 10-12; seal 12-14", "10-14"),
        ("rw 10-12; seal 10-13 !ENOMEM", "10-12"),
        ("rw 10-12; seal 10-12; mv 10-12 20 !EPERM", "10-12"),
        ("rw 10-12; new 11-13 !EEXIST", "10-12"),
        // Attributes that come and go.
        ("rw 10-13; dontfork 11-12; dofork 11-12", "10-13"),
        ("rw 10-13; dontdump 11-12; dodump 11-12", "10-13"),
        ("rw 10-13; dontdump 11-12", "10-11 11-12 12-13"),
        ("rw 10-13; local 11-12", "10-11 11-12 12-13"),
        ("rw 10-13; local 11-12; default 11-12", "10-13"),
        ("rw 10-13; local 12-14 !EFAULT", "10-13"),
        ("rw 10-13; uffd 11-12; unuffd 11-12", "10-13"),
        ("rw 10-13; lock 11-12; unlock 11-12", "10-13"),
        ("rw 10-13; lock 11-14 !ENOMEM", "10-11 11-13"),
        ("rw 10-13; onfault 11-12; lock 12-13", "10-11 11-12 12-13"),
        ("rw 10-12; future; rw 12-14", "10-12 12-14"),
        ("gd 10-14; p-down 12-13", "10-13 13-14"),
        ("rw 10-14; p-down 12-13 !EINVAL", "10-14"),
        // Guards are sticky, and no reason to stay apart; but they count as a write.
        ("rw 10-12; guard 10-11; rw 12-14", "10-14"),
        ("rw 10-11; guard 10-11; rw 12-13; t 12-13; rw 11-12", "10-12 12-13"),
    ];
    for (script, expected) in cases {
        assert_eq!(areas(&run(script)), expected, "{script}");
    }
}

#[test]
fn flags_after_calls() {
    let cases = [
        ("rw 10-11", "rd wr mr mw me ac"),
        ("r 10-11", "rd mr mw me"),
        ("nr-rw 10-11", "rd wr mr mw me nr"),
        ("gd 10-11", "rd wr mr mw me gd ac"),
        ("stack 10-11", "rd wr mr mw me ac nh"),
        ("file 1 10-11 0", "rd sh mr mw me ms"),
        ("rw 10-11; onfault 10-11", "rd wr mr mw me lo lf ac"),
        ("future; rw 10-11", "rd wr mr mw me lo ac"),
        ("rw 10-11; lock 10-11; fork", "rd wr mr mw me ac"),
        ("rw 10-11; uffd 10-11", "rd wr mr mw me um ac"),
        ("rw 10-11; seal 10-11", "rd wr mr mw me ac sl"),
        ("rw 10-11; guard 10-11", "rd wr mr mw me gu ac"),
        ("rw 10-11; p-r 10-11", "rd mr mw me"),
        ("rw 10-11; t 10-11; p-r 10-11", "rd mr mw me ac"),
        ("rw 10-11; guard 10-11; p-r 10-11", "rd mr mw me gu ac"),
        ("rw 10-11; lock 10-11; keep 10-11 20", "rd wr mr mw me ac"),
        ("rw 10-12; rw 20-22; uffd 10-12; uffd 20-22; mv 10-12 18", "rd wr mr mw me ac"),
        // The emptied area is untouched, unless the copy has joined it: then it keeps the identity, and its charge.
        ("rw 10-11; t 10-11; keep 10-11 20; p-r 10-11", "rd mr mw me"),
        ("rw 10-12; rw 13-15; t 13-15; keep 10-12 12; p-r 10-15", "rd mr mw me ac"),
    ];
    for (script, expected) in cases {
        let space = run(script);
        let first = space.areas().next().expect("an area");
        assert_eq!(first.area.flags.letters().to_string(), expected, "{script}");
    }
}

#[test]
fn reasons_between_neighbours() {
    let cases = [
        ("rw 10-12; r 12-14", "protection+accounting"),
        ("r 10-12; none 12-14", "protection"),
        ("rw 10-12; nr-rw 12-14", "accounting"),
        ("rw 10-14; lock 12-14", "lock"),
        ("rw 10-14; seal 12-14", "seal"),
        ("rw 10-14; local 12-14", "policy"),
        ("rw 10-14; uffd 12-14", "uffd"),
        ("rw 10-14; dontdump 12-14", "flags"),
        ("file 1 10-12 0; file 1 12-14 3", "offset"),
        ("file 1 10-12 0; file 2 12-14 2", "backing"),
        ("rw 10-12; t 10-12; fork; rw 12-14", "anonymous-identity"),
        ("rw 10-12; rw 20-22; t 20-22; mv 20-22 12", "offset"),
        ("rw 10-14; r 14-16; seal 14-16; u 12-15 !EPERM", ""),
        ("rw 10-12; dev 12-14", "flags+backing+special"),
        ("dev 10-12; rw 12-14", "flags+backing+special"),
    ];
    for (script, expected) in cases {
        let space = run(script);
        let apart = space.why_not_merged(BASE + 12 * PAGE).map(|r| r.to_string());
        assert_eq!(apart.as_deref(), Some(expected), "{script}: {}", areas(&space));
    }
    assert_eq!(run("rw 10-12; rw 13-14").why_not_merged(BASE + 12 * PAGE), None, "nothing touches there");
    assert_eq!(run("rw 10-14").why_not_merged(BASE + 12 * PAGE), None, "one area");
}

#[test]
fn plans() {
    let cases = [
        ("", "rw 10-12", "mapped 10-12"),
        ("rw 10-12; rw 14-16", "rw 12-14", "mapped 12-14, merged at 12, merged at 14"),
        ("rw 10-16", "r 12-14", "split at 12, unmapped 12-14, mapped 12-14"),
        ("rw 10-12; r 12-14", "rwx 11-13", "unmapped 11-12, unmapped 12-13, mapped 11-13"),
        ("rw 10-12; r 12-14", "u 11-13", "unmapped 11-12, unmapped 12-13"),
        ("rw 10-14", "u 11-12", "split at 11, unmapped 11-12"),
        ("", "u 11-12", ""),
        ("rw 10-14", "p-r 11-12", "split at 11, split at 12, changed 11-12"),
        ("rw 8-10; r 10-14", "p-rw 10-12", "split at 12, changed 10-12, merged at 10"),
        ("rw 10-14", "p-rw 10-14", ""),
        ("rw 10-12", "mv 10-12 20", "mapped 20-22, moved 10-12, unmapped 10-12"),
        ("rw 10-12", "size 10-12 4", "mapped 12-14, merged at 12"),
        ("rw 10-14", "guard 11-12", "changed 10-14"),
        ("rw 10-14; guard 11-12", "guard 10-14", ""),
    ];
    for (before, call, expected) in cases {
        let mut space = run(before);
        let plan = one(&mut space, &call.split_whitespace().collect::<Vec<_>>()).expect(call);
        let page = |a: u64| (a - BASE) / PAGE;
        let step = |s: &Step| match s.kind {
            StepKind::Split => format!("split at {}", page(s.start)),
            StepKind::Merged => format!("merged at {}", page(s.start)),
            k => format!("{k:?} {}-{}", page(s.start), page(s.end)).to_lowercase(),
        };
        let told: Vec<String> = plan.iter().map(step).collect();
        assert_eq!(told.join(", "), expected, "{before}; then {call}");
    }
}

#[test]
fn at_the_limit_of_areas() {
    // The limit, a script, and the areas: one below it a range in the middle gets its first cut, and is refused the second.
    let cases = [
        (3, "rw 10-20; rw 30-31; p-r 12-14 !ENOMEM", "10-12 12-20 30-31"),
        (2, "rw 10-20; rw 30-31; p-r 12-14 !ENOMEM", "10-20 30-31"),
        (3, "rw 10-20; rw 30-31; dontdump 12-14 !EAGAIN", "10-12 12-20 30-31"),
        (2, "rw 10-20; rw 30-31; dontdump 12-14 !EAGAIN", "10-20 30-31"),
        (3, "rw 10-20; rw 30-31; lock 12-14 !ENOMEM", "10-12 12-20 30-31"),
        // A change at an end that joins its neighbour adds no area.
        (2, "rw 10-20; r 20-22; p-r 18-20", "10-18 18-22"),
        (2, "rw 10-20; r 20-22; p-r 10-12 !ENOMEM", "10-20 20-22"),
        (2, "rw 10-20; rw 30-31; u 12-14 !ENOMEM", "10-20 30-31"),
        (2, "rw 10-20; rw 30-31; u 12-20", "10-12 30-31"),
        (2, "rw 10-20; rw 30-31; rw 40-41; rw 50-51 !ENOMEM", "10-20 30-31 40-41"),
        // A move asks for room: six areas, four where the kernel picks the place.
        (7, "rw 10-12; rw 30-31; mv 10-12 20 !ENOMEM", "10-12 30-31"),
        (8, "rw 10-12; rw 30-31; mv 10-12 20", "20-22 30-31"),
        (5, "rw 10-12; rw 30-31; free 10-12 20 !ENOMEM", "10-12 30-31"),
        (6, "rw 10-12; rw 30-31; free 10-12 20", "20-22 30-31"),
    ];
    for (max_map_count, script, expected) in cases {
        let space = run_in(Config { max_map_count, ..Config::default() }, script);
        assert_eq!(areas(&space), expected, "limit {max_map_count}: {script}");
    }
}

#[test]
fn offsets() {
    const END: u64 = 1 << 63;
    let file = || FileId { dev: (8, 1), inode: 5, open: 1, name: Arc::from("/f") };
    let map = |start, offset, len, flags| {
        let mut space = run("rw 10-12");
        let request = MapRequest::file(start, len, Prot::READ, flags, file(), offset);
        space.map(&request).map(|_| ()).map_err(|e| e.errno)
    };
    let at = BASE + 20 * PAGE;
    let kind = MapFlags::SHARED;
    assert_eq!(map(at, END - 2 * PAGE, PAGE, kind), Ok(()));
    assert_eq!(map(at, END - 2 * PAGE, PAGE + 1, kind), Err(Errno::EOVERFLOW), "it would end at 2^63");
    assert_eq!(map(at, END - PAGE, 1, kind), Err(Errno::EOVERFLOW));
    assert_eq!(map(at, 0u64.wrapping_sub(PAGE), 2 * PAGE, kind), Err(Errno::EOVERFLOW));
    // What is looked at before, and what after.
    assert_eq!(map(at, END + 1, PAGE, kind), Err(Errno::EINVAL));
    assert_eq!(map(at + 1, END, PAGE, kind), Err(Errno::EINVAL));
    assert_eq!(map(at, END, 1 << 47, kind), Err(Errno::ENOMEM));
    assert_eq!(map(BASE + 10 * PAGE, END, PAGE, kind | MapFlags::FIXED_NOREPLACE), Err(Errno::EEXIST));
    assert_eq!(map(at, END, PAGE, MapFlags::from_bits_retain(0)), Err(Errno::EOVERFLOW), "before the type");
    assert_eq!(map(at, END, PAGE, kind | MapFlags::ANONYMOUS), Ok(()), "the hidden file has no offset");
}

#[test]
fn a_shrinking_move_from_a_range_that_leaves_user_space() {
    let mut space = run("rw 10-12");
    let mode = RemapMode::Fixed(BASE + 2 * PAGE);
    for old_len in [1 << 47, 1 << 62, 0u64.wrapping_sub(BASE + 20 * PAGE)] {
        let request = RemapRequest { old: BASE + 10 * PAGE, old_len, new_len: PAGE, mode, dontunmap: false };
        assert_eq!(space.remap(&request).map_err(|e| e.errno), Err(Errno::EINVAL), "{old_len:x}");
        assert_eq!(areas(&space), "10-12");
    }
}
