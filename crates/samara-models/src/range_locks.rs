//! *Range locks*: threads ask for ranges that meet, wait, and leave; one of them stands aside where
//! it would have to wait, and asks again. Requests and the list of sleepers are those of samara-mm;
//! they are put together as `held` does it, but that no thread looks more than once before it
//! sleeps. Ranges that meet are had by one thread at a time, or by several that only read, in the
//! order of their numbers. In the end no thread waits, and another request gets all at once.
//!
//! Fails with: no fence after the number is stored, or after a request says that it is choosing
//! (two have the range); a request that passes one that is choosing (two have it); leaving with
//! Relaxed, or a first look with Relaxed in `standing` (what was done in the range is not ordered
//! with what follows); no Release fence before the ranges are stored, or no Acquire fence after
//! they are loaded (a request that takes the next ranges of a record for these is not ordered after
//! what was done there); watching a word that has changed, or an event that is cleared after it may
//! have been set (waits for ever); a request that gives up and does not leave (the next one waits
//! for ever); requests that are listed before the one that asks can be seen (two have the range).
//!
//! Not seen to fail: no Release fence between the ranges and the word that says that a request is
//! choosing. The full fence that follows comes before the number, and orders what excludes others.

use crate::explore::{Looks, model, model_up_to};
use crate::loom_wait::Signal;
use crate::node_body::Body;
use crate::range_lock::{Before, Mode, Request, Spans, last_before};
use crate::sleepers::Sleepers;
use crate::wait::Event;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;
use samara::Span;

/// Pages, both ends inclusive; a second range, perhaps.
type Pages = ((usize, usize), Option<(usize, usize)>);

const THREADS: usize = 3;

struct Shared {
    requests: [Request; THREADS],
    /// How many of them are in the list, where the list grows (RECORDS-1).
    listed: Option<AtomicUsize>,
    events: [Signal; THREADS],
    sleepers: Mutex<Sleepers>,
    /// Watched: a read beside a write fails, and so do two writes. Each holds the word and the rank
    /// of the request that changed it last.
    pages: [Body<(u64, usize)>; 3],
}

impl Shared {
    fn new(listed: Option<usize>) -> Arc<Shared> {
        Arc::new(Shared {
            requests: Default::default(),
            listed: listed.map(AtomicUsize::new),
            events: Default::default(),
            sleepers: Mutex::new(Sleepers::new()),
            pages: [(0, 0); 3].map(Body::of),
        })
    }

    /// Has the pages once, as `held` does. `false`: it would have waited, and does not.
    fn have(&self, rank: usize, (first, second): Pages, mode: Mode, patient: bool) -> bool {
        let span = |(first, last): (usize, usize)| Span::new(first as u64, last as u64);
        let spans = Spans { first: span(first), second: second.map(span) };
        let request = &self.requests[rank];
        let others = || {
            let listed = self.listed.as_ref().map_or(THREADS, |listed| listed.load(Ordering::SeqCst));
            self.requests.iter().enumerate().take(listed).filter(|(other, _)| *other != rank)
        };
        let turn = request.ask(rank, spans, mode, || others().map(|(_, other)| other)); // see `load_own`
        let next = || {
            let mut looks = Looks::default();
            last_before(&turn, others(), |_| looks.look_again())
        };
        while let Some(before) = next() {
            if !patient {
                self.leave(rank);
                return false;
            }
            while before.is_before(&turn) {
                self.sleep(rank, &before);
            }
        }
        for (first, last) in [Some(first), second].into_iter().flatten() {
            for page in &self.pages[first..=last] {
                let before = page.read();
                if mode == Mode::Change {
                    assert!(before < (turn.word, turn.rank), "in the order of the numbers");
                    page.set((turn.word, turn.rank));
                }
            }
        }
        self.leave(rank);
        true
    }

    fn sleep(&self, rank: usize, before: &Before<'_>) {
        let mut sleepers = self.sleepers.lock().unwrap();
        self.events[rank].clear();
        let is_added = sleepers.add(rank, before.rank, before.request, before.word);
        drop(sleepers);
        if is_added {
            self.events[rank].wait(None);
        }
    }

    fn leave(&self, rank: usize) {
        if self.requests[rank].leave() {
            self.sleepers.lock().unwrap().wake(rank, |sleeper| self.events[sleeper].set());
        }
    }
}

/// Runs a request in each thread, the last of them in this one, which stands aside once if it is
/// not patient. Two preemptions at most, also in a long campaign: these take minutes already.
fn requests(name: &str, preemptions: usize, requests: [(Pages, Mode); THREADS], patient: bool) {
    // With two preemptions, a request that asks again has no end within an hour.
    let most = if patient { 2 } else { 1 };
    model_up_to(name, preemptions, most, move || {
        let shared = Shared::new(None);
        let [first, second, last] = requests;
        let others = [(0, first), (1, second)].map(|(rank, (pages, mode))| {
            let shared = shared.clone();
            thread::spawn(move || assert!(shared.have(rank, pages, mode, true)))
        });
        if !shared.have(2, last.0, last.1, patient) {
            assert!(!patient && shared.have(2, last.0, last.1, true), "it asks again");
        }
        others.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(shared.have(0, ((0, 2), None), Mode::Change, false), "nothing is left behind");
    });
}

/// Two threads. The first one asks twice, so its record is used again. The second one asks for
/// `page`: the first range, or the second one.
fn used_again(name: &str, page: usize) {
    model(name, Some(2), move || {
        let shared = Shared::new(None);
        let other = shared.clone();
        let thread = thread::spawn(move || {
            assert!(other.have(0, ((0, 0), None), Mode::Change, true));
            assert!(other.have(0, ((1, 1), None), Mode::Change, true));
        });
        assert!(shared.have(1, ((page, page), None), Mode::Change, true));
        thread.join().unwrap();
    });
}

#[test]
fn a_record_that_was_used() {
    used_again("a_record_that_was_used", 0);
}

#[test]
fn a_record_that_is_used_again() {
    used_again("a_record_that_is_used_again", 1);
}

/// The list grows while the first request takes its number.
#[test]
fn a_record_that_appears() {
    model("a_record_that_appears", Some(2), || {
        let shared = Shared::new(Some(1));
        let other = shared.clone();
        let thread = thread::spawn(move || {
            other.listed.as_ref().unwrap().store(2, Ordering::SeqCst);
            assert!(other.have(1, ((0, 0), None), Mode::Change, true));
        });
        assert!(shared.have(0, ((0, 0), None), Mode::Change, true));
        thread.join().unwrap();
    });
}

#[test]
fn a_range_that_meets_two_others() {
    let [low, all, high] = [(0, 0), (0, 2), (2, 2)].map(|pages| ((pages, None), Mode::Change));
    requests("a_range_that_meets_two_others", 1, [low, all, high], true);
}

#[test]
fn two_ranges_of_one_request() {
    let [low, both, high] = [((0, 0), None), ((0, 0), Some((2, 2))), ((2, 2), None)].map(|pages| (pages, Mode::Change));
    requests("two_ranges_of_one_request", 1, [low, both, high], true);
}

#[test]
fn a_request_that_stands_aside() {
    let [low, both, all] = [(0, 0), (0, 1), (0, 2)].map(|pages| ((pages, None), Mode::Change));
    requests("a_request_that_stands_aside", 1, [low, both, all], false);
}

#[test]
fn ranges_that_are_read() {
    let [low, high, all] = [(0, 1), (1, 2), (0, 2)].map(|pages| (pages, None));
    requests("ranges_that_are_read", 1, [(low, Mode::Read), (high, Mode::Change), (all, Mode::Read)], true);
}
