use super::*;
use crate::event::Step;
use crate::survey::tests::anonymous;

const PAGE: u64 = 4096;

/// A program, then calls that map (9) or unmap (11) pages, each from another place, and its end by
/// a fault at an address.
fn trace(calls: &[(u64, u64, bool)], address: u64) -> Vec<Event> {
    let blank = |seq: u64, kind| Event { space: 1, pid: 7, tid: 7, exit_ns: seq * 1000, ..Event::new(seq, kind) };
    let mut events = vec![Event { window: Some((0, u64::MAX)), ..blank(0, EventKind::Exec) }];
    let mut live: Vec<(u64, u64)> = Vec::new();
    for (i, (start, end, maps)) in calls.iter().enumerate() {
        let (start, end) = (start * PAGE, end * PAGE);
        let gone = live.iter().map(|(s, e)| (*s.max(&start), *e.min(&end))).filter(|(s, e)| s < e);
        let mut plan: Vec<Step> = gone.map(|(start, end)| Step { kind: StepKind::Unmapped, start, end }).collect();
        if *maps {
            plan.push(Step { kind: StepKind::Mapped, start, end });
            live.push((start, end));
        }
        let areas = if *maps { vec![anonymous(start / PAGE, (end - start) / PAGE, 3)] } else { Vec::new() };
        let nr = Some(if *maps { 9 } else { 11 });
        // Other flags: a call of another place.
        let args = [start, end - start, 3, 0x22 + i as u64, 0, 0];
        let window = Some((start, end));
        events.push(Event { nr, args, plan, window, areas, ..blank(i as u64 + 1, EventKind::Call) });
    }
    let seq = events.len() as u64;
    events.push(Event { result: 11, args: [address, 1, 0, 0, 0, 0], ..blank(seq, EventKind::Exit) });
    events
}

/// A call on pages from..to.
#[derive(Clone, Copy)]
enum Does {
    /// Maps them, with this access and these flags.
    Maps(u8, u64),
    /// Maps a file so long.
    MapsFile,
    Unmaps,
    /// Moves them to this page.
    Moves(u64),
    Protects(u8),
    Advises(u64),
}

/// A program that makes these calls, each from another place, and ends by a fault.
fn program(calls: &[(u64, u64, Does)], fault: Event) -> (Crash, Before) {
    let blank = |seq: u64, kind| Event { space: 1, pid: 7, tid: 7, exit_ns: seq * 1000, ..Event::new(seq, kind) };
    let mut events = vec![Event { window: Some((0, u64::MAX)), ..blank(0, EventKind::Exec) }];
    let mut replay = Replay::default();
    replay.apply(&events[0]).unwrap();
    for (i, (first, end, does)) in (1..).zip(calls) {
        let (first, end) = (*first, *end);
        let range = (first * PAGE, end * PAGE);
        let step = |kind| Step { kind, start: range.0, end: range.1 };
        let now = replay.space(1).unwrap();
        let mapped = now.between(range.0, range.1).next().is_some();
        let gone = mapped.then_some(step(StepKind::Unmapped));
        let area = |perms| anonymous(first, end - first, perms);
        let file = || AreaRecord { inode: 9, name: "/tmp/x".into(), ..area(3) };
        let (nr, plan, areas) = match does {
            Does::Maps(perms, _) => (9, [gone, Some(step(StepKind::Mapped))], vec![area(*perms)]),
            Does::MapsFile => (9, [gone, Some(step(StepKind::Mapped))], vec![file()]),
            Does::Unmaps => (11, [gone, None], Vec::new()),
            Does::Moves(_) => (25, [Some(step(StepKind::Moved)), gone], Vec::new()),
            Does::Protects(perms) => {
                (10, [Some(step(StepKind::Changed(Default::default()))), None], vec![area(*perms)])
            }
            Does::Advises(_) => (28, [None, None], Vec::new()),
        };
        let mut plan: Vec<Step> = plan.into_iter().flatten().collect();
        let (mut areas, mut window) = (areas, range);
        if let Does::Moves(to) = does {
            let (start, end) = (to * PAGE, to * PAGE + range.1 - range.0);
            plan.insert(0, Step { kind: StepKind::Mapped, start, end });
            areas.push(anonymous(*to, (end - start) / PAGE, 3));
            window = (range.0.min(start), range.1.max(end));
        }
        let word = match does {
            Does::Maps(_, flags) => [3, *flags],
            Does::Advises(advice) => [*advice, 0],
            _ => [0, 0],
        };
        let args = [range.0, range.1 - range.0, word[0], word[1], 0, 0];
        let window = Some(window).filter(|_| !plan.is_empty());
        let call =
            Event { nr: Some(nr), args, plan, window, areas, stack: Some(i as u32), ..blank(i, EventKind::Call) };
        replay.apply(&call).unwrap();
        events.push(call);
    }
    let seq = events.len() as u64;
    let end = Event { result: if fault.result == 0 { 11 } else { fault.result }, ..fault };
    let end = Event { seq, kind: EventKind::Exit, exit_ns: seq * 1000, space: 1, pid: 7, tid: 7, ..end };
    let crash = Crash::of(&end, &replay).unwrap();
    let before = crash.before(events.into_iter());
    (crash, before)
}

