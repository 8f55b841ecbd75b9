//! *Beside*: two store beside one another, each with a record, while a third one must be alone.
//! What is done alone changes what they read, and reads what each of them changed. The gate is the
//! real one.
//!
//! Fails with: no fence in `enter`, or none in `close` (both find that the other is not there);
//! going out, or opening again, with Relaxed (what was done inside is not ordered with what is done
//! alone).

use crate::body::Body;
use crate::fences::model;
use crate::writer_gate::{WriterGate, WriterRecord};
use loom::sync::Arc;
use loom::thread;

struct Shared {
    gate: WriterGate<()>,
    /// Changed by who is alone, read by who is in.
    whole: Body<u32>,
    /// Changed by the writer that has that record.
    parts: [Body<u32>; 2],
}

/// Once, if it may come in.
fn store(shared: &Shared, record: &WriterRecord<()>, part: usize) {
    if let Some(_inside) = shared.gate.enter(record) {
        shared.parts[part].set(10 + shared.whole.read());
    }
}

#[test]
fn beside() {
    model("beside", Some(3), || {
        let shared =
            Arc::new(Shared { gate: WriterGate::new(), whole: Body::of(0), parts: [Body::of(1), Body::of(2)] });
        let threads: Vec<_> = (0..2)
            .map(|part| {
                // SAFETY: nobody else is there yet.
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
            let _alone = shared.gate.close();
            shared.whole.set(shared.whole.read() + 1);
            shared.parts.iter().for_each(|part| assert!(part.read() > 0));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// WriterGate are taken under the lock that who is alone holds: the empty list need not be closed.
#[test]
fn first_seat() {
    model("first_seat", None, || {
        let shared = Arc::new((loom::sync::Mutex::new(()), WriterGate::new(), Body::of(0)));
        let other = shared.clone();
        let thread = thread::spawn(move || {
            let (lock, gate, whole) = &*other;
            let held = lock.lock().unwrap();
            // SAFETY: whoever closes the gate holds the lock.
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
            let _alone = gate.close();
            whole.set(whole.read() + 1);
        }
        thread.join().unwrap();
    });
}
