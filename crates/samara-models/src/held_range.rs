//! Waiting for a range lock, and nothing else: `held` of samara-mm, without sleepers (which
//! `range_locks` has).

use crate::explore::Looks;
use crate::range_lock::{Mode, Request, Spans, last_before};

/// Has a range lock for the thread of this rank.
pub(crate) fn hold(requests: &[Request], rank: usize, spans: Spans) {
    hold_after(requests, rank, spans, || ());
}

/// [`hold`], which waits for something between its request and its look at the others.
pub(crate) fn hold_after(requests: &[Request], rank: usize, spans: Spans, wait: impl FnOnce()) {
    let others = || requests.iter().enumerate().filter(|(other, _)| *other != rank);
    let turn = requests[rank].ask(rank, spans, Mode::Change, || others().map(|(_, other)| other)); // see `load_own`
    wait();
    let next = || {
        let mut looks = Looks::default();
        last_before(&turn, others(), |_| looks.look_again())
    };
    while let Some(before) = next() {
        let mut looks = Looks::default();
        while before.is_before(&turn) {
            looks.look_again();
        }
    }
}
