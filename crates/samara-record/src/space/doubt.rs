//! Facts of a space that are unknown and that no file shows, because calls overlapped, or because
//! the recorder came later.
//!
//! It does not know which calls overlapped. Neighbours: `overlap` adds doubts, `compare` settles
//! them from the kernel's areas, `heap` and `future_locks` settle those of the break and of locks.

use samara_mm::Object;
use samara_trace::calls::Call;

use crate::os::sys;
use crate::space::compare::Unknown;
use crate::space::model::Model;
use crate::space::reach::{self, Range, meets};
use crate::space::{Returned, Space};

/// The facts in doubt.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doubt {
    /// The place of the break, until the next `brk` shows it.
    pub(crate) brk: bool,
    /// How later maps are locked, until the next map shows it.
    pub(crate) locks: bool,
    /// Ranges with unknown memory policies. For an area of a file the kernel may show only the
    /// file's policy.
    policies: Vec<Range>,
}

impl Doubt {
    /// The doubts that a forked child inherits.
    pub(crate) fn inherited(&self) -> Doubt {
        Doubt { locks: false, ..self.clone() }
    }

    /// Whether the policies of some areas are in doubt.
    pub(crate) fn has_policies(&self) -> bool {
        !self.policies.is_empty()
    }

    /// The facts that a comparison must treat as unknown. `order`: so is the order of calls.
    pub(crate) fn unknown(&self, order: bool) -> Unknown<'_> {
        Unknown { unsure_policies: &self.policies, order }
    }

    /// Puts the policies of files' areas in doubt. Ranges that meet are merged.
    pub(crate) fn policies(&mut self, model: &Model, reach: &[Range]) {
        let areas = reach.iter().flat_map(|(start, end)| model.areas_in(*start, *end));
        let files = areas.filter(|a| matches!(a.area.object, Object::File(_)));
        self.policies.extend(files.map(|a| (a.start, a.end)));
        self.policies = reach::merged(std::mem::take(&mut self.policies));
    }
}

impl Space {
    /// Puts the policies of files' areas in doubt after calls of unknown order, if one of them set
    /// a policy.
    pub(crate) fn doubt_policies(&mut self, calls: &[Returned], reach: &[Range]) {
        let unknown = reach.iter().any(|r| meets(&self.doubt.policies, *r));
        if unknown || calls.iter().any(|c| c.decoded.call.sets_policies()) {
            self.doubt.policies(&self.model, reach);
        }
    }

    /// Whether policies of files' areas are unknown in or next to these ranges.
    pub(crate) fn has_doubtful_policies(&self, reach: &[Range]) -> bool {
        self.span(reach, sys::page_size()).iter().any(|r| meets(&self.doubt.policies, *r))
    }

    /// Moves the ranges of unknown policies: they move with memory, and end where a call sets a
    /// policy, unmaps or maps.
    pub(crate) fn move_doubt(&mut self, call: &Returned) {
        let reach = self.ranges(call);
        let ranges = &mut self.doubt.policies;
        match (call.decoded.call, reach.as_slice()) {
            (Call::Mremap, [source, target]) if meets(ranges, *source) => ranges.push(*target),
            (Call::Mbind | Call::Munmap | Call::Mmap, [(start, end)]) if !call.failed() => {
                *ranges = reach::without(std::mem::take(ranges), (*start, *end));
            }
            _ => {}
        }
    }
}
