//! *Forks*: one thread forks a space, another one changes it, and a third one faults there. Range
//! lock and gate are those of samara-mm; the steps of a fork, an update and a fault are those of
//! its `fork`, `update` and `faults`, on a tree of one word for each page.
//!
//! A fork's snapshot is the parent between two updates: a change of two ranges is in it whole or
//! not at all, and what comes before an update that is in it is in it too. The child is linked
//! before another call begins. A fault elsewhere never waits, at whatever step fork and update
//! stand: it has no loop, and is never told to give way. In a child, a fault sees inherited areas
//! as they are there, while a thread stores them anew.
//!
//! Fails with, in the range lock: no fence after a number is stored, or after a request says that
//! it is choosing; passing one that is choosing; leaving with Relaxed. In the gate: no fence in
//! `announce`; withdrawing, or lowering a mark, with Relaxed. In a fork: a lock on less than all;
//! looking at the requests without one of its own; marking what it copies (a fault waits); links
//! after it has left. In an update: leaving before its second store; marking one of two ranges;
//! lowering its marks before the stores. In a child: storing what is inherited without the lock of
//! the whole space (an update is lost), or in two steps; an update that stores the generation of
//! the area that it found.

use crate::explore::{Looks, model};
use crate::fault_gate::{Announced, ChangeRange, Changing, FaultRecord, Marks, may_stay};
use crate::held_range::hold;
use crate::node_body::Body;
use crate::range_lock::{Request, Spans};
use crate::sync::{AtomicU64, Ordering, load_own};
use loom::sync::Arc;
use loom::thread;
use samara::Span;

const PAGE: u64 = 0x1000;
const PAGES: usize = 3;
const THREADS: usize = 2;

/// The change of a page. All pages are in one block of the gate.
fn change_of(page: usize) -> Changing {
    Changing { start: page as u64 * PAGE, end: (page as u64 + 1) * PAGE }
}

fn span_of(page: usize) -> Span {
    Span::new(change_of(page).start, change_of(page).end - 1)
}

struct Space {
    requests: [Request; THREADS],
    changes: [[ChangeRange; 2]; THREADS],
    marks: Marks,
    record: FaultRecord,
    /// The tree.
    words: [AtomicU64; PAGES],
    /// The page table, which the plan of an update changes. Watched: a read beside a write fails.
    shown: [Body<u64>; PAGES],
    /// Whether there is a child, and whether it is linked. Watched.
    child: Body<(bool, bool)>,
}

impl Space {
    fn new(words: [u64; PAGES]) -> Arc<Space> {
        Arc::new(Space {
            requests: Default::default(),
            changes: Default::default(),
            marks: Marks::new(),
            record: FaultRecord::new(),
            words: words.map(AtomicU64::new),
            shown: words.map(Body::of),
            child: Body::of((false, false)),
        })
    }

    /// The page, announced, unless it is being changed.
    fn enter(&self, page: usize) -> Option<Announced<'_>> {
        let at = change_of(page).start;
        match self.record.enter(&self.marks, at) {
            Ok(announced) => Some(announced),
            Err(announced) => may_stay(announced, self.changes.iter().flatten(), at),
        }
    }

    /// Faults once. `None`: it would have to wait.
    fn fault(&self, page: usize) -> Option<u64> {
        let announced = self.enter(page)?;
        let word = self.words[page].load(Ordering::Relaxed);
        assert_eq!(word, self.shown[page].read(), "what was applied, and what was published");
        drop(announced);
        Some(word)
    }

    /// Changes these pages, one or two, in one update.
    fn update(&self, rank: usize, pages: &[usize]) {
        let spans = Spans { first: span_of(pages[0]), second: pages.get(1).map(|page| span_of(*page)) };
        hold(&self.requests, rank, spans);
        for (range, page) in self.changes[rank].iter().zip(pages) {
            range.set(change_of(*page));
            self.marks.raise(change_of(*page));
        }
        let mut looks = Looks::default();
        while !pages.iter().all(|page| self.record.is_free(change_of(*page))) {
            looks.look_again();
        }
        pages.iter().for_each(|page| self.shown[*page].set(1));
        for page in pages {
            self.words[*page].store(1, Ordering::Relaxed);
        }
        let (is_there, is_linked) = self.child.read();
        assert!(is_linked || !is_there, "a call beside a child that is not linked");
        for (range, page) in self.changes[rank].iter().zip(pages) {
            self.marks.lower(change_of(*page));
            range.clear();
        }
        self.requests[rank].leave();
    }

    /// Forks, and returns the snapshot.
    fn fork(&self, rank: usize) -> [u64; PAGES] {
        hold(&self.requests, rank, Spans::one(Span::FULL));
        let snapshot = self.words.each_ref().map(|word| word.load(Ordering::Relaxed));
        self.child.set((true, false));
        assert_eq!(self.shown.each_ref().map(Body::read), snapshot, "the page table that is copied");
        self.child.set((true, true));
        self.requests[rank].leave();
        snapshot
    }
}

