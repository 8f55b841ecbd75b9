//! *Writer seats*: two threads store concurrently, each in a seat, while a third one needs
//! exclusive access. That one changes what they read, and reads what each of them changed. The
//! seats are those of the crate.
//!
//! Fails with: no fence in `enter`, or none in `close` (neither sees the other); leaving a seat, or
//! opening the seats, with Relaxed (what was done in a seat is not ordered with the exclusive
//! access).

use crate::explore::model;
use crate::node_body::Body;
use crate::writer_gate::{Seat, Seats};
use loom::sync::Arc;
use loom::thread;

struct Shared {
    seats: Seats<()>,
    /// Changed with exclusive access, read by a thread in a seat.
    whole: Body<u32>,
    /// Changed by the thread in that seat.
    parts: [Body<u32>; 2],
}

/// Stores once, if the seat may be entered.
fn store(shared: &Shared, seat: &Seat<()>, part: usize) {
    if let Some(_inside) = shared.seats.enter(seat) {
        shared.parts[part].set(10 + shared.whole.read());
    }
}

#[test]
fn writer_seats() {
    model("writer_seats", Some(3), || {
        let shared = Arc::new(Shared { seats: Seats::new(), whole: Body::of(0), parts: [Body::of(1), Body::of(2)] });
        let threads: Vec<_> = (0..2)
            .map(|part| {
                // SAFETY: no other thread uses the seats yet.
                let seat: *const Seat<()> = unsafe { shared.seats.take(|| ()).expect("memory") };
                let (shared, seat) = (shared.clone(), seat as usize);
                thread::spawn(move || {
                    // SAFETY: the list lives as long as `shared`.
                    let seat = unsafe { &*(seat as *const Seat<()>) };
                    store(&shared, seat, part);
                    seat.give_back();
                })
            })
            .collect();
        for _ in 0..2 {
            let _exclusive = shared.seats.close();
            shared.whole.set(shared.whole.read() + 1);
            shared.parts.iter().for_each(|part| assert!(part.read() > 0));
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// Seats are taken under the lock that exclusive access holds, so an empty list of seats need not
/// be closed.
#[test]
fn first_seat() {
    model("first_seat", None, || {
        let shared = Arc::new((loom::sync::Mutex::new(()), Seats::new(), Body::of(0)));
        let other = shared.clone();
        let thread = thread::spawn(move || {
            let (lock, seats, whole) = &*other;
            let held = lock.lock().unwrap();
            // SAFETY: only a thread that holds the lock closes the seats.
            let seat = unsafe { seats.take(|| ()).expect("memory") };
            drop(held);
            if let Some(_inside) = seats.enter(seat) {
                whole.read();
            }
            if let Some(_inside) = seats.enter(seat) {
                whole.read();
            }
        });
        for _ in 0..2 {
            let (lock, seats, whole) = &*shared;
            let _held = lock.lock().unwrap();
            let _exclusive = seats.close();
            whole.set(whole.read() + 1);
        }
        thread.join().unwrap();
    });
}
