//! The history of one piece of memory: the event that mapped it, and for each of its attributes the
//! event that changed that last. So a verdict about a protection names the call that set the
//! protection, even if a later call changed something else. Of areas it knows only why two are not
//! one.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU64;

use samara_mm::Advice;

use crate::calls::{Sets, row_of};
use crate::event::AreaRecord;
use crate::file::{flag_words, reason_name, reasons};
use crate::survey::{ACCESS, is_anonymous};

/// The reason of what no call and no file of `/proc` showed.
pub(super) const NOT_RECORDED: &str = "not-recorded";

/// In the number of an event: the area was there, and this is its address.
pub(super) const FOUND: u64 = 1 << 63;

/// Advice on huge pages.
const HUGEPAGE: u64 = Advice::HugePage as u64;
const NOHUGEPAGE: u64 = Advice::NoHugePage as u64;
/// Advice on what a child gets.
const WIPEONFORK: u64 = Advice::WipeOnFork as u64;
const KEEPONFORK: u64 = Advice::KeepOnFork as u64;

/// An event, as far as pieces remember it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Act {
    pub(super) site: u32,
    /// The thread.
    pub(super) tid: u32,
    pub(super) event: u64,
    pub(super) ns: u64,
}

impl Act {
    /// The thread. For found memory: a number that no other piece shares.
    pub(super) fn thread(self) -> u64 {
        if self.event & FOUND == 0 { u64::from(self.tid) } else { self.event }
    }
}

/// The last of these events.
pub(super) fn last(all: impl IntoIterator<Item = Option<Act>>) -> Option<Act> {
    all.into_iter().flatten().max_by_key(|act| act.event)
}

/// The flags that an advice sets or clears, as reasons name them. Empty: other than these.
fn set_by(advice: u64) -> &'static [&'static str] {
    match u32::try_from(advice).ok().and_then(Advice::from_raw) {
        Some(Advice::Normal | Advice::Random | Advice::Sequential) => &["random", "sequential"],
        Some(Advice::DontFork | Advice::DoFork) => &["dontfork"],
        Some(Advice::Mergeable | Advice::Unmergeable) => &["mergeable"],
        Some(Advice::NoHugePage) => &["hugepage", "nohugepage"],
        Some(Advice::DontDump | Advice::DoDump) => &["dontdump"],
        Some(Advice::WipeOnFork | Advice::KeepOnFork) => &["wipeonfork"],
        _ => &[],
    }
}

/// Where a range of memory comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// The event that mapped it.
    pub(super) made: Act,
    /// How many events the space had had by then.
    pub(super) at: u64,
    /// The event that last changed its protection.
    pub(super) protected: Option<Act>,
    /// The event that last changed other attributes: advice, policies, registrations, names.
    pub(super) flagged: Option<Act>,
    /// What that event sets, as reasons name it. Empty: not known.
    pub(super) flags_set: &'static [&'static str],
    /// The last event before it that set something else, and what.
    pub(super) flagged_before: Option<(Act, &'static [&'static str])>,
    /// The event that last locked or unlocked it.
    pub(super) locked: Option<Act>,
    /// The event that last asked for huge pages.
    pub(super) asked: Option<Act>,
    /// The event that last moved it.
    pub(super) moved: Option<Act>,
    /// Its memory policy is not known: a call has set it whose nodes were not read, or whose effect
    /// was not seen.
    pub(super) has_unsure_policy: bool,
    /// The event that mapped the memory in whose place it was mapped, by the same call.
    pub(super) over: Option<NonZeroU64>,
    /// What it is a part of: see [`object`].
    pub(super) object: u64,
    /// It was mapped with `MAP_NORESERVE`.
    pub(super) is_unreserved: bool,
    /// It was mapped locked, only to reserve addresses, or so that its content may go at any time
    /// (`MAP_DROPPABLE`).
    pub(super) is_special: bool,
    /// A child gets it without its content (`MADV_WIPEONFORK`), and without guards that are
    /// installed in it.
    pub(super) is_wiped: bool,
    /// Its protection. `None`: not known.
    pub(super) access: Option<u8>,
    /// A call took its access, and a later one gave it access again.
    pub(super) is_reopened: bool,
}

/// The event, or 0 if it stands for memory that was there when the recording began.
pub(super) fn recorded(event: u64) -> u64 {
    if event & FOUND == 0 { event } else { 0 }
}