/// An update of two ranges, and faults between them.
#[test]
fn a_fork_beside_a_move() {
    model("a_fork_beside_a_move", Some(1), || {
        let space = Space::new([0; PAGES]);
        let others = [space.clone(), space.clone()];
        let [moves, faults] = others;
        let moves = thread::spawn(move || moves.update(0, &[0, 2]));
        let faults = thread::spawn(move || assert_eq!([faults.fault(1), faults.fault(1)], [Some(0); 2]));
        let [first, between, second] = space.fork(1);
        assert_eq!((first, between), (second, 0), "half of an update");
        moves.join().unwrap();
        faults.join().unwrap();
        assert_eq!(space.fork(1), [1, 0, 1]);
    });
}

/// The page of the fault is one that changes.
#[test]
fn a_fork_beside_a_fault_in_a_move() {
    model("a_fork_beside_a_fault_in_a_move", Some(2), || {
        let space = Space::new([0; PAGES]);
        let [moves, faults] = [space.clone(), space.clone()];
        let moves = thread::spawn(move || moves.update(0, &[0, 2]));
        let faults = thread::spawn(move || faults.fault(2));
        let [first, _, second] = space.fork(1);
        assert_eq!(first, second, "half of an update");
        moves.join().unwrap();
        let seen = faults.join().unwrap();
        assert!(matches!(seen, None | Some(0 | 1)), "{seen:?}");
        assert_eq!(space.fault(2), Some(1));
    });
}

/// One thread makes two updates.
#[test]
fn a_fork_beside_two_updates() {
    model("a_fork_beside_two_updates", Some(2), || {
        let space = Space::new([0; PAGES]);
        let other = space.clone();
        let updates = thread::spawn(move || [0, 2].map(|page| other.update(0, &[page])));
        let [first, _, second] = space.fork(1);
        assert!(second <= first, "an update without the one before it");
        updates.join().unwrap();
        assert_eq!(space.fork(1), [1, 0, 1]);
    });
}

/// Bits of a word in a child: the generation, and flags of the area.
const OWN: u64 = 1;
const LOCKED: u64 = 2;
const ADVISED: u64 = 4;

/// A word of the child's tree, as it is in the child (INHERIT-1): what is inherited is not locked.
fn of(word: u64) -> u64 {
    if word & OWN == 0 { word & !LOCKED | OWN } else { word }
}

/// Stores what is inherited as what it is, for everybody to see: `settle`.
fn settle(child: &Space, rank: usize) {
    hold(&child.requests, rank, Spans::one(Span::FULL));
    child.words.iter().for_each(|word| word.store(of(load_own(word)), Ordering::Relaxed));
    child.requests[rank].leave();
}

/// One thread stores what is inherited, one locks and advises an area, and one faults in it. In the
/// child, that area is locked if and only if it is advised.
#[test]
fn an_inherited_area() {
    model("an_inherited_area", Some(2), || {
        let child = Space::new([LOCKED; PAGES]);
        let [updates, faults] = [child.clone(), child.clone()];
        let updates = thread::spawn(move || {
            hold(&updates.requests, 0, Spans::one(span_of(0)));
            let word = of(load_own(&updates.words[0]));
            updates.words[0].store(word | LOCKED | ADVISED, Ordering::Relaxed);
            updates.requests[0].leave();
        });
        let faults = thread::spawn(move || {
            let word = of(faults.words[0].load(Ordering::Relaxed));
            assert!(word == OWN || word == OWN | LOCKED | ADVISED, "{word:b}");
        });
        settle(&child, 1);
        updates.join().unwrap();
        faults.join().unwrap();
        let words = child.words.each_ref().map(|word| word.load(Ordering::Relaxed));
        assert_eq!(words, [OWN | LOCKED | ADVISED, OWN, OWN]);
    });
}