/// A fault at a page, with the stack pointer far away.
fn at(page: u64) -> Event {
    Event { args: [page * PAGE + 8, 2, 11, 1 << 40, 0, 0], ..Event::new(0, EventKind::Exit) }
}

type Cause = (Option<(Forbids, Option<u64>)>, Option<(u64, bool, bool)>);

/// What forbids the access, with the event of the call that did; and the event that took memory
/// away, with whether it replaced and moved it.
fn cause(calls: &[(u64, u64, Does)], fault: Event) -> Cause {
    let (_, before) = program(calls, fault);
    let forbidden = before.forbidden.map(|why| (why.how, why.by.map(|by| by.seq)));
    (forbidden, before.lost.map(|lost| (lost.seq, lost.replaced, lost.moved)))
}

const RW: Does = Does::Maps(3, 0x22);

#[test]
fn the_last_thing_that_happened_to_the_page_is_the_cause() {
    use Does::*;
    let hidden = (Some((Forbids::NoAccess, Some(4))), None);
    assert_eq!(cause(&[(100, 164, RW), (100, 164, Unmaps), (100, 164, RW), (100, 164, Protects(0))], at(101)), hidden);
    // Its own memory at a place where the loader's was.
    assert_eq!(cause(&[(100, 104, RW), (100, 104, Unmaps), (101, 104, Maps(1, 0x22))], at(101)).1, None);
    let mapped_so = (Some((Forbids::NoWriting, None)), None);
    assert_eq!(cause(&[(100, 164, RW), (100, 164, Unmaps), (100, 164, Maps(1, 0x22))], at(101)), mapped_so);
    let reserved = [(100, 164, RW), (100, 164, Unmaps), (100, 164, Maps(0, 0x22)), (100, 132, Protects(3))];
    assert_eq!(cause(&reserved, at(132)), (Some((Forbids::NoAccess, None)), None));
    assert_eq!(cause(&[(100, 116, RW), (100, 116, Protects(1))], at(105)).0, Some((Forbids::NoWriting, Some(2))));
    // Memory that replaced other memory forbids the access: both are reported.
    let replaced = (Some((Forbids::NoWriting, None)), Some((2, true, false)));
    assert_eq!(cause(&[(100, 116, RW), (100, 104, Maps(1, 0x32))], at(101)), replaced);
    let hidden = [(100, 116, RW), (100, 104, Maps(3, 0x32)), (100, 104, Protects(0))];
    assert_eq!(cause(&hidden, at(101)), (Some((Forbids::NoAccess, Some(3))), None));
    // Memory in its area was replaced; not in the area that is there now.
    let in_area = [(100, 116, RW), (110, 112, Maps(3, 0x32)), (100, 116, Unmaps), (100, 116, RW)];
    assert_eq!(cause(&in_area, at(101)), (None, None));
    // Gone, and gone again.
    let gone = [(100, 116, RW), (100, 116, Unmaps), (100, 116, RW), (100, 116, Unmaps)];
    assert_eq!(cause(&gone, at(105)), (None, Some((4, false, false))));
    assert_eq!(cause(&[(100, 116, RW), (100, 116, Moves(300))], at(105)), (None, Some((2, false, true))));
}

