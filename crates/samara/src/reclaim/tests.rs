//! Tests of what `Reclaim` promises, for each implementation. Other tests of this process share the
//! domains. So a test repeats a question until the required answer comes, and asks many times for
//! an answer that must not come.

use crate::reclaim::{Epoch, Fenced, FencedDomain, Membarrier, PinHere, Quiescent, Reclaim};
use crate::sync::{AtomicBool, AtomicUsize, Ordering};
#[cfg(feature = "std")]
use std::cell::RefCell;
use std::collections::VecDeque;

use std::sync::mpsc::channel;
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use std::vec::Vec;

const OFTEN: usize = if cfg!(miri) { 10 } else { 1000 };

/// Asks until the stamp has passed; fails if it never does.
fn comes<R: Reclaim>(r: &R, stamp: &R::Stamp) {
    let since = Instant::now();
    while !r.has_passed(stamp) {
        assert!(since.elapsed() < Duration::from_secs(600), "does not pass");
        thread::yield_now();
    }
}

#[track_caller]
fn stays_away<R: Reclaim>(r: &R, stamp: &R::Stamp) {
    assert!((0..OFTEN).all(|_| !r.has_passed(stamp)), "passed while an earlier guard lives");
}

fn an_earlier_guard_holds<R: Reclaim>(r: &R) {
    let reader = r.reader();
    comes(r, &r.stamp());
    let guard = r.pin(&reader);
    let (first, second) = (r.stamp(), r.stamp());
    stays_away(r, &second);
    stays_away(r, &first);
    drop(guard);
    comes(r, &second);
    comes(r, &first);
}

fn the_outermost_counts<R: Reclaim>(r: &R) {
    let reader = r.reader();
    let outer = r.pin(&reader);
    let inner = r.pin(&reader);
    let stamp = r.stamp();
    drop(r.pin(&reader));
    drop(outer);
    stays_away(r, &stamp);
    drop(inner);
    comes(r, &stamp);
}

fn a_guard_outlives_its_registration<R: Reclaim>(r: &R) {
    let reader = r.reader();
    let guards = (r.pin(&reader), r.pin(&reader));
    drop(reader);
    let stamp = r.stamp();
    drop(guards.0);
    // A reader that registers meanwhile must not get the record that the guard still uses.
    let other = r.reader();
    drop(r.pin(&other));
    stays_away(r, &stamp);
    drop(guards.1);
    comes(r, &stamp);
}

/// A guard made by `pin` in another thread, which then ends with the guard or without it.
fn another_thread<R: Reclaim + Sync>(r: &R, pin: impl Fn() -> R::Guard + Sync)
where
    R::Stamp: Sync,
{
    for round in 0..if cfg!(miri) { 2 } else { 20 } {
        let (pinned, wait_pinned) = channel();
        let (go, wait_go) = channel::<()>();
        thread::scope(|scope| {
            let pin = &pin;
            scope.spawn(move || {
                let guard = pin();
                pinned.send(()).unwrap();
                wait_go.recv().unwrap();
                if round % 2 == 0 {
                    drop(guard);
                    pinned.send(()).unwrap();
                }
            });
            wait_pinned.recv().unwrap();
            let stamp = r.stamp();
            stays_away(r, &stamp);
            go.send(()).unwrap();
            if round % 2 == 0 {
                wait_pinned.recv().unwrap();
            }
            comes(r, &stamp);
        });
        comes(r, &r.stamp());
    }
}

fn by_registration<R: Reclaim + Sync>(r: &R)
where
    R::Stamp: Sync,
{
    // One at a time: two busy threads are enough for a small machine.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock();
    an_earlier_guard_holds(r);
    the_outermost_counts(r);
    a_guard_outlives_its_registration(r);
    another_thread(r, || r.pin(&r.reader()));
    one_of_two_sees_the_other(r);
    nobody_sees_what_was_freed(r);
}

