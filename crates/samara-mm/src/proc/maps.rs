//! Displays a space as `/proc/PID/maps`, to the byte. Knows one line at a time, and the parts of
//! the space that the line needs; does not know whether the space is shared.

use crate::area::extras::Extras;
use crate::area::flags::Flags;
use crate::area::{Area, Backing, Object};
use crate::space::index::AreaIndex;
use crate::space::{AddressSpace, Config, Layout, Placed};
use alloc::borrow::Cow;
use core::fmt::{self, Write};

/// The column at which a name starts.
const NAME_COLUMN: usize = 73;
pub(crate) const VSYSCALL: &str =
    "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";

/// A line of `/proc/PID/maps`, for one area. Displays as the line, without the newline. Made by
/// [`AddressSpace::line`] and [`AddressSpace::lines`], and for shared spaces by
/// [`Maps::line`](crate::Maps::line) and [`Maps::lines`](crate::Maps::lines).
#[derive(Clone, Debug)]
pub struct Line<'a, B> {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The first address of the area. `start` is greater if a listing has shown the addresses
    /// before it.
    pub(crate) area_start: u64,
    /// The area as it is stored.
    pub(crate) stored: &'a Area<B>,
    /// `Some` for an inherited area: the area as it is in this space, not as in the parent of the
    /// fork.
    pub(crate) own: Option<Area<B>>,
    pub(crate) extras: Cow<'a, Extras>,
    pub(crate) layout: Layout,
    pub(crate) config: &'a Config,
}

impl<B> Line<'_, B> {
    /// The first address that it shows.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The first address after the area. A listing goes on there.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// The area and its range.
    pub fn placed(&self) -> Placed<'_, B> {
        let area = self.own.as_ref().unwrap_or(self.stored);
        Placed { start: self.start, end: self.end, area, extras: &self.extras }
    }
}

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// The line of the area that holds `addr`. O(log n).
    pub fn line(&self, addr: u64) -> Option<Line<'_, B>> {
        self.area_at(addr).map(|at| self.line_of(at))
    }

    /// The lines of `/proc/PID/maps`, ascending, without that of `[vsyscall]`. The space itself
    /// displays as the whole file.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, FileId, MapRequest, Prot};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.map(&MapRequest::anonymous(0x10000, 0x1000, Prot::READ))?;
    /// space.map(&MapRequest::anonymous(0x20000, 0x1000, Prot::RW))?;
    /// let text: String = space.lines().map(|line| format!("{line}\n")).collect();
    /// assert_eq!(text, space.to_string());
    /// # Ok::<(), samara_mm::Error>(())
    /// ```
    pub fn lines(&self) -> impl DoubleEndedIterator<Item = Line<'_, B>> {
        self.areas().map(|at| self.line_of(at))
    }

    pub(crate) fn line_of<'a>(&'a self, at: Placed<'a, B>) -> Line<'a, B> {
        let Placed { start, end, area, extras } = at;
        let (layout, config) = (self.layout, &self.config);
        Line { start, end, area_start: start, stored: area, own: None, extras: Cow::Borrowed(extras), layout, config }
    }
}

impl<B: Backing, I: AreaIndex<B>> fmt::Display for AddressSpace<B, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines().try_for_each(|line| writeln!(f, "{line}"))?;
        write_end(f, &self.config)
    }
}

/// Writes the text after the lines of areas.
pub(crate) fn write_end(f: &mut fmt::Formatter<'_>, config: &Config) -> fmt::Result {
    if config.vsyscall { f.write_str(VSYSCALL) } else { Ok(()) }
}

impl<B: Backing> fmt::Display for Line<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Placed { start, end, area, .. } = self.placed();
        let letter = |flag, c| if area.flags.contains(flag) { c } else { '-' };
        let (r, w, x) = (letter(Flags::READ, 'r'), letter(Flags::WRITE, 'w'), letter(Flags::EXEC, 'x'));
        let s = if area.flags.contains(Flags::MAYSHARE) { 's' } else { 'p' };
        let (offset, dev, inode) = match &area.object {
            Object::File(b) => (self.placed().offset(self.config.page_size), b.dev(), b.inode()),
            _ => (0, (0, 0), 0),
        };
        let mut out = Counted { to: f, count: 0 };
        write!(out, "{start:08x}-{end:08x} {r}{w}{x}{s} {offset:08x} {:02x}:{:02x} {inode} ", dev.0, dev.1)?;
        let Some(name) = self.name() else { return Ok(()) };
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
