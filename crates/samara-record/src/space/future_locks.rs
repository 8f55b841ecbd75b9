//! The effect of `mlockall` on later maps. No file of `/proc` shows it before there is such a map.
//! After overlapped calls there may be several answers; the next map that shows the effect settles
//! it.
//!
//! It does not know how locks change areas. Neighbours: `overlap` finds the calls that may be the
//! last.
//!
//! - **FUTURE-LOCKS-1** only new memory of a call settles an answer (a break that moves within its
//!   page makes none). The call must have entered the kernel after all calls that may be the last
//!   had returned, and no other call may have locked that memory.

use samara_mm::LockKind;
use samara_trace::calls::Call;

use crate::os::proc;
use crate::os::sys;
use crate::space::overlap::last_of;
use crate::space::reach::meets;
use crate::space::{Returned, Space};

/// The request of a call that may be the last one for later maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    kind: Option<LockKind>,
    /// When the call was seen to have returned.
    exit_ns: u64,
}

/// The known answers for later maps.
pub(crate) type Known = (Option<LockKind>, Vec<Said>);

/// A call's request for later maps. `None`: it has none.
fn said(call: &Returned) -> Option<Said> {
    let bits = call.decoded.args[0] as i32;
    let kind = match call.decoded.call {
        _ if call.failed() => return None,
        Call::Munlockall => None,
        Call::Mlockall if bits & libc::MCL_FUTURE == 0 => None,
        Call::Mlockall if bits & libc::MCL_ONFAULT != 0 => Some(LockKind::OnFault),
        Call::Mlockall => Some(LockKind::Now),
        _ => return None,
    };
    Some(Said { kind, exit_ns: call.who.exit_ns })
}

impl Space {
    /// Makes the answer unknown, if anything is locked: `mlockall` may have been called before the
    /// recording.
    pub(crate) fn doubt_future_locks(&mut self) {
        let kinds = [None, Some(LockKind::Now), Some(LockKind::OnFault)];
        if self.model.areas().any(|a| a.area.flags.contains(samara_mm::Flags::LOCKED)) {
            self.future_locks = kinds.map(|kind| Said { kind, exit_ns: 0 }).into();
        }
    }

    /// Whether all calls that may be the last made the same request for later maps.
    pub(crate) fn future_locks_are_known(&self) -> bool {
        self.future_locks.windows(2).all(|two| two[0].kind == two[1].kind)
    }

    /// Saves the known answers for later maps, to be put back by [`Space::put_back_future_locks`].
    pub(crate) fn save_future_locks(&self) -> Known {
        (self.model.future_locks(), self.future_locks.clone())
    }

    pub(crate) fn put_back_future_locks(&mut self, (kind, said): Known) {
        self.model.set_future_locks(kind);
        self.future_locks = said;
    }

    /// Sets the answers after these calls, in whichever order they were applied. The calls that may
    /// have been the last count, also those that were reported before.
    pub(crate) fn find_future_locks(&mut self, calls: &[Returned]) {
        let mut all: Vec<Said> = last_of(calls, |c| said(c).is_some()).into_iter().filter_map(said).collect();
        if all.is_empty() {
            return;
        }
        let before = |former: &Said| calls.iter().any(|c| said(c).is_some() && former.exit_ns <= c.go_ns);
        let former: Vec<Said> = self.future_locks.iter().filter(|f| !before(f) && !all.contains(f)).copied().collect();
        all.extend(former);
        self.model.set_future_locks(all[0].kind);
        self.future_locks = all;
    }

    /// Settles the answer before overlapped calls are applied, by new memory of one of them that no
    /// other one reaches.
    pub(crate) fn settle_future_locks_by(&mut self, calls: &[Returned]) {
        if self.future_locks_are_known() {
            return;
        }
        for (i, call) in calls.iter().enumerate() {
            let own = self.ranges(call);
            let others = calls.iter().enumerate().filter(|(j, _)| *j != i);
            if !others.flat_map(|(_, other)| self.reaches(other)).any(|reach| meets(&own, reach)) {
                self.settle_future_locks(call);
            }
        }
    }

    /// Settles the answer before a call is applied, if the call's new memory shows it
    /// (FUTURE-LOCKS-1). A call of mlockall or munlockall settles it anyway.
    pub(crate) fn settle_future_locks(&mut self, call: &Returned) {
        if self.future_locks_are_known() || call.failed() {
            return;
        }
        if said(call).is_some() {
            return self.future_locks.retain(|former| former.exit_ns > call.go_ns);
        }
        let beside = self.future_locks.iter().any(|former| former.exit_ns > call.go_ns);
        if beside || self.raced(call, &self.ranges(call)) {
            return;
        }
        // Droppable memory and huge pages are never locked.
        let plain = libc::MAP_ANONYMOUS | libc::MAP_LOCKED | libc::MAP_HUGETLB | libc::MAP_DROPPABLE;
        let at = match call.decoded.call {
            Call::Mmap if call.decoded.args[3] as i32 & plain == libc::MAP_ANONYMOUS => call.result as u64,
            Call::Shmat => call.result as u64,
            Call::Brk if self.heap_page_end() < call.result as u64 => call.result as u64 - 1,
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
        if self.future_locks.iter().any(|said| said.kind == shown) {
            self.model.set_future_locks(shown);
            self.future_locks.retain(|said| said.kind == shown);
        }
    }

    /// The end of the last page that the heap may have had.
    fn heap_page_end(&self) -> u64 {
        let brk = self.breaks.iter().copied().fold(self.model.layout().brk, u64::max);
        brk.next_multiple_of(sys::page_size())
    }
}
