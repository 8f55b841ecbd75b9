//! Explains the write sections of a task. Does not know what a call that matters changes.

use super::{Open, Tasks, UNEXPLAINED};
use crate::nostop::followed_space::Entry;
use crate::os::sys::Tid;

/// Calls that lock the areas without changing any: the number, and the first argument if it
/// matters. (Seen on Linux 6.18.)
const SPARE_AREAS: [(u32, Option<u64>); 3] = [
    (libc::SYS_pkey_alloc as u32, None),
    (libc::SYS_pkey_free as u32, None),
    (libc::SYS_prctl as u32, Some(libc::PR_SET_THP_DISABLE as u64)),
];

/// Whether a call locks the areas without changing any. `first`: its first argument.
pub(super) fn spares_areas(nr: u32, first: u64) -> bool {
    SPARE_AREAS.iter().any(|(spares, by)| *spares == nr && by.is_none_or(|by| by == first & 0xffff_ffff))
}

/// The numbers of those of them that are recorded for this reason only.
pub(in super::super) fn spare_areas() -> impl Iterator<Item = u32> {
    SPARE_AREAS.iter().filter(|spares| spares.1.is_none()).map(|spares| spares.0)
}

impl Tasks<'_> {
    /// A call that is not modelled returned: its sections stay unexplained, if it may change areas.
    pub(super) fn no_call(&mut self, tid: Tid, call: &Open) {
        let (now, is_lossy) = (self.now, self.is_lossy());
        if call.spares_areas {
            return self.explained(tid, &call.sections);
        }
        if !call.sections.is_empty()
            && let Some(place) = self.place_of(tid)
        {
            let has_cause = is_lossy || place.has_lost_events();
            place.doubt(UNEXPLAINED, false, now);
            self.seen.unexplained += if has_cause { 0 } else { call.sections.len() as u64 };
        }
        self.settle(tid, &call.sections, || Entry::Unknown(UNEXPLAINED, false));
    }

    /// These sections have a known cause, and change no area.
    pub(super) fn explained(&mut self, tid: Tid, sections: &[u64]) {
        self.settle(tid, sections, || Entry::Nothing);
    }

    /// A call with these sections has returned.
    fn settle(&mut self, tid: Tid, sections: &[u64], entry: impl Fn() -> Entry) {
        let now = self.now;
        let Some(place) = self.place_of(tid) else { return };
        place.left(tid, now);
        sections.iter().for_each(|number| place.fill(*number, entry()));
        let id = place.id;
        self.flush(id);
    }
}
