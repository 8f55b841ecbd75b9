//! Tests: records after the end of their task, numbers of areas, and forks and losses that could
//! mix up spaces.

use samara_trace::event::Event;

use super::*;

/// No task has this number.
const GONE: Tid = Tid::MAX;

fn record(time: u64, what: What) -> Record {
    Record { time, pid: GONE, tid: GONE, event: 0, what }
}

/// On Linux 6.1 the last section of a task comes after its end.
#[test]
fn a_section_after_the_end_does_not_bring_a_process_back() {
    let mut events = Vec::new();
    let mut tasks = Tasks::new(GONE, true, Journal::new(&mut events, 0));
    tasks.add_process(GONE, &[(GONE, 0)], false, 0);
    for (time, what) in
        [(1, What::Ended), (2, What::Lock { mm: 9, areas: None }), (3, What::Unlock { mm: 9, areas: None })]
    {
        tasks.take(record(time, what), 0);
        assert!(!tasks.is_followed());
    }
}

/// The same for a thread whose process has another one.
#[test]
fn a_section_after_the_end_of_a_thread_does_not_keep_its_process() {
    let own = std::process::id() as Tid;
    let mut events = Vec::new();
    let mut tasks = Tasks::new(own, true, Journal::new(&mut events, 0));
    tasks.add_process(own, &[(own, 0), (GONE, 0)], false, 0);
    for (time, what) in
        [(1, What::Ended), (2, What::Lock { mm: 9, areas: None }), (3, What::Unlock { mm: 9, areas: None })]
    {
        tasks.take(Record { pid: own, ..record(time, what) }, 0);
    }
    tasks.take(Record { time: 4, pid: own, tid: own, event: 0, what: What::Ended }, 0);
    assert!(!tasks.is_followed());
}

/// The tasks of an already running process of one thread.
fn running(pid: Tid, events: &mut Vec<Event>) -> Tasks<'_> {
    let mut tasks = Tasks::new(pid, true, Journal::new(events, 0));
    tasks.add_process(pid, &[(pid, 0)], true, 0);
    tasks
}

/// A section with the numbers of areas at its ends. Returns the total of uncounted sections.
fn section(tasks: &mut Tasks<'_>, time: u64, before: u32, after: u32) -> u64 {
    let own = std::process::id() as Tid;
    for (time, what) in
        [(time, What::Lock { mm: 9, areas: Some(before) }), (time + 1, What::Unlock { mm: 9, areas: Some(after) })]
    {
        tasks.take(Record { time, pid: own, tid: own, event: 0, what }, 0);
    }
    tasks.seen.uncounted
}

/// NOSTOP-COUNT-1: a section begins with the number of areas that the section before left.
#[test]
fn a_change_outside_of_sections_is_counted() {
    let own = std::process::id() as Tid;
    let mut events = Vec::new();
    let mut tasks = running(own, &mut events);
    assert_eq!(
        [
            section(&mut tasks, 1, 7, 8),
            section(&mut tasks, 3, 8, 6),
            section(&mut tasks, 5, 7, 7),
            section(&mut tasks, 7, 7, 7)
        ],
        [0, 0, 1, 1]
    );
    assert!(tasks.places.values().all(|place| place.doubt.is_some()));
    // Lost events are a cause. The time of a loss is before that of the lost events.
    tasks.doubt_all(9);
    assert_eq!([section(&mut tasks, 10, 7, 7), section(&mut tasks, 12, 9, 9)], [1, 1]);
}

fn feed(tasks: &mut Tasks<'_>, time: u64, id: Tid, what: What) {
    tasks.take(Record { time, pid: id, tid: id, event: 0, what }, 0);
}

const CHILD: Tid = 4_000_000;
const LOCK: fn(u64) -> What = |mm| What::Lock { mm, areas: Some(7) };
const UNLOCK: fn(u64) -> What = |mm| What::Unlock { mm, areas: Some(7) };

