//! What is not known of a space, and no file shows: since calls overlapped, or since before anybody
//! looked.
//!
//! It does not know which calls overlapped. Neighbours: `overlap` puts in doubt, `compare` settles
//! from the kernel's areas, `heap` and `future_locks` say when their doubts end.

use samara_mm::{Flags, Object, Placed};
use samara_trace::calls::Call;

use crate::os::sys;
use crate::space::compare::Unknown;
use crate::space::model::{Inode, Model};
use crate::space::reach::{Range, meets};
use crate::space::{Returned, Space};

/// What is in doubt.
#[derive(Clone, Debug, Default)]
pub(crate) struct Doubt {
    /// Where the break is: the next `brk` shows it.
    pub(crate) brk: bool,
    /// How later maps are locked: the next map shows it.
    pub(crate) locks: bool,
    /// Which memory policies areas have. For an area of a file the kernel may show the file's
    /// policy only.
    policies: Vec<Range>,
    /// With which userfaultfd areas are registered.
    owners: Vec<Range>,
}

impl Doubt {
    /// That of a forked child.
    pub(crate) fn inherited(&self) -> Doubt {
        Doubt { locks: false, ..self.clone() }
    }

    /// What a comparison must not take for granted.
    pub(crate) fn unknown(&self, order: bool) -> Unknown<'_> {
        Unknown { foggy: &self.policies, disowned: &self.owners, order }
    }

    /// Puts the policies of files' areas in doubt.
    pub(crate) fn policies(&mut self, model: &Model, reach: &[Range]) {
        add(&mut self.policies, model, reach, |a| matches!(a.area.object, Object::File(_)));
    }

    /// Puts the userfaultfds of registered areas in doubt.
    pub(crate) fn owners(&mut self, model: &Model, reach: &[Range]) {
        add(&mut self.owners, model, reach, |a| a.area.flags.intersects(Flags::UFFD));
    }
}

impl Space {
    /// Notes what nothing shows after these calls, whose order is not known: the policies of files'
    /// areas, if one of them set a policy, and the userfaultfds of registered areas, if one of them
    /// registered memory or moved it.
    pub(crate) fn fog(&mut self, calls: &[Returned], reach: &[Range]) {
        let (model, doubt) = (&self.model, &mut self.doubt);
        let owns = |c: &Returned| matches!(c.decoded.call, Call::UffdRegister | Call::UffdUnregister | Call::Mremap);
        if calls.iter().any(owns) || reach.iter().any(|r| meets(&doubt.owners, *r)) {
            doubt.owners(model, reach);
        }
        if calls.iter().any(|c| c.decoded.call == Call::Mbind) || reach.iter().any(|r| meets(&doubt.policies, *r)) {
            doubt.policies(model, reach);
        }
    }

    /// Whether policies of files' areas are unknown in or next to these ranges.
    pub(crate) fn is_foggy(&self, reach: &[Range]) -> bool {
        self.span(reach, sys::page_size()).iter().any(|r| meets(&self.doubt.policies, *r))
    }

    /// Moves the ranges of unknown policies and userfaultfds: they move with memory, and end where
    /// a call sets a policy or registers, unmaps or maps.
    pub(crate) fn move_fog(&mut self, call: &Returned) {
        if self.doubt.policies.is_empty() && self.doubt.owners.is_empty() {
            return;
        }
        let reach = self.ranges(call);
        let both = [(&mut self.doubt.policies, Call::Mbind), (&mut self.doubt.owners, Call::UffdRegister)];
        for (ranges, settles) in both {
            match (call.decoded.call, reach.as_slice()) {
                (Call::Mremap, [source, target]) if meets(ranges, *source) => ranges.push(*target),
                (made, [end]) if [settles, Call::Munmap, Call::Mmap].contains(&made) && !call.failed() => {
                    cut(ranges, *end);
                }
                _ => {}
            }
        }
    }
}

/// Adds the areas in `reach` for which `are` holds. Ranges that meet become one.
fn add(ranges: &mut Vec<Range>, model: &Model, reach: &[Range], are: impl Fn(&Placed<'_, Inode>) -> bool) {
    let areas = reach.iter().flat_map(|(start, end)| model.areas_in(*start, *end));
    ranges.extend(areas.filter(are).map(|a| (a.start, a.end)));
    ranges.sort_unstable();
    ranges.dedup_by(|b, a| {
        let meet = b.0 <= a.1;
        a.1 = if meet { a.1.max(b.1) } else { a.1 };
        meet
    });
}

/// Cuts a range out of others.
fn cut(ranges: &mut Vec<Range>, (start, end): Range) {
    let apart = |(s, e): Range| [(s, e.min(start)), (s.max(end), e)].into_iter().filter(|(s, e)| s < e);
    *ranges = std::mem::take(ranges).into_iter().flat_map(apart).collect();
}
