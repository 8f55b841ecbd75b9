//! *Updates of one leaf*: threads that stage a leaf beside one that asks for a range lock. A stage
//! changes the page while it has the leaf's lock, or takes the range lock there and changes the
//! page later. Requests, marks and the gate are those of the crates; they are put together as
//! `held` and `leaf` of samara-mm do it.
//!
//! Fails with: a stage that looks at the break before it looks at requests; a thread that asks does
//! not wait for the stages under way, or looks at the other requests before that; a stage that
//! raises the marks of its range lock after it has left the leaf.
//!
//! Not seen to fail: marks that are raised after the request, or lowered before it leaves: what is
//! between them is waited for either way. A request that is held and comes by its number alone: it
//! has the lowest one here.

use crate::explore::model;
use crate::fault_gate::{Changing, Marks};
use crate::held_range::hold_after;
use crate::node_body::Body;
use crate::range_lock::{Request, Spans};
use crate::sync::{AtomicU64, Ordering};
use crate::writer_gate::{WriterGate, WriterRecord};
use loom::sync::{Arc, Mutex};
use loom::thread;
use samara::Span;

const PAGE: u64 = 4096;

/// What a thread does.
#[derive(Clone, Copy)]
enum Update {
    /// Changes the page in a stage, if it can.
    Stage,
    /// Takes the range lock in a stage, if it can, and changes the page later.
    Hold,
    /// Asks for the range lock.
    Ask,
}

struct Shared {
    gate: WriterGate<()>,
    request_marks: Marks,
    requests: [Request; 3],
    leaf: Mutex<()>,
    /// The break, which a stage computes from a value that it has read before.
    brk: AtomicU64,
    /// Watched: a read beside a write fails, and so do two writes.
    page: Body<u32>,
}

impl Shared {
    fn spans() -> Spans {
        Spans::one(Span::new(0, PAGE - 1))
    }

    fn change(&self) {
        self.page.set(self.page.read() + 1);
        self.brk.store(self.brk.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    fn leave(&self, rank: usize) {
        self.requests[rank].leave();
        self.request_marks.lower(Changing { start: 0, end: PAGE });
    }

    /// Whether it has changed the page.
    fn stage(&self, rank: usize, record: &WriterRecord<()>, holds: bool) -> bool {
        let seen = self.brk.load(Ordering::Relaxed);
        let inside = self.gate.enter(record).expect("no thread closes the gate");
        let leaf = self.leaf.lock().unwrap();
        let mut others = self.requests.iter().enumerate().filter(|(other, _)| *other != rank);
        let here = Changing { start: 0, end: PAGE };
        if self.request_marks.may_meet(here) && others.any(|(_, other)| other.may_meet(Self::spans())) {
            return false;
        }
        // After the look at requests.
        if self.brk.load(Ordering::Relaxed) != seen {
            return false;
        }
        if !holds {
            self.page.set(self.page.read() + 1);
            self.brk.store(seen + 1, Ordering::Relaxed);
            return true;
        }
        self.requests[rank].hold(Self::spans());
        self.request_marks.raise(here);
        drop(leaf);
        drop(inside);
        self.change();
        self.leave(rank);
        true
    }

    fn ask(&self, rank: usize) {
        self.request_marks.raise(Changing { start: 0, end: PAGE });
        hold_after(&self.requests, rank, Self::spans(), || self.gate.pass());
        self.change();
        self.leave(rank);
    }

    /// One update of the page, as `leaf` makes it: where a stage cannot, the thread asks.
    fn update(&self, rank: usize, record: &WriterRecord<()>, what: Update) {
        let is_done = match what {
            Update::Ask => false,
            Update::Stage => self.stage(rank, record, false),
            Update::Hold => self.stage(rank, record, true),
        };
        if !is_done {
            self.ask(rank);
        }
    }
}

fn updates(name: &str, preemptions: usize, updates: &'static [Update]) {
    model(name, Some(preemptions), move || {
        let shared = Arc::new(Shared {
            gate: WriterGate::new(),
            request_marks: Marks::new(),
            requests: Default::default(),
            leaf: Mutex::new(()),
            brk: AtomicU64::new(0),
            page: Body::of(0),
        });
        let run = |rank: usize| {
            // SAFETY: no other thread takes a record, or closes the gate.
            let record: *const WriterRecord<()> = unsafe { shared.gate.take(|| ()).expect("memory") };
            let (shared, record) = (shared.clone(), record as usize);
            move || {
                // SAFETY: the list lives as long as `shared`.
                let record = unsafe { &*(record as *const WriterRecord<()>) };
                shared.update(rank, record, updates[rank]);
                record.give_back();
            }
        };
        let own = run(0);
        let others: Vec<_> = (1..updates.len()).map(run).map(thread::spawn).collect();
        own();
        others.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(shared.page.read() as usize, updates.len());
        assert_eq!(shared.brk.load(Ordering::Relaxed) as usize, updates.len(), "a break is lost");
        assert!(shared.request_marks.are_lowered(), "nothing is left behind");
    });
}

#[test]
fn a_stage_and_a_range_lock() {
    updates("a_stage_and_a_range_lock", 3, &[Update::Stage, Update::Ask]);
}

#[test]
fn a_stage_that_holds_and_a_range_lock() {
    updates("a_stage_that_holds_and_a_range_lock", 3, &[Update::Hold, Update::Ask]);
}

#[test]
fn a_range_lock_and_a_stage_that_holds() {
    updates("a_range_lock_and_a_stage_that_holds", 3, &[Update::Ask, Update::Hold]);
}

#[test]
fn two_stages_that_hold() {
    updates("two_stages_that_hold", 2, &[Update::Hold, Update::Hold]);
}

#[test]
fn stages_of_both_kinds() {
    updates("stages_of_both_kinds", 2, &[Update::Hold, Update::Stage]);
}
