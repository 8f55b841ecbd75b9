//! What `mlockall` says about later maps. No file of `/proc` shows it before there is such a map.
//! After overlapped calls there may be several answers; the next map that shows it settles it.
//!
//! It does not know how locks change areas. Neighbours: `overlap` says which calls may be the last.

use samara_mm::LockKind;

use crate::calls::Call;
use crate::os::proc;
use crate::space::overlap::last_of;
use crate::space::{Returned, Space};

/// What a call says about later maps. `None`: nothing.
fn said(call: &Returned) -> Option<Option<LockKind>> {
    let bits = call.decoded.args[0] as i32;
    match call.decoded.call {
        _ if call.failed() => None,
        Call::Munlockall => Some(None),
        Call::Mlockall if bits & libc::MCL_FUTURE == 0 => Some(None),
        Call::Mlockall if bits & libc::MCL_ONFAULT != 0 => Some(Some(LockKind::OnFault)),
        Call::Mlockall => Some(Some(LockKind::Now)),
        _ => None,
    }
}

impl Space {
    /// Sets what these calls said about later maps, whatever the order in which they were applied:
    /// the calls that may have been the last count.
    pub(crate) fn find_future_locks(&mut self, calls: &[Returned]) {
        let mut all: Vec<Option<LockKind>> =
            last_of(calls, |c| said(c).is_some()).into_iter().filter_map(said).collect();
        all.dedup();
        if let Some(first) = all.first() {
            self.model.set_future_locks(*first);
            self.future_locks = if all.len() > 1 { all } else { Vec::new() };
        }
    }

    /// Settles the answer before overlapped calls are applied, by the memory that one of them has
    /// made, if none of them says anything about later maps, and none locks or moves memory.
    pub(crate) fn settle_future_locks_by(&mut self, calls: &[Returned]) {
        let locks = |c: &Returned| matches!(c.decoded.call, Call::Mlock | Call::Mlock2 | Call::Munlock | Call::Mremap);
        if !calls.iter().any(|c| said(c).is_some() || locks(c)) {
            calls.iter().for_each(|call| self.settle_future_locks(call));
        }
    }

    /// Settles the answer before a call is applied, by the memory that the call has made, if that
    /// shows it.
    pub(crate) fn settle_future_locks(&mut self, call: &Returned) {
        if self.future_locks.is_empty() || call.failed() {
            return;
        }
        if said(call).is_some() {
            return self.future_locks.clear();
        }
        let plain = libc::MAP_ANONYMOUS | libc::MAP_LOCKED | libc::MAP_HUGETLB;
        let at = match call.decoded.call {
            Call::Mmap if call.decoded.args[3] as i32 & plain == libc::MAP_ANONYMOUS => call.result as u64,
            Call::Shmat => call.result as u64,
            Call::Brk if self.model.layout().brk < call.result as u64 => call.result as u64 - 1,
            _ => return,
        };
        let areas = proc::smaps(call.who.tid).unwrap_or_default();
        let Some(flags) = areas.iter().find(|a| a.start <= at && at < a.end).and_then(|a| a.flags.as_deref()) else {
            return;
        };
        let has = |flag: &str| flags.split_whitespace().any(|word| word == flag);
        let shown = match (has("lo"), has("lf")) {
            (false, _) => None,
            (_, true) => Some(LockKind::OnFault),
            _ => Some(LockKind::Now),
        };
        if self.future_locks.contains(&shown) {
            self.model.set_future_locks(shown);
            self.future_locks.clear();
        }
    }
}
