//! Programs whose threads make random calls on the same and on adjacent pages at the same time, and
//! the campaign that records many of them. The recorder may report unknown effects as unsure, but
//! never as a difference.

use std::path::Path;
use std::sync::{Arc, Barrier};
use std::time::Duration;

use libtest_mimic::Failed;
use samara_record::{Engine, Options, record};
use samara_trace::event::{Event, EventKind};

use crate::expect;
use crate::syscalls::*;

const PAGE: u64 = 4096;
/// Pages that all threads use, and pages of each thread's own behind them.
const SHARED_PAGES: u64 = 24;
const OWN_PAGES: u64 = 8;
const MOST_THREADS: u64 = 8;
/// Pages between the arena and the destination of moves.
const AWAY: u64 = SHARED_PAGES + MOST_THREADS * OWN_PAGES + 8;

/// Longest time without an act of any thread, in seconds. With the lowest priority beside busy
/// processes, half a minute was seen.
const PATIENCE_S: u64 = 240;

/// Actions of threads, one letter each.
pub(crate) const VERBS: &str = "mMzgupalkoLnNbBrRdfvwhsceqUV";

/// A sequence of numbers that look random (splitmix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// State that the threads of a program share.
#[derive(Clone, Copy)]
struct World {
    arena: u64,
    heap: u64,
    file: i32,
    segment: u64,
    /// Two userfaultfds; -1 where there is none.
    uffds: [i64; 2],
}

/// `racing SEED THREADS OPS VERBS [FILE]`: with FILE, it ends when that is there.
pub(crate) fn run(args: &[String]) {
    let number = |i: usize| args[i].parse::<u64>().unwrap();
    let (seed, threads, ops, verbs) = (number(0), number(1), number(2), args[3].clone());
    // A program that hangs is a fault too: the alarm ends it. A slow program is no fault, so each
    // act resets the alarm.
    let alarm = || call(libc::SYS_alarm, [PATIENCE_S, 0, 0, 0, 0, 0]);
    alarm();
    let arena = mmap(0, 4 * AWAY * PAGE, 0, ANON, -1, 0) as u64 + 16 * PAGE;
    let heap = call(libc::SYS_brk, [0; 6]) as u64 + 256 * PAGE;
    call(libc::SYS_brk, [heap, 0, 0, 0, 0, 0]);
    let segment =
        if verbs.contains('s') { call(libc::SYS_shmget, [0, 3 * PAGE, 0o1600, 0, 0, 0]) as u64 } else { u64::MAX };
    let uffds = ['U', 'V'].map(|verb| if verbs.contains(verb) { userfaultfd() } else { -1 });
    let served: Vec<i64> = uffds.into_iter().filter(|uffd| *uffd >= 0).collect();
    let world = World { arena, heap, file: memfd(64 * PAGE), segment, uffds };
    // Threads are made before anything changes: their stacks must not come to lie in the arena.
    let go = Arc::new(Barrier::new(threads as usize + served.len()));
    let start = |thread: u64| {
        let (verbs, go) = (verbs.clone(), go.clone());
        let mut numbers = Numbers(seed.wrapping_mul(1_000_003).wrapping_add(thread));
        std::thread::spawn(move || {
            go.wait();
            for _ in 0..ops {
                alarm();
                let verb = verbs.as_bytes()[numbers.below(verbs.len() as u64) as usize];
                act(&world, verb, thread, &mut numbers);
            }
        })
    };
    let workers: Vec<_> = (0..threads).map(start).collect();
    for uffd in served {
        let go = go.clone();
        std::thread::spawn(move || {
            go.wait();
            serve_faults(uffd as i32);
        });
    }
    let panics = workers.into_iter().filter_map(|w| w.join().err()).count();
    // A recorder that stops nothing can look at the areas only while the program lives.
    while args.get(4).is_some_and(|file| !Path::new(file).exists()) {
        alarm();
        std::thread::sleep(Duration::from_millis(10));
    }
    call(libc::SYS_shmctl, [world.segment, libc::IPC_RMID as u64, 0, 0, 0, 0]);
    exit(if panics == 0 { 0 } else { 8 });
}