/// A guard and a store at the same moment: a guard whose holder has seen the state before the store
/// must hold up the stamp. Without the barriers a processor may execute each thread's load before
/// its own store, and then neither sees the other.
fn one_of_two_sees_the_other<R: Reclaim + Sync>(r: &R) {
    const ROUNDS: usize = if cfg!(miri) { 20 } else { 20_000 };
    // A word for each round, on cache lines of its own.
    let unlinked: Vec<[AtomicBool; 128]> = (0..ROUNDS).map(|_| [const { AtomicBool::new(false) }; 128]).collect();
    // Cache lines that the writer has touched last, for the reader to store to. Until they have
    // arrived, the reader's next store waits where no other processor sees it.
    let ballast = [const { [const { AtomicBool::new(false) }; 128] }; 24];
    let touch = || ballast.iter().for_each(|line| line[0].store(true, Ordering::Relaxed));
    // How many rounds each of the two has begun, and in how many the writer has asked.
    let (reader_at, writer_at, asked) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let wait = |count: &AtomicUsize, least: usize| {
        let mut turns = 0;
        while count.load(Ordering::Acquire) < least {
            turns += 1;
            // Both threads may share one processor.
            if cfg!(miri) || turns > 1000 { thread::yield_now() } else { core::hint::spin_loop() }
        }
    };
    // The two begin a round a little apart, by a different distance each time.
    let dawdle = |turns: usize| (0..turns).for_each(|_| core::hint::spin_loop());
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let reader = r.reader();
            let mut seen_before = Vec::new();
            for (round, [word, ..]) in unlinked.iter().enumerate() {
                word.load(Ordering::Relaxed);
                reader_at.store(round + 1, Ordering::Release);
                wait(&writer_at, round + 1);
                dawdle(round % 7);
                touch();
                let guard = r.pin(&reader);
                let before = !word.load(Ordering::Acquire);
                wait(&asked, round + 1);
                drop(guard);
                seen_before.push(before);
            }
            seen_before
        });
        let mut passed = Vec::new();
        for (round, [word, ..]) in unlinked.iter().enumerate() {
            touch();
            writer_at.store(round + 1, Ordering::Release);
            wait(&reader_at, round + 1);
            dawdle(round % 11);
            word.store(true, Ordering::Release);
            let stamp = r.stamp();
            passed.push(r.has_passed(&stamp));
            asked.store(round + 1, Ordering::Release);
        }
        let seen_before = reader.join().unwrap();
        let both = passed.iter().zip(&seen_before).filter(|(passed, before)| **passed && **before).count();
        assert_eq!(both, 0, "rounds of {ROUNDS} in which a stamp passed that a guard should have held up");
    });
}

/// One writer swaps a pointer, and frees what it took out once its stamp has passed; readers follow
/// the pointer. Freeing here only marks a place as freed.
fn nobody_sees_what_was_freed<R: Reclaim + Sync>(r: &R) {
    const ROUNDS: usize = if cfg!(miri) { 20 } else { 20_000 };
    let places: Vec<AtomicBool> = (0..ROUNDS + 1).map(|_| AtomicBool::new(true)).collect();
    let current = AtomicUsize::new(0);
    let (start, over) = (Barrier::new(3), AtomicBool::new(false));
    let looks: usize = thread::scope(|scope| {
        let look = || {
            let (reader, mut looks) = (r.reader(), 0);
            start.wait();
            while looks == 0 || !over.load(Ordering::Relaxed) {
                let guard = r.pin(&reader);
                let at = current.load(Ordering::Acquire);
                for _ in 0..4 {
                    assert!(places[at].load(Ordering::Relaxed), "freed while it is looked at");
                }
                drop(guard);
                looks += 1;
            }
            looks
        };
        let readers = [scope.spawn(look), scope.spawn(look)];
        let mut waiting = VecDeque::new();
        start.wait();
        let since = Instant::now();
        for next in 1..=ROUNDS {
            let old = current.swap(next, Ordering::AcqRel);
            waiting.push_back((old, r.stamp()));
            while waiting.front().is_some_and(|(_, stamp)| r.has_passed(stamp)) {
                let (old, _) = waiting.pop_front().unwrap();
                places[old].store(false, Ordering::Relaxed);
            }
            if since.elapsed() > Duration::from_secs(2) {
                break;
            }
        }
        for (_, stamp) in &waiting {
            comes(r, stamp);
        }
        over.store(true, Ordering::Relaxed);
        readers.into_iter().map(|reader| reader.join().unwrap()).sum()
    });
    assert!(looks > 0);
}

