//! Waiting for a range lock, and nothing else: `held` of samara-mm, without sleepers (which
//! `range_locks` has).

use crate::explore::Looks;
use crate::range_lock::{Mode, Request, Spans, last_before};

/// Has a range lock for the thread of this rank.
pub(crate) fn hold(requests: &[Request], rank: usize, spans: Spans) {
    let others = || requests.iter().enumerate().filter(|(other, _)| *other != rank);
    let turn = requests[rank].ask(rank, spans, Mode::Change, || others().map(|(_, other)| other)); // see `load_own`
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