/// One call, or two that belong together.
fn act(w: &World, verb: u8, thread: u64, numbers: &mut Numbers) {
    // Two of three on pages that all use, the others on the thread's own.
    let (first, pages) = match numbers.below(3) {
        0 => (SHARED_PAGES + thread * OWN_PAGES, OWN_PAGES),
        _ => (0, SHARED_PAGES),
    };
    let page = first + numbers.below(pages);
    let (at, len) = (w.arena + page * PAGE, (1 + numbers.below(6)) * PAGE);
    let prot = [0, R, RW, R | libc::PROT_EXEC][numbers.below(4) as usize];
    let pick = numbers.below(4);
    let away = w.arena + (AWAY + numbers.below(SHARED_PAGES)) * PAGE;
    let advise = |advice: i32| call(libc::SYS_madvise, [at, len, advice as u64, 0, 0, 0]);
    let populate = libc::MAP_POPULATE;
    match verb {
        b'm' => drop(mmap(at, len, prot, FIXED, -1, 0)),
        b'M' => drop(mmap(at, len, prot, FIXED | populate, -1, 0)),
        b'z' | b'g' => {
            let place = mmap(0, len, RW, if verb == b'z' { ANON | populate } else { ANON }, -1, 0);
            // The call left its place open, so EEXIST is wrong.
            if place == -i64::from(libc::EEXIST) {
                eprintln!("racing: mmap left its place open and got EEXIST");
                exit(9);
            }
            if pick > 0 && place > 0 {
                munmap(place as u64, len);
            }
        }
        b'u' => drop(munmap(at, len)),
        b'p' => drop(mprotect(at, len, prot)),
        b'a' => drop(advise(
            [libc::MADV_DONTFORK, libc::MADV_DOFORK, libc::MADV_SEQUENTIAL, libc::MADV_NORMAL][pick as usize],
        )),
        b'l' => drop(call(libc::SYS_mlock, [at, len, 0, 0, 0, 0])),
        b'o' => drop(call(libc::SYS_mlock2, [at, len, libc::MLOCK_ONFAULT as u64, 0, 0, 0])),
        b'L' => drop(call(libc::SYS_munlock, [at, len, 0, 0, 0, 0])),
        b'n' | b'N' => {
            let mask = 1u64;
            let (mode, mask) =
                [(0, 0), (2, &raw const mask as u64), (1, &raw const mask as u64), (4, 0)][pick as usize];
            let flags = if verb == b'N' { 2 } else { 0 }; // MPOL_MF_MOVE
            call(libc::SYS_mbind, [at, len, mode, mask, if mask == 0 { 0 } else { 2 }, flags]);
        }
        b'b' => drop(call(libc::SYS_brk, [w.heap + numbers.below(8) * PAGE, 0, 0, 0, 0, 0])),
        b'B' if pick == 0 => drop(call(libc::SYS_brk, [0; 6])),
        b'B' => drop(call(libc::SYS_brk, [w.heap + numbers.below(8 * PAGE), 0, 0, 0, 0, 0])),
        b'r' => drop(mremap(at, len, len, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, away)),
        b'R' => drop(mremap(at, len, len + pick * PAGE, libc::MREMAP_MAYMOVE, 0)),
        b'd' => drop(mremap(at, len, len, libc::MREMAP_MAYMOVE | libc::MREMAP_DONTUNMAP | libc::MREMAP_FIXED, away)),
        b'f' => drop(mmap(
            at,
            len,
            prot & RW,
            if pick < 2 { libc::MAP_SHARED } else { libc::MAP_PRIVATE } | libc::MAP_FIXED,
            w.file,
            page * PAGE,
        )),
        b'v' => {
            let name = c"racing";
            let name = if pick < 2 { name.as_ptr() as u64 } else { 0 };
            call(libc::SYS_prctl, [0x5356_4d41, 0, at, len, name, 0]);
        }
        b'w' => drop(advise(if pick == 0 { libc::MADV_POPULATE_READ } else { libc::MADV_POPULATE_WRITE })),
        b'h' => drop(advise(if pick < 2 { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE })),
        b's' if pick < 3 => drop(call(libc::SYS_shmat, [w.segment, at, libc::SHM_REMAP as u64, 0, 0, 0])),
        b's' => drop(call(libc::SYS_shmdt, [at, 0, 0, 0, 0, 0])),
        b'k' if pick == 0 => {
            let child = fork();
            if child == 0 {
                mprotect(at, PAGE, R);
                mprotect(at, PAGE, RW);
                exit(0);
            }
            wait(child, 0);
        }
        b'k' => {}
        b'U' | b'V' if w.uffds[usize::from(verb == b'V')] >= 0 => {
            let uffd = w.uffds[usize::from(verb == b'V')] as u64;
            // struct uffdio_register, or the range at its beginning.
            let arg = [at, len, [1, 2, 3, 1][pick as usize], 0];
            let request: u64 = if numbers.below(2) == 0 { 0xc020_aa00 } else { 0x8010_aa01 };
            call(libc::SYS_ioctl, [uffd, request, arg.as_ptr() as u64, 0, 0, 0]);
        }
        b'c' => {
            let spans = [at, len, w.arena + numbers.below(SHARED_PAGES) * PAGE, PAGE];
            let pidfd = call(libc::SYS_pidfd_open, [pid() as u64, 0, 0, 0, 0, 0]);
            let advice = if pick < 2 { libc::MADV_COLD } else { libc::MADV_WILLNEED };
            call(libc::SYS_process_madvise, [pidfd as u64, spans.as_ptr() as u64, 2, advice as u64, 0, 0]);
            call(libc::SYS_close, [pidfd as u64, 0, 0, 0, 0, 0]);
        }
        b'q' if pick == 0 => drop(call(libc::SYS_mlockall, [1 + numbers.below(3), 0, 0, 0, 0, 0])),
        b'q' if pick == 1 => drop(call(libc::SYS_munlockall, [0; 6])),
        b'e' => drop(call(libc::SYS_remap_file_pages, [at, len, 0, numbers.below(16), 0, 0])),
        _ => {}
    }
}