impl Piece {
    pub(super) fn new(made: Act, at: u64) -> Piece {
        Piece {
            made,
            at,
            protected: None,
            flagged: None,
            flags_set: &[],
            flagged_before: None,
            locked: None,
            asked: None,
            moved: None,
            has_unsure_policy: false,
            over: None,
            object: 0,
            is_unreserved: false,
            is_special: false,
            is_wiped: false,
            access: None,
            is_reopened: false,
        }
    }

    /// Whether a call was seen that mapped it: it was not there when the recording began.
    pub(super) fn is_observed(&self) -> bool {
        self.made.event & FOUND == 0
    }

    /// The event that mapped it; 0 if it was there.
    pub(super) fn mapped_at(&self) -> u64 {
        recorded(self.made.event)
    }

    /// Whether guard pages can be installed in it, for sure.
    pub(super) fn takes_guards(&self) -> bool {
        self.is_observed() && !self.is_special && !self.is_wiped && self.locked.is_none()
    }

    /// The event that mapped the memory that it is part of, or was put into.
    pub(super) fn root(&self) -> u64 {
        self.over.map_or(self.made.event, NonZeroU64::get)
    }

    /// The piece after a call that changed one of its attributes.
    pub(super) fn after(self, act: Act, call: &str, args: &[u64; 6]) -> Piece {
        match call {
            "madvise" if args[2] == HUGEPAGE => Piece { asked: Some(act), ..self },
            "madvise" if args[2] == NOHUGEPAGE => Piece { asked: None, ..self.flagged_by(act, set_by(args[2])) },
            "madvise" if matches!(args[2], WIPEONFORK | KEEPONFORK) => {
                Piece { is_wiped: args[2] == WIPEONFORK, ..self.flagged_by(act, set_by(args[2])) }
            }
            // Of a userfaultfd.
            "close" => self.flagged_by(act, &["uffd"]),
            _ => match row_of(call).map_or(Sets::Any, |row| row.sets) {
                Sets::Protection => {
                    let access = args[2] as u8 & ACCESS;
                    let is_closed = self.protected.is_some() && self.access == Some(0);
                    let is_reopened = self.is_reopened || (is_closed && access != 0);
                    Piece { protected: Some(act), access: Some(access), is_reopened, ..self }
                }
                Sets::Lock => Piece { locked: Some(act), ..self },
                Sets::Policy => self.flagged_by(act, &["policy"]),
                Sets::Flags if call == "madvise" => self.flagged_by(act, set_by(args[2])),
                Sets::Flags => self.flagged_by(act, &[]),
                Sets::Any => Piece { protected: Some(act), access: None, ..self.flagged_by(act, &[]) },
            },
        }
    }

    /// The event that last changed its attributes, or moved it. A request for huge pages counts
    /// only if there is no other change.
    pub(super) fn changed(&self) -> Option<Act> {
        last([self.protected, self.flagged, self.locked, self.moved]).or(self.asked)
    }

    /// The event that last changed an attribute of these reasons; without a reason, any attribute.
    pub(super) fn changed_for(&self, apart: &str) -> Option<Act> {
        if apart.is_empty() {
            return self.changed();
        }
        last(reasons(apart).map(|reason| match reason_name(reason) {
            // The charge follows the protection.
            "protection" | "accounting" => self.protected,
            "lock" => self.locked,
            "offset" | "anonymous-offset" | "backing" | "page-size" => self.moved,
            // The difference that they had when they were written.
            "anonymous-identity" => self.changed(),
            _ => self.flagged_for(reason),
        }))
    }