/// The spaces of the process and of its child, each with its kernel address.
fn spaces(tasks: &Tasks<'_>, own: Tid) -> [(SpaceId, Option<u64>); 2] {
    [own, CHILD].map(|pid| {
        let id = tasks.processes[&pid].place.unwrap();
        (id, tasks.places[&id].address)
    })
}

/// Events lost within a fork do not mix up two spaces.
#[test]
fn a_loss_within_a_fork_leaves_each_its_space() {
    let own = std::process::id() as Tid;
    let mut events = Vec::new();
    let mut tasks = running(own, &mut events);
    section(&mut tasks, 1, 7, 7);
    let fork = libc::SYS_fork as u32;
    let all = [
        What::Enter { nr: fork, args: [0; 6], stack: None },
        LOCK(9),
        What::Loss { until: 12 },
        LOCK(77),
        UNLOCK(77),
        UNLOCK(9),
    ];
    all.into_iter().zip(10..).for_each(|(what, time)| feed(&mut tasks, time, own, what));
    feed(&mut tasks, 20, CHILD, What::Born { by: own, of: own });
    feed(&mut tasks, 21, own, What::Return { nr: fork, result: CHILD.into() });
    let before = tasks.seen.sections;
    section(&mut tasks, 22, 7, 7);
    feed(&mut tasks, 30, CHILD, LOCK(77));
    feed(&mut tasks, 31, CHILD, UNLOCK(77));
    assert_eq!(tasks.seen.sections - before, 2, "both count");
    assert_eq!(spaces(&tasks, own), [(1, Some(9)), (2, Some(77))]);
    // After a lost load, the program locks its new space repeatedly.
    tasks.doubt_all(40);
    (50..54).for_each(|time| feed(&mut tasks, time, own, if time % 2 == 0 { LOCK(88) } else { UNLOCK(88) }));
    assert_eq!(spaces(&tasks, own)[0], (3, Some(88)));
}

/// The child of an unseen call has a space of its own, until it locks its parent's.
#[test]
fn a_child_of_an_unknown_call_has_a_space_of_its_own() {
    let own = std::process::id() as Tid;
    for (address, spaces_then) in [(77, [(1, Some(9)), (2, Some(77))]), (9, [(1, Some(9)), (1, Some(9))])] {
        let mut events = Vec::new();
        let mut tasks = running(own, &mut events);
        section(&mut tasks, 1, 7, 7);
        feed(&mut tasks, 16, CHILD, What::Born { by: own, of: own });
        assert_eq!(spaces(&tasks, own), [(1, Some(9)), (2, None)]);
        feed(&mut tasks, 20, CHILD, LOCK(address));
        feed(&mut tasks, 21, CHILD, UNLOCK(address));
        assert_eq!(spaces(&tasks, own), spaces_then);
        assert_eq!(tasks.seen.sections, 2);
    }
}

/// Without reports of sections, the call's flags say whether its child has its own space.
#[test]
fn flags_say_whether_a_child_shares() {
    let shares = |nr: i64, flags: u64, address, ordered| {
        let call = arch::decode(AUDIT_NATIVE, nr as u64, [flags, 0, 0, 0, 0, 0], |_, _| false).unwrap();
        shares_space(&call, address, ordered)
    };
    assert_eq!(shares(libc::SYS_fork, 0, None, true), Some(true));
    assert_eq!(shares(libc::SYS_clone, libc::CLONE_VM as u64, Some(7), true), Some(false));
    assert_eq!(shares(libc::SYS_fork, 0, None, false), Some(false));
    assert_eq!(shares(libc::SYS_vfork, 0, None, false), Some(true));
    assert_eq!(shares(libc::SYS_clone, (libc::CLONE_VM | libc::CLONE_VFORK) as u64, None, false), Some(true));
    assert_eq!(shares(libc::SYS_clone, libc::SIGCHLD as u64, None, false), Some(false));
    assert_eq!(shares(libc::SYS_clone3, 0, None, false), None, "its flags are in memory");
}

