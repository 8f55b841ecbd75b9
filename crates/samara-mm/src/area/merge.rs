//! Merge rules: whether two touching areas can be one, and the area that they become. Knows nothing
//! of trees, addresses or calls.
//!
//! - **MERGE-1** `join(l, r)` is `Some` exactly if `reasons(l, r)` is empty.

use crate::area::extras::Table;
use crate::area::flags::Flags;
use crate::area::reasons::{Reason, Reasons};
use crate::area::{Anon, Area, Doubt};

/// The reasons why `l` and `r`, which touch in this order, cannot be one area.
pub(crate) fn reasons<B: Eq>(l: &Area<B>, r: &Area<B>, table: &Table) -> Reasons {
    let (mut why, mut opened) = (Reasons::EMPTY, false);
    let differ = (l.flags ^ r.flags).difference(Flags::STICKY);
    let account_known = !l.unsure.account && !r.unsure.account;
    why.add(Reason::Protection, differ.intersects(Flags::ACCESS | Flags::PKEY));
    why.add(Reason::Lock, differ.intersects(Flags::LOCK));
    why.add(Reason::Seal, differ.intersects(Flags::SEALED));
    why.add(Reason::Uffd, differ.intersects(Flags::UFFD));
    why.add(
        Reason::Accounting,
        differ.intersects(Flags::NORESERVE) || (differ.intersects(Flags::ACCOUNT) && account_known),
    );
    why.add(Reason::Flags, !other_flags(l, r).is_empty());
    why.add(Reason::Special, l.is_special() || r.is_special());
    if l.extra != r.extra {
        let (l, r) = (table.get(l.extra), table.get(r.extra));
        why.add(Reason::Uffd, l.uffd != r.uffd);
        why.add(Reason::Policy, l.policy != r.policy);
        why.add(Reason::Name, l.name != r.name);
        why.add(Reason::AnonymousOffset, l.anon_bias != r.anon_bias);
        opened = matches!((l.opened, r.opened), (Some(a), Some(b)) if a != b);
    }
    if l.object != r.object {
        // Offsets and identities of different objects cannot be compared.
        why.add(Reason::Backing, true);
        return why;
    }
    why.add(Reason::OpenFile, opened);
    why.add(Reason::Offset, !biases_fit(l, r));
    why.add(Reason::AnonymousIdentity, common_anon(l.anon(), r.anon()).is_none());
    why
}

/// The flags in which `l` and `r` differ and that no reason but [`Reason::Flags`] names.
pub(crate) fn other_flags<B>(l: &Area<B>, r: &Area<B>) -> Flags {
    let named =
        Flags::ACCESS | Flags::PKEY | Flags::LOCK | Flags::SEALED | Flags::UFFD | Flags::NORESERVE | Flags::ACCOUNT;
    (l.flags ^ r.flags).difference(Flags::STICKY | named)
}

/// Whether both are plain memory with the same attributes, as in most joins: the joined area then
/// equals each of them.
#[inline]
pub(crate) fn alike<B>(l: &Area<B>, r: &Area<B>) -> bool {
    l.flags == r.flags && l.has_anon_of(r) && l.is_plain() && r.is_plain()
}

/// The one area that `l` and `r` become, if they can be one.
pub(crate) fn join<B: Eq + Clone>(l: &Area<B>, r: &Area<B>, table: &Table) -> Option<Area<B>> {
    if alike(l, r) {
        debug_assert!(reasons(l, r, table).is_empty());
        return Some(l.clone());
    }
    join_unlike(l, r, table)
}

/// [`join`] for two that are not [`alike`].
pub(crate) fn join_unlike<B: Eq + Clone>(l: &Area<B>, r: &Area<B>, table: &Table) -> Option<Area<B>> {
    // Most areas that touch differ by a flag: check that first. Every flag except these is a
    // reason.
    let differ = (l.flags ^ r.flags).difference(Flags::STICKY | Flags::ACCOUNT);
    if !differ.is_empty() || !reasons(l, r, table).is_empty() {
        return None;
    }
    let known = if l.unsure.account { r } else { l };
    let mut one = l.clone();
    one.flags = l.flags.difference(Flags::ACCOUNT) | (known.flags & Flags::ACCOUNT) | (r.flags & Flags::STICKY);
    one.set_anon(common_anon(l.anon(), r.anon()).unwrap_or(l.anon()));
    if l.extra != r.extra && table.get(l.extra).opened.is_none() && table.get(r.extra).opened.is_some() {
        // The other extras of the two are equal.
        one.extra = r.extra;
    }
    one.unsure.account &= r.unsure.account;
    // The bias that both can have. The side with less doubt decides. If both may be 0 and differ
    // otherwise, it is 0.
    (one.bias, one.unsure.bias) = match (l.unsure.bias, r.unsure.bias) {
        (a, b) if a < b => (l.bias, a),
        (a, b) if a > b => (r.bias, b),
        (Doubt::OrZero, _) if l.bias != r.bias => (0, Doubt::Known),
        (a, _) => (l.bias, a),
    };
    Some(one)
}

/// Whether some bias is possible for both.
fn biases_fit<B>(l: &Area<B>, r: &Area<B>) -> bool {
    let other = |a: &Area<B>| if a.unsure.bias == Doubt::OrZero { 0 } else { a.bias };
    let any = l.unsure.bias == Doubt::Any || r.unsure.bias == Doubt::Any;
    any || [l.bias, other(l)].into_iter().any(|b| b == r.bias || b == other(r))
}

/// The anonymous identity that both can have: both are untouched, or have the same identity, or
/// only one has an identity and did not inherit it. `Unknown` and `UnknownInherited` stand for each
/// of their possibilities.
pub(crate) fn common_anon(l: Anon, r: Anon) -> Option<Anon> {
    use Anon::{Identity, Unknown, UnknownInherited, Untouched};
    Some(match (l, r) {
        (a, b) if a == b => a,
        (Untouched, a) | (a, Untouched) => match a {
            Identity { inherited: true, .. } => return None,
            _ => a,
        },
        (Identity { .. }, Identity { .. }) => return None,
        (Unknown, a @ Identity { inherited, .. }) | (a @ Identity { inherited, .. }, Unknown) => {
            if inherited {
                return None;
            }
            a
        }
        (UnknownInherited { id: u }, a @ Identity { id, inherited })
        | (a @ Identity { id, inherited }, UnknownInherited { id: u }) => {
            if inherited && id != u {
                return None;
            }
            a
        }
        (a @ UnknownInherited { .. }, Unknown) | (Unknown, a @ UnknownInherited { .. }) => a,
        (a @ UnknownInherited { .. }, UnknownInherited { .. }) => a,
        (Unknown, Unknown) => Unknown,
    })
}
