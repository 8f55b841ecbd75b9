//! *Faults*: one thread faults on a page while another one changes it, or a page beside it. The
//! gate is that of samara-mm. While a fault is announced, the page does not change; and a fault
//! after a change sees it.
//!
//! Fails with: no fence in `announce`, or none in `raise` (neither sees the other); withdrawing,
//! lowering a mark, or taking a range back, with Relaxed (what was done to the page is not ordered
//! with what follows); no Release fence before a range is stored, or no Acquire fence in `may_meet`
//! (a fault that takes the start of the next range with the end of this one is not ordered after
//! this change); a range that is stored after its marks are raised and without a fence (a fault
//! finds no range and goes on in the change).
//!
//! Not seen to fail: a range that is stored after its marks are raised, or without a fence, but not
//! both; and a range whose end is stored before its start, or not ordered after it. A fence comes
//! between the range and the look at the announcements in each case, so a fault that finds half of
//! a range is found by the change.

use crate::explore::model;
use crate::fault_gate::{Announced, ChangeRange, Changing, FaultRecord, Marks, may_stay};
use crate::node_body::Body;
use loom::sync::Arc;
use loom::thread;

const PAGE: u64 = 0x1000;

struct Shared {
    marks: Marks,
    /// What each of two threads changes.
    changes: [ChangeRange; 2],
    record: FaultRecord,
    /// What the page holds. The memory of the model is watched: a read beside a write fails.
    page: Body<u32>,
    /// What the page beside it holds.
    beside: Body<u32>,
}

impl Shared {
    fn new() -> Arc<Shared> {
        Arc::new(Shared {
            marks: Marks::new(),
            changes: Default::default(),
            record: FaultRecord::new(),
            page: Body::of(0),
            beside: Body::of(0),
        })
    }

    fn enter(&self) -> Option<Announced<'_>> {
        match self.record.enter(&self.marks, PAGE) {
            Ok(announced) => Some(announced),
            Err(announced) => may_stay(announced, self.changes.iter(), PAGE),
        }
    }

    /// Faults once, and returns what the page holds, unless it is being changed.
    fn fault(&self) -> Option<u32> {
        let announced = self.enter()?;
        let seen = self.page.read();
        drop(announced);
        Some(seen)
    }

    fn change(&self, thread: usize, change: Changing, make: impl FnOnce()) {
        self.changes[thread].set(change);
        self.marks.raise(change);
        while !self.record.is_free(change) {
            thread::yield_now();
        }
        make();
        self.marks.lower(change);
        self.changes[thread].clear();
    }
}

fn run(name: &str, change: Changing) {
    model(name, None, move || {
        let shared = Shared::new();
        let other = shared.clone();
        let faults = thread::spawn(move || [other.fault(), other.fault()]);
        let hits = change.meets(PAGE, PAGE + 1);
        let (page, beside) = (&shared.page, &shared.beside);
        shared.change(0, change, || if hits { page.set(page.read() + 1) } else { beside.set(beside.read() + 1) });
        let seen = faults.join().unwrap();
        if hits {
            assert!(matches!(seen, [first, second] if first <= second || second.is_none()), "{seen:?}");
        } else {
            // A change elsewhere makes no fault wait.
            assert_eq!(seen, [Some(0); 2]);
        }
        assert_eq!(shared.fault(), Some(u32::from(hits)));
    });
}

/// The change is that of the page.
#[test]
fn fault_in_a_change() {
    run("fault_in_a_change", Changing { start: PAGE, end: 2 * PAGE });
}

/// The change has the page in it, and too many blocks for marks of their own.
#[test]
fn fault_in_a_wide_change() {
    run("fault_in_a_wide_change", Changing { start: 0, end: 1 << 40 });
}

/// The change is of another page in the same block.
#[test]
fn fault_beside_a_change() {
    run("fault_beside_a_change", Changing { start: 2 * PAGE, end: 3 * PAGE });
}

/// Two changes of one thread, whose range is used again, beside a fault: one of the page, and one
/// of another page in the same block.
fn run_two(name: &str, first: Changing, second: Changing) {
    model(name, Some(3), move || {
        let shared = Shared::new();
        let other = shared.clone();
        let fault = thread::spawn(move || other.fault());
        for change in [first, second] {
            let changed = if change.meets(PAGE, PAGE + 1) { &shared.page } else { &shared.beside };
            shared.change(1, change, || changed.set(1));
        }
        let seen = fault.join().unwrap();
        assert!(matches!(seen, None | Some(0 | 1)), "{seen:?}");
        assert_eq!(shared.fault(), Some(1));
    });
}

#[test]
fn fault_beside_two_changes() {
    let [beside, both] = [2 * PAGE, PAGE].map(|start| Changing { start, end: 3 * PAGE });
    run_two("fault_beside_two_changes", beside, both);
}

#[test]
fn fault_after_a_change() {
    let [page, beside] = [PAGE, 2 * PAGE].map(|start| Changing { start, end: start + PAGE });
    run_two("fault_after_a_change", page, beside);
}
