use std::process::{Child, Command};

use super::*;
use crate::watch::count::Counted;

/// Processes that sleep, until this is dropped.
struct Sleepers(Vec<Child>);

impl Sleepers {
    fn new(number: usize) -> Sleepers {
        let sleepers = Sleepers((0..number).map(|_| Command::new("sleep").arg("1000").spawn().unwrap()).collect());
        let loaded = |child: &Child| {
            std::fs::read_to_string(format!("/proc/{}/wchan", child.id())).is_ok_and(|at| at.contains("nanosleep"))
        };
        // A kernel may not say where a process waits.
        (0..500).find(|_| {
            sleepers.0.iter().all(loaded) || {
                std::thread::sleep(Duration::from_millis(10));
                false
            }
        });
        sleepers
    }

    fn which(&self) -> Which {
        Which { pids: self.0.iter().map(Child::id).collect(), ..Which::default() }
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The process as if it had not moved since it was counted, so long ago.
fn counted(cost: Duration) -> Process {
    let sign = Statm::default();
    let now = Sign::open(std::process::id()).unwrap().read().unwrap();
    Process {
        name: String::new(),
        sign: None,
        started: 0,
        by: 7,
        now,
        seen: Some(LastCount { counted: Counted { areas: 9, largest_gap: 1 }, sign, at: Instant::now(), cost }),
        refused: None,
        pace: Pace::default(),
        is_urgent: false,
        cause: None,
        told: Raised::default(),
    }
}

#[test]
fn those_with_the_most_areas_have_rows() {
    let sleepers = Sleepers::new(3);
    for most_open in [100, 1, 0] {
        let mut table = Table::new(sleepers.which(), most_open);
        table.read(None).unwrap();
        let (rows, others, unreadable) = table.rows(2, Some(1000));
        assert_eq!((rows.len(), others.processes, unreadable), (2, 1, 0), "{most_open}");
        assert!(rows.iter().all(|row| row.areas > 4 && row.mapped > 4096 && row.largest_gap > 4096));
        assert!(others.areas > 4 && others.mapped > 4096);
        table.read(None).unwrap();
        assert_eq!((table.all.len(), table.open), (3, most_open.min(3)));
        assert!(table.rows(3, None).0.iter().all(|row| row.per_second.is_some()), "{most_open}");
    }
}

#[test]
fn processes_that_end_are_forgotten() {
    let mut sleepers = Sleepers::new(3);
    let mut table = Table::new(sleepers.which(), 2);
    table.read(None).unwrap();
    let mut child = sleepers.0.remove(0);
    child.kill().unwrap();
    child.wait().unwrap();
    table.read(None).unwrap();
    let (rows, ..) = table.rows(9, None);
    assert_eq!((rows.len(), table.open, table.has_ended()), (2, 1, false));
    drop(sleepers);
    table.read(None).unwrap();
    assert!(table.has_ended() && table.open == 0);
}

#[test]
fn what_has_not_moved_is_not_counted() {
    let sleepers = Sleepers::new(3);
    let (mut table, mut meter) = (Table::new(sleepers.which(), 9), Meter::new(Budget::new(100.0)));
    // They may still be loading.
    (0..1000).find(|_| {
        let before = table.counts;
        table.read(Some(&mut meter)).unwrap();
        std::thread::sleep(Duration::from_millis(10));
        before > 0 && table.counts == before
    });
    let before = table.counts;
    (0..3).for_each(|_| table.read(Some(&mut meter)).unwrap());
    assert_eq!(table.counts, before);
    // As if it had been counted long ago.
    let Some(old) = Instant::now().checked_sub(AGAIN) else { return };
    table.all.values_mut().for_each(|process| process.seen.as_mut().unwrap().at = old);
    meter.budget.spend(Duration::from_secs(1000));
    table.read(Some(&mut meter)).unwrap();
    assert_eq!(table.counts, before, "there is no budget for it");
    meter.budget.pass(Duration::from_secs(2000));
    table.read(Some(&mut meter)).unwrap();
    assert_eq!(table.counts, before + 3);
    // A look for alerts, which each reading has, delays it no longer than it took.
    table.all.values_mut().for_each(|process| process.seen.as_mut().unwrap().at = old);
    meter.settle_alerts();
    table.read(Some(&mut meter)).unwrap();
    assert_eq!(table.counts, before + 6);
}

#[test]
fn what_moves_is_counted_as_often_as_the_budget_lets() {
    let meter = Meter::new(Budget::new(1.0));
    assert!(counted(Duration::ZERO).need(Some(&meter)) == Need::Count);
    // Twenty milliseconds are half of the budget of four seconds.
    let mut large = counted(Duration::from_millis(20));
    assert!(large.need(Some(&meter)) == Need::Nothing);
    if let Some(at) = Instant::now().checked_sub(Duration::from_secs(5)) {
        large.seen.as_mut().unwrap().at = at;
        assert!(large.need(Some(&meter)) == Need::Count);
    }
    assert!(large.need(None) == Need::Count, "a single reading counts everything");
    large.refused = Some(Instant::now());
    large.seen = None;
    assert!(large.need(None) == Need::Nothing);
}

/// One that will soon reach the limit is counted as often as is saved up for, and another one is
/// not.
#[test]
fn what_is_urgent_is_counted_at_once() {
    let mut table = Table::new(Which::default(), 0);
    for (pid, areas) in [(1, [20, 30_000]), (2, [29_900, 30_000])] {
        let mut process = counted(Duration::from_millis(20));
        for (at, areas) in (0..).zip(areas) {
            process.pace.add(Duration::from_secs(at * 10), areas, Duration::from_secs(10));
        }
        table.all.insert(pid, process);
    }
    let mut meter = Meter::new(Budget::new(1.0));
    assert!(!table.is_urgent(Some(65_530), Duration::from_secs(11)) && !table.is_urgent(None, Duration::MAX));
    assert!(table.is_urgent(Some(65_530), Duration::from_secs(12)));
    let counts = |table: &Table, meter: &Meter| {
        table.all.values().map(|process| process.need(Some(meter)) == Need::Count).collect::<Vec<_>>()
    };
    assert_eq!(counts(&table, &meter), [true, false]);
    meter.budget.spend(Duration::from_secs(1));
    assert_eq!(counts(&table, &meter), [false, false], "nothing is saved up");
    meter.budget.pass(Duration::from_secs(1000));
    table.all.values_mut().for_each(|process| process.seen = None);
    assert!(!table.is_urgent(Some(65_530), Duration::from_secs(12)), "it is not watched any more");
}
