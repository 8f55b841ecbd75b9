use super::*;
use crate::event::Step;
use crate::survey::tests::anonymous;

const PAGE: u64 = 4096;

/// A program, then calls that map (9) or unmap (11) pages, each from a place of its own, and its
/// end by a fault at an address.
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
    let lost = crash.before(events.iter().cloned());
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
    // A null pointer that was read where memory is another one now.
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
    let lost = Crash::of(&end, &replay).unwrap().before(events.into_iter()).unwrap();
    assert_eq!((lost.near, lost.seq, lost.range), (Near::There, 2, (100 * PAGE, 108 * PAGE)));
}
