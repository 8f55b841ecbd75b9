//! Counts the reasons why touching areas are not one.

use std::collections::BTreeMap;

use super::{Known, alike, is_anonymous};
use crate::event::AreaRecord;
use crate::file::reasons;

/// Most reasons that are counted separately. There are far fewer, but a file may claim any number.
const REASONS: usize = 256;

/// The boundaries that a reason keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Boundary {
    /// The name of a [`Reason`](samara_mm::Reason). Empty: nothing keeps them apart. `other`:
    /// reasons beyond the maximum number.
    pub reason: String,
    /// Whether the reason is only inferred: the kernel shows no reason, so it must be one that it
    /// does not show, and this is the likely one.
    pub inferred: bool,
    /// Number of boundaries with this reason, alone or with others.
    pub boundaries: u64,
    /// Number of those with this reason alone: the number of areas that would go without the
    /// reason, or an upper bound if not all reasons are known ([`Known`]). Then accounting that may
    /// follow from another protection does not count beside it.
    pub alone: u64,
    /// Address of the first of them, if possible of one that `alone` counts.
    pub first: u64,
}

pub(super) fn boundaries(areas: &[AreaRecord], known: Known) -> Vec<Boundary> {
    let mut found: BTreeMap<(&str, bool), Boundary> = BTreeMap::new();
    for pair in areas.windows(2) {
        let (a, b) = (&pair[0], &pair[1]);
        if a.end != b.start {
            continue;
        }
        let mut add = |reason, inferred, alone: bool| {
            let is_known = found.len() < REASONS || found.contains_key(&(reason, inferred));
            let reason = if is_known { reason } else { "other" };
            let at = found.entry((reason, inferred)).or_insert_with(|| Boundary {
                reason: reason.to_owned(),
                inferred,
                boundaries: 0,
                alone: 0,
                first: b.start,
            });
            at.boundaries += 1;
            if alone {
                at.alone += 1;
                if at.alone == 1 {
                    at.first = b.start;
                }
            }
        };
        let mut named = reasons(&b.apart).peekable();
        if named.peek().is_none() {
            match known {
                Known::All | Known::Late => add("", false, true),
                _ if is_anonymous(b) => add("anonymous-identity", true, true),
                _ if alike(a, b) => add("open-file", true, true),
                _ => add("", true, true),
            }
            continue;
        }
        let alone = reasons(&b.apart).count() == 1;
        let by_protection = known != Known::All && accounting_follows(a, b);
        named.for_each(|reason| add(reason, false, alone || by_protection && reason == "protection"));
    }
    let mut all: Vec<Boundary> = found.into_values().collect();
    all.sort_by_key(|b| std::cmp::Reverse((b.boundaries, b.alone)));
    all
}

/// Whether the two are apart by protection and by an accounting that may follow from it: private
/// memory is charged when it is made writable. With one protection from the start neither reason
/// would be left. An upper bound, because the one that is not writable may be the charged one.
fn accounting_follows(a: &AreaRecord, b: &AreaRecord) -> bool {
    const WRITABLE: u8 = 2;
    (a.perms ^ b.perms) & WRITABLE != 0
        && reasons(&b.apart).count() == 2
        && reasons(&b.apart).any(|reason| reason == "accounting")
        && reasons(&b.apart).all(|reason| matches!(reason, "protection" | "accounting"))
}