#[test]
fn guards_stacks_files_and_code() {
    use Does::*;
    let (guard, no_guard) = ((101, 102, Advises(102)), (101, 102, Advises(103)));
    assert_eq!(cause(&[(100, 104, RW), guard], at(101)), (Some((Forbids::Guard, Some(2))), None));
    assert_eq!(cause(&[(100, 104, RW), guard], at(102)), (None, None));
    assert_eq!(cause(&[(100, 104, RW), guard, no_guard], at(101)), (None, None));
    // A stack that is recognised by its flag, with a guard of either kind; one that is recognised
    // by the stack pointer.
    let earlier = [(90, 150, RW), (90, 150, Unmaps)];
    let stack = |last: Does| [earlier.as_slice(), &[(100, 140, Maps(0, 0x2_0022)), (101, 140, last)]].concat();
    assert_eq!(cause(&stack(Protects(3)), at(100)), (Some((Forbids::StackGuard, None)), None));
    let advised = [(100, 140, Maps(3, 0x2_0022)), (100, 101, Advises(102))];
    assert_eq!(cause(&advised, at(100)).0, Some((Forbids::StackGuard, None)));
    let near = |page: u64, sp: u64| Event { args: [page * PAGE + 8, 2, 11, sp, 0, 0], ..at(page) };
    let unmarked = [(100, 140, Maps(0, 0x22)), (101, 140, Protects(3))];
    assert_eq!(cause(&unmarked, near(100, 100 * PAGE + 16)).0, Some((Forbids::StackGuard, None)));
    assert_eq!(cause(&unmarked, near(100, 139 * PAGE)).0, Some((Forbids::NoAccess, None)));
    // A file's end; not for memory without a file.
    let bus = |page| Event { args: [page * PAGE, 2, 7, 0, 0, 0], result: 7, ..at(page) };
    assert_eq!(
        cause(&[earlier[0], earlier[1], (100, 140, MapsFile)], bus(130)),
        (Some((Forbids::FileEnd, None)), None)
    );
    assert_eq!(cause(&[(100, 140, RW)], bus(130)), (None, None));
    // Code that may not be executed: the instruction is the address.
    let code = Event { ip: Some(105 * PAGE + 8), ..at(105) };
    assert_eq!(cause(&[(100, 140, RW)], code).0, Some((Forbids::NoExecuting, None)));
    let key = Event { args: [105 * PAGE, 4, 11, 0, 0, 0], ..at(105) };
    assert_eq!(cause(&[(100, 140, RW)], key).0, Some((Forbids::ProtectionKey, None)));
}

#[test]
fn the_first_stack_may_not_grow() {
    let blank = |seq: u64, kind| Event { space: 1, pid: 7, tid: 7, ..Event::new(seq, kind) };
    let stack = AreaRecord { name: "[stack]".into(), ..anonymous(1000, 64, 3) };
    let start = Event { window: Some((0, u64::MAX)), areas: vec![stack], ..blank(0, EventKind::Exec) };
    let mut replay = Replay::default();
    replay.apply(&start).unwrap();
    let forbidden = |address: u64, sp: u64| {
        let end = Event { result: 11, args: [address, 1, 11, sp, 0, 0], ..blank(1, EventKind::Exit) };
        let before = Crash::of(&end, &replay).unwrap().before(std::iter::once(start.clone()));
        before.forbidden.map(|why| why.how)
    };
    assert_eq!(forbidden(999 * PAGE, 0), Some(Forbids::StackEnd));
    assert_eq!(forbidden(600 * PAGE, 600 * PAGE + 64), Some(Forbids::StackEnd));
    assert_eq!(forbidden(600 * PAGE, 1010 * PAGE), None);
    assert_eq!(forbidden(0, 1010 * PAGE), None);
}