/// A userfaultfd that is ready; -1 where there is none.
fn userfaultfd() -> i64 {
    let fd = call(libc::SYS_userfaultfd, [libc::O_CLOEXEC as u64, 0, 0, 0, 0, 0]);
    let api = [0xaau64, 0, 0]; // UFFD_API, no features
    if fd >= 0 && call(libc::SYS_ioctl, [fd as u64, 0xc018_aa3f, api.as_ptr() as u64, 0, 0, 0]) == 0 { fd } else { -1 }
}

/// Resolves every fault by a page of zeros, or by removing the write protection.
fn serve_faults(uffd: i32) {
    loop {
        let mut message = [0u64; 4];
        let got = call(libc::SYS_read, [uffd as u64, message.as_mut_ptr() as u64, 32, 0, 0, 0]);
        if got != 32 {
            return;
        }
        let at = message[2] & !(PAGE - 1);
        let zero = [at, PAGE, 0, 0];
        call(libc::SYS_ioctl, [uffd as u64, 0xc020_aa04, zero.as_ptr() as u64, 0, 0, 0]);
        let open = [at, PAGE, 0];
        call(libc::SYS_ioctl, [uffd as u64, 0xc018_aa06, open.as_ptr() as u64, 0, 0, 0]); // no write protection
        let wake = [at, PAGE];
        call(libc::SYS_ioctl, [uffd as u64, 0x8010_aa02, wake.as_ptr() as u64, 0, 0, 0]);
    }
}

