//! *Faults*: one thread faults on a page while another one changes it, or a page beside it. The
//! gate is that of samara-mm. While a fault is announced, the page does not change; and a fault
//! after a change sees it.
//!
//! Fails with: no fence in `announce`, or none in `raise` (neither sees the other); withdrawing, or
//! lowering a mark, with Relaxed (what was done to the page is not ordered with what follows).

use crate::explore::model;
use crate::fault_gate::{Announced, Changing, FaultRecord, Marks};
use crate::node_body::Body;
use loom::sync::{Arc, Mutex};
use loom::thread;

const PAGE: u64 = 0x1000;

struct Shared {
    marks: Marks,
    /// The changes under way: what the lock of a space guards.
    changes: Mutex<Vec<Changing>>,
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
            changes: Mutex::new(Vec::new()),
            record: FaultRecord::new(),
            page: Body::of(0),
            beside: Body::of(0),
        })
    }

    fn enter(&self) -> Option<Announced<'_>> {
        self.record.enter(&self.marks, PAGE).or_else(|| {
            let changes = self.changes.lock().unwrap();
            self.record.enter_beside(changes.iter().copied(), PAGE)
        })
    }

    /// Faults once, and returns what the page holds, unless it is being changed.
    fn fault(&self) -> Option<u32> {
        let announced = self.enter()?;
        let seen = self.page.read();
        drop(announced);
        Some(seen)
    }

    fn change(&self, change: Changing, make: impl FnOnce()) {
        let mut changes = self.changes.lock().unwrap();
        changes.push(change);
        self.marks.raise(change);
        while !self.record.is_free(change) {
            drop(changes);
            thread::yield_now();
            changes = self.changes.lock().unwrap();
        }
        drop(changes);
        make();
        let mut changes = self.changes.lock().unwrap();
        self.marks.lower(change);
        changes.retain(|other| *other != change);
    }
}

fn run(name: &str, change: Changing) {
    model(name, None, move || {
        let shared = Shared::new();
        let other = shared.clone();
        let faults = thread::spawn(move || [other.fault(), other.fault()]);
        let hits = change.meets(PAGE, PAGE + 1);
        let (page, beside) = (&shared.page, &shared.beside);
        shared.change(change, || if hits { page.set(page.read() + 1) } else { beside.set(beside.read() + 1) });
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

/// The change has the page in it, and so many blocks that they have no marks of their own.
#[test]
fn fault_in_a_wide_change() {
    run("fault_in_a_wide_change", Changing { start: 0, end: 1 << 40 });
}

/// The change is of another page in the same block.
#[test]
fn fault_beside_a_change() {
    run("fault_beside_a_change", Changing { start: 2 * PAGE, end: 3 * PAGE });
}
