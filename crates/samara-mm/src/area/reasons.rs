//! The reasons why two touching areas are not one. Knows their names and sets of them; the rules
//! are in `merge`.

use core::fmt;

/// A reason that keeps two touching areas apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[repr(u8)]
pub enum Reason {
    /// Only one is readable, writable or executable, or the protection keys differ.
    Protection,
    /// Other flags differ (shared, grows down, not in core dumps, huge pages, ...).
    Flags,
    /// The objects differ.
    Backing,
    /// The file is the same, but was opened twice.
    OpenFile,
    /// The offsets do not continue.
    Offset,
    /// Both were written separately, or one was inherited through a fork.
    AnonymousIdentity,
    /// Memory policies differ.
    Policy,
    /// Names differ.
    Name,
    /// Userfaultfd registrations differ.
    Uffd,
    /// One is special: device memory, or the kernel's own pages.
    Special,
    /// Only one is locked in memory, or the two are locked differently.
    Lock,
    /// Only one is charged against the commit limit, or only one is exempt from the charge.
    Accounting,
    /// Only one is sealed.
    Seal,
    /// The offsets of the own pages of private files do not continue: written memory moved.
    AnonymousOffset,
}

impl Reason {
    /// All reasons, in the order in which sets list them.
    pub const ALL: [Reason; 14] = [
        Reason::Protection,
        Reason::Flags,
        Reason::Backing,
        Reason::OpenFile,
        Reason::Offset,
        Reason::AnonymousIdentity,
        Reason::Policy,
        Reason::Name,
        Reason::Uffd,
        Reason::Special,
        Reason::Lock,
        Reason::Accounting,
        Reason::Seal,
        Reason::AnonymousOffset,
    ];

    /// The reason's name, in kebab-case.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Protection => "protection",
            Reason::Flags => "flags",
            Reason::Backing => "backing",
            Reason::OpenFile => "open-file",
            Reason::Offset => "offset",
            Reason::AnonymousIdentity => "anonymous-identity",
            Reason::Policy => "policy",
            Reason::Name => "name",
            Reason::Uffd => "uffd",
            Reason::Special => "special",
            Reason::Lock => "lock",
            Reason::Accounting => "accounting",
            Reason::Seal => "seal",
            Reason::AnonymousOffset => "anonymous-offset",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of [`Reason`]s. Displays as their names joined by `+`, and an empty set as an empty text.
///
/// ```
/// use samara_mm::{Reason, Reasons};
/// let r: Reasons = [Reason::Lock, Reason::Protection].into_iter().collect();
/// assert_eq!(r.to_string(), "protection+lock");
/// assert_eq!(format!("{r:?} {:?}", Reasons::EMPTY), "Reasons(protection+lock) Reasons()");
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Reasons(u16);

impl Reasons {
    /// The empty set.
    pub const EMPTY: Reasons = Reasons(0);

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `reason` is in the set.
    pub fn contains(self, reason: Reason) -> bool {
        self.0 >> reason as u8 & 1 == 1
    }

    /// The reasons, in the order of [`Reason::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Reason> + Clone {
        Reason::ALL.into_iter().filter(move |r| self.contains(*r))
    }

    pub(crate) fn add(&mut self, reason: Reason, when: bool) {
        self.0 |= u16::from(when) << reason as u8;
    }

    /// The reasons that are not in `other`.
    pub(crate) fn without(self, other: Reasons) -> Reasons {
        Reasons(self.0 & !other.0)
    }
}

impl FromIterator<Reason> for Reasons {
    fn from_iter<I: IntoIterator<Item = Reason>>(iter: I) -> Self {
        let mut set = Reasons::EMPTY;
        iter.into_iter().for_each(|r| set.add(r, true));
        set
    }
}

impl fmt::Display for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, r) in self.iter().enumerate() {
            write!(f, "{}{r}", if i == 0 { "" } else { "+" })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reasons({self})")
    }
}
