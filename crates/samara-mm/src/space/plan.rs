//! Plans: the steps that a call made. Knows no rule.

use crate::area::advice::Advice;
use crate::area::flags::Flags;
use crate::errno::Errno;
use crate::space::error::Error;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;

/// A step of a call, on the range `[start, end)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    /// The kind of step.
    pub kind: StepKind,
    /// First address of the range.
    pub start: u64,
    /// First address after it. Equal to `start` for [`StepKind::Split`] and [`StepKind::Merged`].
    pub end: u64,
}

/// The kinds of [`Step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StepKind {
    /// The range was mapped and no longer is: a whole area, or its head or tail.
    Unmapped,
    /// The range was not mapped, or no longer mapped, and is now. Protection, file and offset are
    /// those of the request; for `mremap`, those of the old range.
    Mapped,
    /// An area was cut at `start`, and both sides stayed.
    Split,
    /// Two areas that touched at `start` became one.
    Merged,
    /// Attributes changed: flags, policy, registration, name. An anonymous identity counts if
    /// a move took it away, but not if a write gave it.
    Changed(FlagChange),
    /// The memory moved away from here, to the start of the last `Mapped` before this step: an
    /// embedder that carries it out by `mremap` looks ahead. An `Unmapped` after it is the part of
    /// the old range that is gone (none with MREMAP_DONTUNMAP).
    Moved,
    /// The area stays, but advice of this kind discards the content of its pages:
    ///
    /// - [`Advice::DontNeed`], [`Advice::DontNeedLocked`]: at once. Then the area shows its object
    ///   again: zeros, or a file.
    /// - [`Advice::Free`]: at any time, page by page, until the page is written again.
    /// - [`Advice::Remove`]: from the file itself, for all its maps.
    /// - [`Advice::GuardInstall`]: at once, and no access is allowed there.
    /// - [`Advice::WipeOnFork`]: in a child ([`AddressSpace::fork_plan`]).
    ///
    /// [`AddressSpace::fork_plan`]: crate::AddressSpace::fork_plan
    Discarded(Advice),
}

/// The flags of an area before and after [`StepKind::Changed`], as far as calls change them
/// ([`FlagChange::FLAGS`]). All other flags stay the same for the area's life. Before and after are
/// equal if only other attributes changed, such as a policy or a name.
///
/// ```
/// use samara_mm::{AddressSpace, Config, FileId, Flags, MapRequest, Prot, StepKind};
/// let mut space = AddressSpace::<FileId>::new(Config::default());
/// space.map(&MapRequest::anonymous(0x10000, 0x1000, Prot::RW))?;
/// let plan = space.protect(0x10000, 0x1000, Prot::READ, None)?;
/// let StepKind::Changed(change) = plan[0].kind else { panic!("{plan}") };
/// assert!((change.before() - change.after()).contains(Flags::WRITE));
/// # Ok::<(), samara_mm::Error>(())
/// ```
///
/// The default has no flags, neither before nor after. Steps of `samara-trace` always have the
/// default: a trace does not record the flags of areas.
// Seven bytes, so that a step takes three words.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct FlagChange([u8; 7]);

/// The runs of bits that hold the flags which calls change: first bit and number of bits.
const RUNS: [(u32, u32); 5] = [(0, 3), (9, 12), (25, 11), (41, 1), (63, 1)];
/// Number of bits in all runs.
const PACKED: u32 = 28;

impl FlagChange {
    /// The flags that calls change: protection with its key, locks, advice, registrations, seals,
    /// the charge, and sticky flags. (Includes a few that no call changes.)
    pub const FLAGS: Flags = {
        let (mut all, mut i) = (0, 0);
        while i < RUNS.len() {
            all |= ((1 << RUNS[i].1) - 1) << RUNS[i].0;
            i += 1;
        }
        Flags::from_bits_retain(all)
    };