/// A handler that ends its process by another signal, or the same one.
#[test]
fn a_handler_that_ends_the_process() {
    let aborted = Event { result: 6, ..at(105) };
    let (crash, before) = program(&[(100, 116, RW), (100, 116, Does::Unmaps)], aborted);
    assert_eq!((crash.signal, crash.ended_by, before.lost.map(|lost| lost.seq)), (11, 6, Some(2)));
    // A trace without the fault's signal.
    let older = Event { args: [PAGE, 1, 0, 0, 0, 0], result: 7, ..at(1) };
    let (crash, _) = program(&[], older);
    assert_eq!((crash.signal, crash.ended_by), (7, 7));
}

/// The area that holds the address; where lost memory was, the event, and whether it was replaced.
type Found = (Option<(u64, u64)>, Option<(Near, u64, bool)>);

/// The crash, and the call that took memory away before it.
fn found(calls: &[(u64, u64, bool)], address: u64) -> Found {
    let events = trace(calls, address);
    let mut replay = Replay::default();
    let (end, rest) = events.split_last().unwrap();
    rest.iter().for_each(|event| replay.apply(event).unwrap());
    let crash = Crash::of(end, &replay).unwrap();
    assert_eq!((crash.pid, crash.space, crash.signal, crash.address), (7, 1, 11, address));
    let lost = crash.before(events.iter().cloned()).lost;
    (crash.area.as_ref().map(|a| (a.start, a.end)), lost.map(|lost| (lost.near, lost.seq, lost.replaced)))
}

#[test]
fn the_call_that_took_the_memory_away_is_found() {
    let (maps, unmaps) = (true, false);
    let pages = |start: u64, end: u64| Some((start * PAGE, end * PAGE));
    // Mapped over, at the address; and in its area.
    let over = [(100, 164, maps), (92, 108, maps)];
    assert_eq!(found(&over, 100 * PAGE + 8), (pages(92, 108), Some((Near::There, 2, true))));
    assert_eq!(found(&over, 93 * PAGE), (pages(92, 108), Some((Near::InArea, 2, true))));
    assert_eq!(found(&over, 120 * PAGE), (pages(108, 164), None), "what is left of it");
    // Unmapped, and used.
    let unmapped = [(100, 164, maps), (110, 120, unmaps)];
    assert_eq!(found(&unmapped, 111 * PAGE), (None, Some((Near::There, 2, false))));
    assert_eq!(found(&unmapped, 121 * PAGE), (pages(120, 164), None));
    // A null pointer that was read from replaced memory.
    assert_eq!(found(&over, 0), (None, Some((Near::Elsewhere, 2, true))));
    assert_eq!(found(&unmapped, 0), (None, None), "a part that was unmapped holds no null pointers");
    // Mapped over within the memory, as allocators do.
    assert_eq!(found(&[(100, 164, maps), (110, 120, maps)], 0), (None, None));
    // A child has the memory of its parent.
    let mut events = trace(&over, 0);
    let end = events.pop().unwrap();
    let areas = vec![anonymous(92, 16, 3), anonymous(108, 56, 3)];
    let fork = Event { kind: EventKind::Fork, args: [1, 0, 0, 0, 0, 0], space: 2, pid: 8, ..end.clone() };
    events.push(Event { window: Some((0, u64::MAX)), areas, ..fork });
    let end = Event { pid: 8, space: 2, seq: 4, args: [100 * PAGE, 1, 0, 0, 0, 0], ..end };
    let mut replay = Replay::default();
    events.iter().for_each(|event| replay.apply(event).unwrap());
    let lost = Crash::of(&end, &replay).unwrap().before(events.into_iter()).lost.unwrap();
    assert_eq!((lost.near, lost.seq, lost.range), (Near::There, 2, (100 * PAGE, 108 * PAGE)));
}