/// Calls that touch no other one: before threads race, while they wait, during the race on pages of
/// its own, and after. Each is made by `pkey_mprotect`, and no other call is.
pub(crate) fn lonely() {
    const ROUNDS: u64 = 6;
    let lone = |page: u64, prot: i32| {
        let at = page * PAGE;
        let result = call(libc::SYS_pkey_mprotect, [at, PAGE, prot as u64, u64::MAX, 0, 0]);
        assert!(result == 0 || result == -i64::from(libc::ENOSYS), "pkey_mprotect: {result}");
        if result != 0 {
            exit(7);
        }
    };
    let arena = mmap(0, 4 * AWAY * PAGE, 0, ANON, -1, 0) as u64 + 16 * PAGE;
    let own = mmap(0, 64 * PAGE, RW, ANON, -1, 0) as u64 / PAGE + 32;
    let world = World { arena, heap: 0, file: -1, segment: 0, uffds: [-1; 2] };
    let meet = Arc::new(Barrier::new(5));
    let start = |thread: u64| {
        let meet = meet.clone();
        std::thread::spawn(move || {
            let mut numbers = Numbers(thread);
            for _ in 0..ROUNDS {
                meet.wait();
                (0..30).for_each(|i| act(&world, b"lpMLnm"[i % 6], thread, &mut numbers));
                meet.wait();
                meet.wait();
            }
        })
    };
    let workers: Vec<_> = (0..4).map(start).collect();
    lone(own, R);
    for round in 0..ROUNDS {
        meet.wait();
        // At the same time as the others, and on none of their pages.
        lone(own, if round % 2 == 0 { RW } else { R });
        meet.wait();
        // While they wait, on a page that they raced for, made anew.
        mmap(arena, PAGE, RW, FIXED, -1, 0);
        lone(arena / PAGE, 0);
        meet.wait();
    }
    workers.into_iter().for_each(|w| drop(w.join()));
    lone(own, libc::PROT_NONE);
    exit(0);
}

/// An error of the model is a difference if no other call touched the range in the kernel, also
/// while other calls overlapped.
pub(crate) fn faults_are_found() -> Result<(), Failed> {
    for charge in [false, true] {
        let mut options = Options::new(std::env::current_exe()?).args(["--program", "lonely"]);
        options.engine = charge.then(Engine::default);
        let forgotten = libc::SYS_pkey_mprotect as u32;
        options.forgets = Some(forgotten);
        let mut events: Vec<Event> = Vec::new();
        let outcome = record(&options, &mut events)?;
        if outcome.status.code() == Some(7) {
            println!("skipped: faults_are_found: this kernel has no pkey_mprotect");
            return Ok(());
        }
        expect(&format!("{}", outcome.status), outcome.status.code() == Some(0))?;
        let lone: Vec<&Event> = events.iter().filter(|e| e.nr == Some(forgotten)).collect();
        let unsure = lone.iter().filter(|e| e.text == samara_trace::event::UNSURE).count();
        let found = outcome.counters.differences;
        expect(
            &format!("{} calls, {unsure} unsure, {found} differences", lone.len()),
            unsure == 0 && found == lone.len() as u64,
        )?;
        expect("as many as were made", lone.len() == 14)?;
        expect("some were concurrent with others", charge || lone.iter().any(|e| e.overlapped))?;
    }
    Ok(())
}

pub(crate) fn from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Results of a campaign.
#[derive(Default)]
struct Found {
    calls: usize,
    overlapped: usize,
    unsure: u64,
}

/// Records one racing program. False: it has differences, unsure calls that overlapped none, or did
/// not come to its end.
fn race(args: &[String], charge: bool, patience: Option<u64>, found: &mut Found) -> Result<bool, Failed> {
    let mut options = Options::new(std::env::current_exe()?).args(["--program", "racing"]).args(args);
    options.engine = charge.then(Engine::default);
    options.patience = patience;
    let mut events: Vec<Event> = Vec::new();
    let outcome = record(&options, &mut events)?;
    found.calls += events.iter().filter(|e| e.kind == EventKind::Call).count();
    found.overlapped += events.iter().filter(|e| e.overlapped).count();
    found.unsure += outcome.counters.unsure;
    let wrong = |e: &&Event| e.kind == EventKind::Difference || (e.kind == EventKind::Checked && e.result != 0);
    let what: Vec<&str> = events.iter().filter(wrong).map(|e| &*e.text).collect();
    let lonely = events.iter().any(|e| e.text == samara_trace::event::UNSURE && !e.overlapped);
    let good = what.is_empty() && outcome.status.code() == Some(0) && !lonely;
    if !good {
        let how = if charge { "decided" } else { "recorded" };
        let waits = patience.map_or("", |_| ", all calls overlapped");
        // The events around it, without which a fault that is rare cannot be understood.
        let end = events.iter().position(|e| wrong(&e)).map_or(events.len(), |first| first + 1);
        events[end.saturating_sub(60)..end].iter().for_each(print);
        println!("{how}{waits} {args:?} {}: {} differences: {:?}", outcome.status, what.len(), what.first());
    }
    Ok(good)
}