    /// The piece after an event that set these attributes.
    fn flagged_by(self, act: Act, set: &'static [&'static str]) -> Piece {
        let before = self.flagged.filter(|_| set != self.flags_set).map(|act| (act, self.flags_set));
        Piece { flagged: Some(act), flags_set: set, flagged_before: before.or(self.flagged_before), ..self }
    }

    /// The event that last changed an attribute that this reason names. `None`: none of those that
    /// are remembered.
    fn flagged_for(&self, reason: &str) -> Option<Act> {
        // The flags of an older trace have no words.
        if reason == "flags" || !matches!(reason_name(reason), "flags" | "policy" | "uffd") {
            return self.flagged.or(self.asked);
        }
        let is_named = |set: &str| reason_name(reason) == set || flag_words(reason).any(|(word, _)| word == set);
        let sets = |set: &[&str]| set.is_empty() || set.iter().any(|set| is_named(set));
        let one = self.flagged.filter(|_| sets(self.flags_set));
        let before = self.flagged_before.filter(|(_, set)| sets(set)).map(|(act, _)| act);
        last([one, before, self.asked.filter(|_| is_named("hugepage"))])
    }

    /// The events that last changed its advice or name, its lock, and its request for huge pages.
    /// Two pieces that different places have changed may have different flags.
    pub(super) fn flags(&self) -> [Option<Act>; 3] {
        [self.flagged, self.locked, self.asked]
    }

    /// What it has in common with memory that would be one area with it, if they touched.
    pub(super) fn kind(&self) -> Kind {
        let event = |act: Option<Act>, is_unknown: bool| act.filter(|_| is_unknown).map(|act| act.event);
        Kind {
            object: self.object,
            is_unreserved: self.is_unreserved,
            access: self.access,
            flags: self.flags().map(|act| act.map(|act| act.site)),
            moved: event(self.moved, true),
            unknown: [event(self.protected, self.access.is_none()), event(self.flagged, self.has_unsure_policy)],
        }
    }

    /// The last event that set it apart from other memory of its root, for these reasons.
    pub(super) fn cut_for(&self, apart: &str) -> Option<Act> {
        self.changed_for(apart).or(self.over.map(|_| self.made))
    }
}

/// What pieces have in common that would be one area, if they touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    object: u64,
    is_unreserved: bool,
    access: Option<u8>,
    /// The sites of [`Piece::flags`].
    flags: [Option<u32>; 3],
    /// The event that moved it.
    moved: Option<u64>,
    /// The events that gave it a protection and a policy that are not known.
    unknown: [Option<u64>; 2],
}

impl Kind {
    pub(super) fn is_moved(&self) -> bool {
        self.moved.is_some()
    }

    /// The same with places instead of sites.
    pub(super) fn by_place(self, place: impl Fn(u32) -> u32) -> Kind {
        Kind { flags: self.flags.map(|site| site.map(&place)), ..self }
    }
}

/// A number that two areas share if they are shared or private memory of one file, at offsets that
/// continue; or both private memory without a file.
pub(super) fn object(area: &AreaRecord) -> u64 {
    let mut hasher = DefaultHasher::new();
    let offset = if area.inode == 0 { 0 } else { area.offset.wrapping_sub(area.start) };
    (area.dev, area.inode, area.perms & !ACCESS, offset).hash(&mut hasher);
    hasher.finish()
}

/// Whether the policy of one of two pieces is not known, and no single call gave it to both.
pub(super) fn may_differ_in_policy(low: &Piece, high: &Piece) -> bool {
    (low.has_unsure_policy || high.has_unsure_policy) && low.flagged != high.flagged
}

/// Why two areas that touch are not one, as far as that is known of their pieces. The kernel shows
/// of memory that was there when the recording began neither the file's open description, nor which
/// pages were written before others, nor the offset of memory without a file. A recorder assumes
/// these where nothing else explains a boundary.
pub(super) fn known<'a>([a, b]: [&'a AreaRecord; 2], [low, high]: [&Piece; 2]) -> Cow<'a, str> {
    let is_unsure = low.has_unsure_policy || high.has_unsure_policy;
    if low.is_observed() && high.is_observed() {
        return match &*b.apart {
            "anonymous-identity" if is_unsure => NOT_RECORDED.into(),
            "" if may_differ_in_policy(low, high) => NOT_RECORDED.into(),
            "" => "".into(),
            apart if may_differ_in_policy(low, high) => format!("{apart}+{NOT_RECORDED}").into(),
            apart => apart.into(),
        };
    }
    let is_assumed = |reason: &str| match reason {
        "anonymous-identity" | "anonymous-offset" | "open-file" => true,
        other => other == "offset" && is_anonymous(a) && is_anonymous(b),
    };
    // A policy that was not read may be all that a call changed.
    let may_be_policy = |reason: &str| is_unsure && reason == "anonymous-identity";
    let is_set =
        |reason: &str| !may_be_policy(reason) && [low, high].iter().any(|piece| piece.changed_for(reason).is_some());
    let mut all: Vec<&str> = reasons(&b.apart).filter(|reason| !is_assumed(reason) || is_set(reason)).collect();
    let is_open = all.len() < reasons(&b.apart).count() || (all.is_empty() && a.perms == b.perms);
    // A policy that was read after the areas explains what was assumed before.
    if is_open && !all.contains(&"policy") {
        all.push(NOT_RECORDED);
    }
    all.join("+").into()
}
