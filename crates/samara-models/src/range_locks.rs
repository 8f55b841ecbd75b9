//! *Range locks*: threads ask for ranges that meet, wait, and leave; one of them gives up where it
//! would have to wait. The queue is that of samara-mm, under a lock and with events as `update` has
//! them. Ranges that meet are had by one thread at a time, or by several that only read, in the
//! order in which they asked. In the end nobody waits and the queue is empty.
//!
//! Fails with: `leave` that grants without counting down (two have the range); an event that is set
//! before the request is granted; an event that is cleared after it may have been set (waits for
//! ever); a request that gives up and does not leave (the next one waits for ever).

use crate::explore::model;
use crate::node_body::Body;
use crate::range_queue::{Mode, RangeQueue};
use loom::sync::{Arc, Condvar, Mutex, MutexGuard};
use loom::thread;
use samara::Span;

/// An event of one thread, as `Wait` asks for it.
struct Event {
    is_set: Mutex<bool>,
    changed: Condvar,
}

impl Event {
    fn new() -> Self {
        Event { is_set: Mutex::new(false), changed: Condvar::new() }
    }

    fn clear(&self) {
        *self.is_set.lock().unwrap() = false;
    }

    fn wait(&self) {
        let mut is_set = self.is_set.lock().unwrap();
        while !*is_set {
            is_set = self.changed.wait(is_set).unwrap();
        }
    }

    fn set(&self) {
        *self.is_set.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

/// What the lock of a space guards.
struct State {
    queue: RangeQueue<Event, usize>,
    /// The requests that changed each page, in the order in which they were granted.
    granted: [Vec<u64>; 3],
}

struct Shared {
    state: Mutex<State>,
    /// Watched: a read beside a write fails, and so do two writes.
    pages: [Body<u64>; 3],
}

impl Shared {
    fn new() -> Arc<Shared> {
        let state = State { queue: RangeQueue::new(), granted: [const { Vec::new() }; 3] };
        Arc::new(Shared { state: Mutex::new(state), pages: [0; 3].map(Body::of) })
    }

    /// Has the pages from `first` to `last` once, as `update` does. `None`: it would have waited,
    /// and does not.
    fn have(&self, (first, last): (usize, usize), mode: Mode, patient: bool) -> Option<u64> {
        let event = std::sync::Arc::new(Event::new());
        let mut state = self.lock();
        state.queue.reserve().unwrap();
        event.clear();
        let (id, granted) = state.queue.enter(Span::new(first as u64, last as u64), mode, &event, first);
        if !granted {
            drop(state);
            if patient {
                event.wait();
            }
            state = self.lock();
            if !patient && !state.queue.is_granted(id) {
                state.queue.leave(id, Event::set);
                return None;
            }
            assert!(state.queue.is_granted(id), "woken too early");
        }
        if mode == Mode::Change {
            (first..=last).for_each(|page| state.granted[page].push(id));
        }
        drop(state);
        for page in &self.pages[first..=last] {
            match mode {
                Mode::Change => page.set(id),
                Mode::Read => drop(page.read()),
            }
        }
        assert_eq!(self.lock().queue.leave(id, Event::set), Some(first));
        Some(id)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn check(&self) {
        let state = self.lock();
        assert!(state.queue.len() == 0 && state.queue.check());
        assert!(state.granted.iter().all(|ids| ids.is_sorted()), "in the order of the requests");
    }
}

/// Runs a request in each thread, the last of them in this one, which is perhaps not patient.
fn requests(name: &str, requests: [((usize, usize), Mode); 3], patient: bool) {
    model(name, None, move || {
        let shared = Shared::new();
        let [first, second, last] = requests;
        let others = [first, second].map(|(pages, mode)| {
            let shared = shared.clone();
            thread::spawn(move || assert!(shared.have(pages, mode, true).is_some()))
        });
        let had = shared.have(last.0, last.1, patient);
        assert!(had.is_some() || !patient);
        others.into_iter().for_each(|thread| thread.join().unwrap());
        shared.check();
        assert!(shared.have((0, 2), Mode::Change, false).is_some(), "nothing is left behind");
    });
}

#[test]
fn a_range_that_meets_two_others() {
    requests(
        "a_range_that_meets_two_others",
        [((0, 0), Mode::Change), ((0, 2), Mode::Change), ((2, 2), Mode::Change)],
        true,
    );
}

#[test]
fn a_request_that_gives_up() {
    requests(
        "a_request_that_gives_up",
        [((0, 0), Mode::Change), ((0, 1), Mode::Change), ((0, 2), Mode::Change)],
        false,
    );
}

#[test]
fn ranges_that_are_read() {
    requests("ranges_that_are_read", [((0, 1), Mode::Read), ((1, 2), Mode::Change), ((0, 2), Mode::Read)], true);
}