pub(crate) fn print(e: &Event) {
    let overlapped = if e.overlapped { ", overlapped" } else { "" };
    println!("  {} {:?} of {}: {:?}{:x?} = {:x}{overlapped} {}", e.seq, e.kind, e.tid, e.nr, e.args, e.result, e.text);
    println!("    from {} to {} ns", e.entry_ns, e.exit_ns);
    e.plan.iter().for_each(|s| println!("    {:?} {:x}-{:x}", s.kind, s.start, s.end));
    e.areas.iter().for_each(|a| println!("    area {:x}-{:x} {:x} {}", a.start, a.end, a.perms, a.apart));
}

/// Threads that map memory anywhere and unmap it: the place that the engine chose for one may be
/// taken by another one at that moment, and free when the engine looks. No program sees that.
pub(crate) fn places_are_taken_for_a_moment() -> Result<(), Failed> {
    for args in ["7 6 60 g", "9 4 60 zg"] {
        let args: Vec<String> = args.split_whitespace().map(String::from).collect();
        let good = race(&args, true, Some(0), &mut Found::default())?;
        expect(&format!("{args:?}"), good)?;
    }
    Ok(())
}

/// The I-th random program of a campaign: SEED, THREADS, OPS and VERBS.
pub(crate) fn random_program(seed: u64, i: u64, verbs: &str) -> [String; 4] {
    let mut numbers = Numbers(seed.wrapping_add(i << 32));
    let threads = 2 + numbers.below(MOST_THREADS - 1);
    let ops = 20 + numbers.below(100);
    let all: Vec<char> = verbs.chars().collect();
    let verbs: String = (0..1 + numbers.below(7)).map(|_| all[numbers.below(all.len() as u64) as usize]).collect();
    [(seed + i).to_string(), threads.to_string(), ops.to_string(), verbs]
}

/// Random programs, each recorded with and without the engine in charge. `SAMARA_RACES_ARGS`: one
/// program instead, time and again.
pub(crate) fn races() -> Result<(), Failed> {
    let seed = from_environment("SAMARA_SEED", 1);
    let programs = from_environment("SAMARA_RACES", 12);
    println!("races: SAMARA_SEED={seed} SAMARA_RACES={programs}");
    let only = std::env::var("SAMARA_RACES_VERBS").ok();
    let one: Option<Vec<String>> =
        std::env::var("SAMARA_RACES_ARGS").ok().map(|args| args.split_whitespace().map(String::from).collect());
    let (mut found, mut failed) = (Found::default(), Vec::new());
    for i in 0..programs {
        let random = random_program(seed, i, only.as_deref().unwrap_or(VERBS));
        let args = one.as_deref().unwrap_or(&random);
        // Also as on a machine that is so busy that no call waits for another one.
        for (charge, patience) in [(false, None), (true, None), (false, Some(0)), (true, Some(0))] {
            if !race(args, charge, patience, &mut found)? {
                failed.push(i);
            }
        }
    }
    println!(
        "races: {programs} programs four times, {} calls, {} overlapped, {} unsure, {} with differences",
        found.calls,
        found.overlapped,
        found.unsure,
        failed.len()
    );
    expect("calls overlapped", found.overlapped > 0)?;
    expect(&format!("programs {failed:?} have differences, or unsure calls that overlapped none"), failed.is_empty())
}