/// The end of a child that shares its parent's space does not end the parent's doubt.
#[test]
fn doubt_outlasts_a_child_that_shares_the_space() {
    let own = std::process::id() as Tid;
    let mut events = Vec::new();
    let mut tasks = running(own, &mut events);
    section(&mut tasks, 1, 7, 7);
    let place = tasks.places.get_mut(&1).unwrap();
    (place.doubt, place.areas) = (None, None);
    feed(&mut tasks, 10, own, What::Enter { nr: libc::SYS_vfork as u32, args: [0; 6], stack: None });
    feed(&mut tasks, 11, CHILD, What::Born { by: own, of: own });
    feed(&mut tasks, 12, CHILD, LOCK(9));
    feed(&mut tasks, 13, CHILD, UNLOCK(9));
    assert!(tasks.places[&1].doubt.is_some());
    feed(&mut tasks, 14, CHILD, What::Ended);
    assert!(tasks.places[&1].doubt.is_some());
}

/// A signal gives a process's end, unless it was for threads that a load has ended.
#[test]
fn a_signal_is_how_a_process_ended() {
    let own = std::process::id() as Tid;
    for (goes_on, status) in [(false, Some(libc::SIGKILL)), (true, Some(3 << 8))] {
        let mut events = Vec::new();
        let mut tasks = running(own, &mut events);
        feed(&mut tasks, 1, own, What::Killed { status: libc::SIGKILL });
        if goes_on {
            let execve = libc::SYS_execve as u32;
            feed(&mut tasks, 2, own, What::Enter { nr: execve, args: [0; 6], stack: None });
            feed(&mut tasks, 3, own, segment());
            feed(&mut tasks, 4, own, What::Loaded);
            feed(&mut tasks, 5, own, What::Return { nr: execve, result: 0 });
            assert_eq!(tasks.root_status(), None);
            // The first of them counts.
            for (nr, code) in [(libc::SYS_exit_group, 3), (libc::SYS_exit, 0)] {
                let args = [code, 0, 0, 0, 0, 0];
                feed(&mut tasks, 6, own, What::Enter { nr: nr as u32, args, stack: None });
            }
        }
        feed(&mut tasks, 7, own, What::Ended);
        assert_eq!(tasks.root_status(), status);
    }
}

/// The kernel reports a task's end when it closes the task's events, and the task goes on.
#[test]
fn a_process_that_comes_back_is_looked_for() {
    let own = std::process::id() as Tid;
    let mut events = Vec::new();
    let mut tasks = running(own, &mut events);
    feed(&mut tasks, 1, own, What::Ended);
    assert!(!tasks.is_followed() && !tasks.strays);
    feed(&mut tasks, 2, own, LOCK(9));
    assert!(tasks.is_followed() && tasks.strays);
}

/// A process whose end record was lost is found to have ended, and no other process is.
#[test]
fn a_process_that_has_gone_is_found() {
    let own = std::process::id() as Tid;
    for comes in [false, true] {
        let mut events = Vec::new();
        let mut tasks = running(own, &mut events);
        tasks.add_process(GONE, &[(GONE, 0)], false, 0);
        let dead = tasks.dead();
        if comes {
            feed(&mut tasks, 1, GONE, What::Ended); // late
        }
        tasks.sweep(dead, 5);
        assert!(!tasks.follows(GONE) && tasks.follows(own));
        drop(tasks);
        assert_eq!(events.iter().filter(|event| event.kind == EventKind::Exit).count(), 1);
    }
}

/// An area of a program that is loaded.
fn segment() -> What {
    let prot = (libc::PROT_READ | libc::PROT_EXEC) as u32;
    let (flags, name) = (libc::MAP_PRIVATE as u32, b"/bin/true".to_vec());
    What::Area(Box::new(ShownArea {
        start: 0x40_0000,
        end: 0x40_1000,
        inode: 1,
        prot,
        flags,
        name,
        ..ShownArea::default()
    }))
}