/// All tests, and those of registrations that are found by thread.
#[cfg(feature = "std")]
fn all<R: PinHere + Sync>(r: &R)
where
    R::Stamp: Sync,
{
    by_registration(r);
    another_thread(r, || r.pin_here());
    // The thread's own registration and one made by hand are distinct.
    let (here, reader) = (r.pin_here(), r.reader());
    let stamp = r.stamp();
    drop((r.pin_here(), r.pin(&reader)));
    stays_away(r, &stamp);
    drop(here);
    comes(r, &stamp);
}

#[cfg(not(feature = "std"))]
use by_registration as all;

/// Whether crossbeam-epoch can run: under Miri only with Tree Borrows, because it gets from a
/// reference to a first field to the whole object.
fn epochs_run(test: &str) -> bool {
    let run = !cfg!(miri) || std::env::var_os("SAMARA_TREE_BORROWS").is_some();
    if !run {
        std::eprintln!(
            "skipped: {test}: crossbeam-epoch is not made for Stacked Borrows; ci/miri.sh runs it with Tree Borrows"
        );
    }
    run
}

#[test]
fn epoch() {
    if epochs_run("epoch") {
        all(&Epoch::new());
    }
}

#[test]
fn membarrier() {
    let r = Membarrier::new();
    if !r.is_expedited() {
        std::eprintln!("skipped: membarrier(2): not to be had here; fences instead");
    }
    all(&r);
}

#[test]
fn fenced() {
    all(&Fenced);
}

#[test]
fn fenced_domain() {
    all(&FencedDomain::new());
    domains_come_and_go();
}

/// A guard of one value holds up its own stamps alone; a guard without a reader all.
#[test]
#[cfg(feature = "std")]
fn a_domain_of_its_own() {
    let [one, other] = [(); 2].map(|()| FencedDomain::new());
    let guard = one.pin(&one.reader());
    let stamps = (one.stamp(), other.stamp());
    comes(&other, &stamps.1);
    stays_away(&one, &stamps.0);
    // A guard may outlive its value.
    drop(one);
    let next = FencedDomain::new();
    comes(&next, &next.stamp());
    drop(guard);
    let guard = next.pin_here();
    let stamps = (next.stamp(), other.stamp());
    stays_away(&next, &stamps.0);
    stays_away(&other, &stamps.1);
    drop(guard);
    comes(&next, &stamps.0);
    comes(&other, &stamps.1);
}

/// Values are made and dropped by several threads, beside readers in other threads that end later.
fn domains_come_and_go() {
    let work = || {
        for _ in 0..OFTEN {
            let one = FencedDomain::new();
            thread::scope(|scope| {
                scope.spawn(|| drop(one.pin(&one.reader())));
                let guard = one.pin(&one.reader());
                let stamp = one.stamp();
                assert!(!one.has_passed(&stamp));
                drop(guard);
                comes(&one, &stamp);
            });
        }
    };
    thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work))));
}

#[test]
fn quiescent() {
    // SAFETY: nothing is unlinked.
    let r = unsafe { Quiescent::new() };
    r.pin(&r.reader());
    r.pin_here();
    assert!(r.has_passed(&r.stamp()));
}

/// A guard is made in the destructor of a thread-local, when the thread's registration is gone or
/// was never made.
#[cfg(feature = "std")]
fn at_the_end_of_a_thread(pin: fn()) {
    struct AtEnd(fn());
    impl Drop for AtEnd {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    std::thread_local! {
        static AT_END: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
    }
    let late = move || AT_END.set(Some(AtEnd(pin)));
    // Thread-locals are dropped in the order in which they were made, or in the opposite order. In
    // one of the two rounds the registration is gone by then.
    for round in 0..3 {
        let thread = thread::spawn(move || match round {
            0 => (late(), pin()),
            1 => (pin(), late()),
            _ => (late(), ()),
        });
        thread.join().unwrap();
    }
}

#[test]
#[cfg(feature = "std")]
fn threads_that_end() {
    fn pinned<R: PinHere + Default>() {
        drop(R::default().pin_here());
    }
    fn passes<R: Reclaim + Default>() {
        let r = R::default();
        comes(&r, &r.stamp());
    }
    at_the_end_of_a_thread(pinned::<Membarrier>);
    at_the_end_of_a_thread(|| drop(Fenced.pin_here()));
    passes::<Membarrier>();
    comes(&Fenced, &Fenced.stamp());
    if epochs_run("threads_that_end") {
        at_the_end_of_a_thread(pinned::<Epoch>);
        passes::<Epoch>();
    }
}
