//! The names of areas. Knows where heap and stack are; does not know how a view pads or escapes a
//! name.
//!
//! A name comes from the object behind the area, or else from the address: an area that meets the
//! heap is `[heap]` (in some releases also one that touches it), an area that holds the start of
//! the stack is `[stack]`.

use crate::area::{Backing, Object};
use crate::proc::maps::Line;
use crate::space::Layout;
use crate::space::features::Features;
use alloc::sync::Arc;
use core::fmt::{self, Write};

/// The name of an area: a path, `[heap]`, `[stack]`, `[vdso]`, `[anon:NAME]`, ... Displays without
/// escaping, newlines included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name<'a>(Kind<'a>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind<'a> {
    Plain(&'a str),
    Path(&'a str),
    Tagged(&'static str, Arc<str>),
}

impl Name<'_> {
    /// The length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "an area without a name has none at all")]
    pub fn len(&self) -> usize {
        match &self.0 {
            Kind::Plain(s) | Kind::Path(s) => s.len(),
            Kind::Tagged(tag, s) => tag.len() + s.len() + "[:]".len(),
        }
    }

    /// Writes the name as a maps line shows it: a path's newlines become `\012`. Nothing else is
    /// escaped, not even a backslash.
    pub(crate) fn write_escaped(&self, out: &mut impl Write) -> fmt::Result {
        let Kind::Path(path) = self.0 else { return write!(out, "{self}") };
        let mut parts = path.split('\n');
        out.write_str(parts.next().unwrap_or_default())?;
        parts.try_for_each(|p| write!(out, "\\012{p}"))
    }
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Plain(s) | Kind::Path(s) => f.write_str(s),
            Kind::Tagged(tag, s) => write!(f, "[{tag}:{s}]"),
        }
    }
}

impl<'a, B: Backing> Line<'a, B> {
    /// The name of the area; `None` without a name.
    pub fn name(&self) -> Option<Name<'a>> {
        let Line { area_start: start, end, layout, config, .. } = *self;
        let kind = match (&self.stored.object, &self.extras.name) {
            (Object::File(_), Some(n)) => Kind::Tagged("anon_shmem", n.clone()),
            (Object::File(b), None) if b.name().is_empty() => return None,
            (Object::File(b), None) => Kind::Path(b.name()),
            (Object::Special(n), _) => Kind::Plain(n),
            _ if layout.names_heap(start, end, config.features) => Kind::Plain("[heap]"),
            _ if start <= layout.start_stack && end >= layout.start_stack && layout.start_stack != 0 => {
                Kind::Plain("[stack]")
            }
            (Object::Anonymous, Some(n)) => Kind::Tagged("anon", n.clone()),
            (Object::Anonymous, None) => return None,
        };
        Some(Name(kind))
    }
}

impl Layout {
    /// Whether an area without a file from `start` to `end` is named `[heap]`.
    ///
    /// ```
    /// use samara_mm::{Features, Layout};
    /// let layout = Layout { start_brk: 0x2000, brk: 0x3000, ..Layout::default() };
    /// assert!(layout.names_heap(0x2000, 0x3000, Features::LINUX_6_12));
    /// assert!(!layout.names_heap(0x1000, 0x2000, Features::LINUX_6_12));
    /// assert!(layout.names_heap(0x1000, 0x2000, Features::LINUX_6_1));
    /// ```
    pub fn names_heap(&self, start: u64, end: u64, features: Features) -> bool {
        if features.contains(Features::HEAP_MEETS) {
            start < self.brk && end > self.start_brk
        } else {
            start <= self.brk && end >= self.start_brk
        }
    }
}