/// A load without records of areas, because events were opened meanwhile, is not a program without
/// areas: the areas are read.
#[test]
fn a_load_without_areas_is_read() {
    let own = std::process::id() as Tid;
    let mut events = Vec::new();
    let mut tasks = running(own, &mut events);
    let execve = libc::SYS_execve as u32;
    feed(&mut tasks, 10, own, What::Enter { nr: execve, args: [0; 6], stack: None });
    feed(&mut tasks, 12, own, What::Loaded);
    feed(&mut tasks, 13, own, What::Return { nr: execve, result: 0 });
    let place = &tasks.places[&tasks.processes[&own].place.unwrap()];
    assert!(place.space.is_none() && place.due <= 13 && place.needs_flags);
    drop(tasks);
    assert!(!events.iter().any(|event| event.kind == EventKind::Exec), "{events:?}");
}

/// A program that is loaded while records are lost is in doubt from its first call on. A program
/// loaded later is not.
#[test]
fn a_program_that_begins_within_a_loss_is_in_doubt() {
    let own = std::process::id() as Tid;
    for (until, is_doubted) in [(20, true), (9, false)] {
        let mut events = Vec::new();
        let mut tasks = running(own, &mut events);
        section(&mut tasks, 1, 7, 7);
        for record in Record::loss(5, until) {
            if record.time < 10 {
                tasks.take(record, 0);
            }
        }
        let execve = libc::SYS_execve as u32;
        feed(&mut tasks, 10, own, What::Enter { nr: execve, args: [0; 6], stack: None });
        feed(&mut tasks, 11, own, LOCK(77));
        feed(&mut tasks, 11, own, segment());
        feed(&mut tasks, 12, own, What::Loaded);
        feed(&mut tasks, 13, own, What::Return { nr: execve, result: 0 });
        let place = &tasks.places[&tasks.processes[&own].place.unwrap()];
        assert_eq!((place.address, place.has_lost_events()), (Some(77), is_doubted));
    }
}

/// Events are lost while a fork waits for another thread's call. The trace marks the child's areas
/// as incomplete, although the parent's loss comes after the fork.
#[test]
fn the_child_of_a_space_in_doubt_says_so() {
    const OTHER: Tid = CHILD + 1;
    let own = std::process::id() as Tid;
    let (execve, fork, mmap) = (libc::SYS_execve as u32, libc::SYS_fork as u32, libc::SYS_mmap as u32);
    let enter = |nr| What::Enter { nr, args: [0; 6], stack: None };
    let mut events = Vec::new();
    let mut tasks = running(own, &mut events);
    for (time, tid, what) in [
        (10, own, enter(execve)),
        (11, own, LOCK(9)),
        (11, own, segment()),
        (12, own, What::Loaded),
        (13, own, What::Return { nr: execve, result: 0 }),
        (14, OTHER, What::Born { by: own, of: own }),
        (15, OTHER, enter(mmap)),
        (16, OTHER, LOCK(9)),
        (17, OTHER, UNLOCK(9)),
        (20, own, enter(fork)),
        (21, own, LOCK(9)),
        (22, own, LOCK(77)),
        (23, own, UNLOCK(77)),
        (24, own, UNLOCK(9)),
    ] {
        tasks.take(Record { time, pid: own, tid, event: 0, what }, 0);
    }
    feed(&mut tasks, 25, CHILD, What::Born { by: own, of: own });
    let child = tasks.processes[&CHILD].place.unwrap();
    assert!(tasks.places[&child].awaits_fork);
    Record::loss(30, 31).into_iter().for_each(|record| tasks.take(record, 0));
    assert!(!tasks.places[&child].awaits_fork);
    drop(tasks);
    assert!(events.iter().any(|event| event.space == child && event.is_loss()), "{events:?}");
}