    #[inline]
    pub(crate) fn new(old: Flags, new: Flags) -> FlagChange {
        let [a, b, c, d, e, f, g, _] = (pack(old) | pack(new) << PACKED).to_le_bytes();
        FlagChange([a, b, c, d, e, f, g])
    }

    /// The flags of [`FlagChange::FLAGS`] that the area had before.
    pub fn before(self) -> Flags {
        unpack(self.bits() & ((1 << PACKED) - 1))
    }

    /// The flags of [`FlagChange::FLAGS`] that the area has now.
    pub fn after(self) -> Flags {
        unpack(self.bits() >> PACKED)
    }

    fn bits(self) -> u64 {
        let [a, b, c, d, e, f, g] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, g, 0])
    }
}

impl fmt::Debug for FlagChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlagChange").field("before", &self.before()).field("after", &self.after()).finish()
    }
}

#[inline]
fn pack(flags: Flags) -> u64 {
    let put =
        |(packed, at), (first, len): (u32, u32)| (packed | (flags.bits() >> first & ((1 << len) - 1)) << at, at + len);
    RUNS.into_iter().fold((0, 0), put).0
}

fn unpack(packed: u64) -> Flags {
    let take = |(bits, at), (first, len): (u32, u32)| (bits | (packed >> at & ((1 << len) - 1)) << first, at + len);
    Flags::from_bits_retain(RUNS.into_iter().fold((0, 0), take).0)
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.kind {
            StepKind::Unmapped => "unmapped",
            StepKind::Mapped => "mapped",
            StepKind::Split => return write!(f, "split at {:x}", self.start),
            StepKind::Merged => return write!(f, "merged at {:x}", self.start),
            StepKind::Changed(_) => "changed",
            StepKind::Moved => "moved",
            StepKind::Discarded(_) => "discarded",
        };
        write!(f, "{name} {:x}-{:x}", self.start, self.end)
    }
}

/// The steps of one call, in order. A slice of [`Step`].
///
/// A plan lists the changes of areas (their ranges and attributes), and the memory that lost its
/// content: `Unmapped`, `Moved` away or `Discarded`. It does not list written memory (`touch`,
/// MAP_POPULATE, `mlock`, advice that writes). A write only gives an anonymous identity, which
/// decides later merges.
///
/// Each step is true at its position: `Split` adds one area, `Merged` removes one, `Mapped` adds
/// one (before it merges), `Unmapped` removes one area or a part of one.
#[derive(Clone)]
pub struct Plan(Steps);

/// The storage of a plan. Most calls have so few steps that they need no allocation.
#[derive(Clone, Debug)]
enum Steps {
    Few { len: usize, steps: [Step; FEW] },
    Many(Vec<Step>),
}

/// Number of steps of a call that replaces an area and joins both neighbours.
const FEW: usize = 4;

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plan({self})")
    }
}

impl Plan {
    #[inline]
    pub(crate) const fn new() -> Plan {
        let none = Step { kind: StepKind::Unmapped, start: 0, end: 0 };
        Plan(Steps::Few { len: 0, steps: [none; FEW] })
    }

    /// Reserves room for `n` more steps, so that pushing them cannot fail.
    #[inline]
    pub(crate) fn reserve(&mut self, n: usize) -> Result<(), Errno> {
        match &self.0 {
            Steps::Few { len, .. } if len.saturating_add(n) <= FEW => Ok(()),
            _ => self.reserve_more(n),
        }
    }

    #[cold]
    fn reserve_more(&mut self, n: usize) -> Result<(), Errno> {
        match &mut self.0 {
            Steps::Few { len, steps } => {
                let mut many = Vec::new();
                many.try_reserve(len.saturating_add(n)).map_err(|_| Errno::ENOMEM)?;
                many.extend_from_slice(steps.get(..*len).unwrap_or_default());
                self.0 = Steps::Many(many);
                Ok(())
            }
            Steps::Many(many) => many.try_reserve(n).map_err(|_| Errno::ENOMEM),
        }
    }

