//! *Writer gate*: two threads store concurrently, each with a record of the gate, while a third one
//! needs exclusive access. That one changes what they read, and reads what each of them changed.
//! The gate is that of the crate.
//!
//! Fails with: no fence in `enter`, or none in `close` (neither sees the other); leaving, or
//! opening the gate again, with Relaxed (what was done inside is not ordered with the exclusive
//! access); a record that is taken, given back, pushed or found (`counted_meanwhile`) with Relaxed.

use crate::explore::model;
use crate::node_body::Body;
use crate::sync::{AtomicBool, Ordering};
use crate::writer_gate::{Look, WriterGate, WriterRecord};
use loom::sync::Arc;
use loom::thread;

struct Shared {
    gate: WriterGate<()>,
    /// Changed with exclusive access, read by a writer that is inside.
    whole: Body<u32>,
    /// Changed by the writer that has the record of this number.
    parts: [Body<u32>; 2],
}

/// Stores once, if the gate is open.
fn store(shared: &Shared, record: &WriterRecord<()>, part: usize) {
    if let Some(_inside) = shared.gate.enter(record) {
        shared.parts[part].set(10 + shared.whole.read());
    }
}

#[test]
fn gate() {
    model("gate", Some(3), || {
        let shared =
            Arc::new(Shared { gate: WriterGate::new(), whole: Body::of(0), parts: [Body::of(1), Body::of(2)] });
        let threads: Vec<_> = (0..2)
            .map(|part| {
                // SAFETY: no other thread uses the gate yet.
                let record: *const WriterRecord<()> = unsafe { shared.gate.take(|| ()).expect("memory") };
                let (shared, record) = (shared.clone(), record as usize);
                thread::spawn(move || {
                    // SAFETY: the list lives as long as `shared`.
                    let record = unsafe { &*(record as *const WriterRecord<()>) };
                    store(&shared, record, part);
                    record.give_back();
                })
            })
            .collect();
        for _ in 0..2 {
            let _exclusive = shared.gate.close();
            shared.whole.set(shared.whole.read() + 1);
            shared.parts.iter().for_each(|part| assert!(part.read() > 0));
        }
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

/// A thread takes something away and looks for writers that may have come to it. Two writers go
/// inside twice each meanwhile. The model fails if `have_left` has no fence, or if it returns true
/// while a writer is inside.
#[test]
fn writers_have_left() {
    model("writers_have_left", Some(2), || {
        let shared = Arc::new((WriterGate::new(), AtomicBool::new(true), Body::of(7)));
        // SAFETY: no other thread uses the gate yet.
        let take = || unsafe { shared.0.take(|| ()).expect("memory") };
        let own: *const WriterRecord<()> = take();
        let writers: [*const WriterRecord<()>; 2] = [take(), take()];
        let threads = writers.map(|record| {
            let (shared, record) = (shared.clone(), record as usize);
            thread::spawn(move || {
                let (gate, is_there, thing) = &*shared;
                // SAFETY: the list lives as long as `shared`.
                let record = unsafe { &*(record as *const WriterRecord<()>) };
                for _ in 0..2 {
                    let _inside = gate.enter(record).expect("no thread closes the gate");
                    if is_there.load(Ordering::Acquire) {
                        assert_eq!(thing.read(), 7, "it was taken away from under a writer");
                    }
                }
            })
        });
        let (gate, is_there, thing) = &*shared;
        is_there.store(false, Ordering::Release);
        let mut look = Look::new();
        // SAFETY: the list lives as long as `shared`.
        let have_left = |look: &mut Look| gate.have_left(look, unsafe { &*own });
        if have_left(&mut look) || have_left(&mut look) {
            thing.set(8);
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!((0..2).any(|_| have_left(&mut look)), "they are outside");
    });
}

/// Records are taken under the lock that exclusive access holds, so a gate without records need not
/// be closed.
#[test]
fn first_record() {
    model("first_record", None, || {
        let shared = Arc::new((loom::sync::Mutex::new(()), WriterGate::new(), Body::of(0)));
        let other = shared.clone();
        let thread = thread::spawn(move || {
            let (lock, gate, whole) = &*other;
            let held = lock.lock().unwrap();
            // SAFETY: only a thread that holds the lock closes the gate.
            let record = unsafe { gate.take(|| ()).expect("memory") };
            drop(held);
            if let Some(_inside) = gate.enter(record) {
                whole.read();
            }
            if let Some(_inside) = gate.enter(record) {
                whole.read();
            }
        });
        for _ in 0..2 {
            let (lock, gate, whole) = &*shared;
            let _held = lock.lock().unwrap();
            let _exclusive = gate.close();
            whole.set(whole.read() + 1);
        }
        thread.join().unwrap();
    });
}

/// A thread counts while records are taken: only the list itself orders the two.
#[test]
fn counted_meanwhile() {
    model("counted_meanwhile", None, || {
        let gate = Arc::new(WriterGate::new());
        let other = gate.clone();
        let thread = thread::spawn(move || {
            for len in 1..=2 {
                // SAFETY: no other thread takes a record or closes the gate.
                let record = unsafe { other.take(|| ()).expect("memory") };
                record.len.store(len, Ordering::Relaxed);
            }
        });
        for _ in 0..2 {
            assert!([0, 1, 3].contains(&gate.len()));
        }
        thread.join().unwrap();
        assert_eq!(gate.len(), 3);
    });
}
