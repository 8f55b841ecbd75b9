//! Displays a space as `/proc/PID/maps`, to the byte.

use crate::area::flags::Flags;
use crate::area::{Backing, Object};
use crate::space::{AddressSpace, Placed};
use core::fmt::{self, Write};

/// The column at which a name starts.
const NAME_COLUMN: usize = 73;
pub(crate) const VSYSCALL: &str =
    "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";

/// A line of `/proc/PID/maps`, without the newline; made by [`AddressSpace::line`].
#[derive(Debug)]
pub struct Line<'a, B> {
    pub(crate) space: &'a AddressSpace<B>,
    pub(crate) at: Placed<'a, B>,
}

impl<B: Backing> AddressSpace<B> {
    /// The line of the area that holds `addr`.
    pub fn line(&self, addr: u64) -> Option<Line<'_, B>> {
        self.area_at(addr).map(|at| Line { space: self, at })
    }
}

impl<B: Backing> fmt::Display for AddressSpace<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for at in self.areas() {
            writeln!(f, "{}", Line { space: self, at })?;
        }
        if self.config.vsyscall { f.write_str(VSYSCALL) } else { Ok(()) }
    }
}

impl<B: Backing> fmt::Display for Line<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Placed { start, end, area, .. } = self.at;
        let letter = |flag, c| if area.flags.contains(flag) { c } else { '-' };
        let (r, w, x) = (letter(Flags::READ, 'r'), letter(Flags::WRITE, 'w'), letter(Flags::EXEC, 'x'));
        let s = if area.flags.contains(Flags::MAYSHARE) { 's' } else { 'p' };
        let (offset, dev, inode) = match &area.object {
            Object::File(b) => (self.at.offset(self.space.config.page_size), b.dev(), b.inode()),
            _ => (0, (0, 0), 0),
        };
        let mut out = Counted { to: f, count: 0 };
        write!(out, "{start:08x}-{end:08x} {r}{w}{x}{s} {offset:08x} {:02x}:{:02x} {inode} ", dev.0, dev.1)?;
        let Some(name) = self.space.name_of(&self.at) else { return Ok(()) };
        while out.count < NAME_COLUMN {
            out.write_char(' ')?;
        }
        name.write_escaped(&mut out)
    }
}

/// Counts the bytes written, for the padding.
struct Counted<'a, 'b> {
    to: &'a mut fmt::Formatter<'b>,
    count: usize,
}

impl Write for Counted<'_, '_> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.count += s.len();
        self.to.write_str(s)
    }
}