    /// Number of steps that the allocation has room for; 0 without one.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        if let Steps::Many(many) = &self.0 { many.capacity() } else { 0 }
    }

    #[inline]
    pub(crate) fn push(&mut self, kind: StepKind, start: u64, end: u64) {
        if let Steps::Few { len, steps } = &mut self.0
            && let Some(step) = steps.get_mut(*len)
        {
            // Field by field: a step built elsewhere and copied here would wait for the writes of
            // its fields.
            (step.kind, step.start, step.end) = (kind, start, end);
            *len += 1;
            return;
        }
        self.push_more(Step { kind, start, end });
    }

    #[cold]
    fn push_more(&mut self, step: Step) {
        match &mut self.0 {
            Steps::Few { steps, .. } => self.0 = Steps::Many(steps.iter().copied().chain([step]).collect()),
            Steps::Many(many) => many.push(step),
        }
    }

    /// Removes all but the first `to` steps.
    #[inline]
    pub(crate) fn truncate(&mut self, to: usize) {
        match &mut self.0 {
            Steps::Few { len, .. } => *len = (*len).min(to),
            Steps::Many(many) => many.truncate(to),
        }
    }

    /// The steps.
    #[inline]
    pub fn steps(&self) -> &[Step] {
        match &self.0 {
            Steps::Few { len, steps } => steps.get(..*len).unwrap_or_default(),
            Steps::Many(many) => many,
        }
    }

    /// Runs `act` on a new plan and returns its value with the plan, or its error with the plan.
    pub(crate) fn of<T>(act: impl FnOnce(&mut Plan) -> Result<T, Errno>) -> Result<(T, Plan), Error> {
        let mut plan = Plan::new();
        match act(&mut plan) {
            Ok(value) => Ok((value, plan)),
            Err(errno) => Err(Error { errno, done: plan }),
        }
    }

    /// Number of steps of this kind.
    pub fn count(&self, kind: StepKind) -> usize {
        self.steps().iter().filter(|s| s.kind == kind).count()
    }
}

impl Default for Plan {
    fn default() -> Plan {
        Plan::new()
    }
}

impl PartialEq for Plan {
    fn eq(&self, other: &Plan) -> bool {
        self.steps() == other.steps()
    }
}

impl Eq for Plan {}

impl Deref for Plan {
    type Target = [Step];
    #[inline]
    fn deref(&self) -> &[Step] {
        self.steps()
    }
}

impl<'a> IntoIterator for &'a Plan {
    type Item = &'a Step;
    type IntoIter = core::slice::Iter<'a, Step>;
    fn into_iter(self) -> Self::IntoIter {
        self.steps().iter()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, s) in self.steps().iter().enumerate() {
            write!(f, "{}{s}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_packed_and_unpacked() {
        assert_eq!((size_of::<StepKind>(), size_of::<Step>(), size_of::<Plan>()), (8, 24, 104));
        assert_eq!(RUNS.iter().map(|run| run.1).sum::<u32>(), PACKED);
        for bit in 0..64 {
            let one = Flags::from_bits_retain(1 << bit);
            for (old, new) in [(one, Flags::empty()), (Flags::empty(), one), (one, Flags::all()), (Flags::all(), one)] {
                let change = FlagChange::new(old, new);
                assert_eq!(
                    (change.before(), change.after()),
                    (old & FlagChange::FLAGS, new & FlagChange::FLAGS),
                    "bit {bit}"
                );
            }
        }
        let changed =
            Flags::ACCESS | Flags::PKEY | Flags::LOCK | Flags::UFFD | Flags::SEALED | Flags::STICKY | Flags::ACCOUNT;
        let advised = Flags::from_letters("sr rr dc wf dd hg nh mg");
        assert!(FlagChange::FLAGS.contains(changed | advised));
    }
}
