//! Waiting for a range lock, and nothing else: `held` of samara-mm, without sleepers (which
//! `range_locks` has).

use crate::explore::Looks;
use crate::range_lock::{Mode, Request, Spans, Standing};

/// Has a range lock for the thread of this rank.
pub(crate) fn hold(requests: &[Request], rank: usize, spans: Spans) {
    let others = || requests.iter().enumerate().filter(|(other, _)| *other != rank);
    let turn = requests[rank].ask(rank, spans, Mode::Change, || others().map(|(_, other)| other)); // see `load_own`
    for (other, request) in others() {
        let mut looks = Looks::default();
        while request.standing(other, &turn) != Standing::Passed {
            looks.look_again();
        }
    }
}
