//! Tracks what `mlockall` says about later maps. `/proc` shows it only through such a map. After
//! overlapped calls it is in doubt, until a later map shows it.
//!
//! It does not know how locks change areas. Neighbours: `doubt` has the other facts in doubt.
//!
//! - **FUTURE-LOCKS-1** a doubt is settled only by new memory of a call (a break that moves within
//!   its page makes none) while no other call was in the kernel.

use samara_mm::{Flags, LockKind};
use samara_trace::calls::Call;

use crate::os::proc;
use crate::os::sys;
use crate::space::{Returned, Space};

/// A call's rule for later maps. `None`: it sets no rule; `Some(None)`: they are not locked.
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
    /// Puts the rule from before the recording in doubt, if anything is locked.
    pub(crate) fn doubt_former_locks(&mut self) {
        self.doubt.locks = self.model.areas().any(|a| a.area.flags.contains(Flags::LOCKED));
    }

    /// Puts the rule in doubt after these calls, whose order is unknown. The best guess is the rule
    /// of the last call to return.
    pub(crate) fn doubt_future_locks(&mut self, calls: &[Returned]) {
        let all = calls.iter().filter_map(|call| Some((call.who.exit_ns, said(call)?)));
        if let Some((_, kind)) = all.max_by_key(|(exit_ns, _)| *exit_ns) {
            self.model.set_future_locks(kind);
            self.doubt.locks = true;
        }
    }

    /// Settles the doubt before a call is applied: by the call's own rule, or by its new memory
    /// (FUTURE-LOCKS-1).
    pub(crate) fn settle_future_locks(&mut self, call: &Returned) {
        if call.failed() || call.overlapped {
            return;
        }
        if said(call).is_some() {
            self.doubt.locks = false;
            return;
        }
        // Droppable memory and huge pages are never locked.
        let plain = libc::MAP_ANONYMOUS | libc::MAP_LOCKED | libc::MAP_HUGETLB | libc::MAP_DROPPABLE;
        let heap_end = self.model.layout().brk.next_multiple_of(sys::page_size());
        let at = match call.decoded.call {
            Call::Mmap if call.decoded.args[3] as i32 & plain == libc::MAP_ANONYMOUS => call.result as u64,
            Call::Shmat => call.result as u64,
            Call::Brk if !self.doubt.brk && heap_end < call.result as u64 => call.result as u64 - 1,
            _ => return,
        };
        let areas = proc::smaps(call.who.tid).unwrap_or_default();
        let Some(flags) = areas.iter().find(|a| a.start <= at && at < a.end).and_then(|a| a.flags.as_deref()) else {
            return;
        };
        let flags = Flags::from_letters(flags);
        self.model.set_future_locks(match (flags.contains(Flags::LOCKED), flags.contains(Flags::LOCKONFAULT)) {
            (false, _) => None,
            (_, true) => Some(LockKind::OnFault),
            _ => Some(LockKind::Now),
        });
        self.doubt.locks = false;
    }
}
