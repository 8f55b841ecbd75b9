//! `/proc` output of a shared space while threads change it: lines of maps, records of smaps, and
//! PROCMAP_QUERY. `crate::proc` makes the texts.
//!
//! Knows how a line shows a single moment, and where a listing goes on; knows no text.
//!
//! - **SHARED-PROC-1** A listing goes on by address: the next line shows the area that now holds
//!   the first address after the last line, or else the first area above it. So lines ascend and do
//!   not overlap, a listing may go on in another view, and an address that is mapped all the time
//!   is in some line. If the area also holds addresses that were shown already (it merged with the
//!   area before it, or replaced it), its line begins after those.
//! - **SHARED-PROC-2** Whether an area is the heap or the stack depends on the layout, and its
//!   extras are in a table: both are of the moment of its lookup (LAYOUT-2).

use crate::area::extras::{Extras, NONE};
use crate::area::{Area, Backing, Object};
use crate::errno::Errno;
use crate::proc::maps::{self, Line};
use crate::proc::procmap_query::{Answer, Query};
use crate::proc::smaps::{self, Smaps, Usage};
use crate::shared::SharedAddressSpace;
use crate::shared::views::Maps;
use crate::shared::wait::Wait;
use crate::space::{Layout, Placed};
use alloc::borrow::Cow;
use core::fmt;
use core::iter;
use samara::{PinHere, Reclaim};

/// Number of lines after which a listing of the whole space takes a new view.
const LINES: usize = 64;

impl<B: Backing, R: Reclaim, W: Wait> Maps<'_, B, R, W> {
    /// The line of the area that holds `addr`. O(log n).
    pub fn line(&self, addr: u64) -> Option<Line<'_, B>> {
        self.line_at_or_after(addr).filter(|line| line.start <= addr)
    }

    /// The lines of `/proc/PID/maps` from the address `from` on, while other threads change the
    /// space. [`AddressSpace::lines`](crate::AddressSpace::lines) has those of one moment.
    ///
    /// Each line is of one moment: bounds, attributes, offset and name (`[heap]` and `[stack]`
    /// too). Lines ascend and do not overlap. An area that exists all the time is shown, and an
    /// address that is mapped all the time is in a line. If an area merged with the area of the
    /// line before, or replaced it, its line begins where that line ended. So it is at `from`,
    /// which is 0 or the end of an earlier line.
    ///
    /// A line takes no lock and no memory, with two exceptions. For an area with
    /// [`Extras`](crate::Extras) it takes the lock of the space for as long as copying them takes.
    /// It clones an area that was inherited by a [`fork`](SharedAddressSpace::fork) and has not
    /// changed since. The line of an anonymous area, or of an area with extras, waits while a call
    /// publishes the break, settings or extras.
    ///
    /// O(log n) for each line.
    ///
    /// ```
    /// use samara_mm::{Config, FileId, MapRequest, Prot, SharedAddressSpace, Usage};
    /// let space = SharedAddressSpace::<FileId>::new(Config::default())?;
    /// space.map(&MapRequest::anonymous(0x10000, 0x1000, Prot::READ))?;
    /// space.map(&MapRequest::anonymous(0x20000, 0x1000, Prot::RW))?;
    /// let first = space.maps().lines(0).next().map(|line| (line.to_string(), line.end()));
    /// let (text, end) = first.expect("an area is there");
    /// assert_eq!(text, "00010000-00011000 r--p 00000000 00:00 0 ");
    /// // Later, in another view. What was mapped behind the reader's back is before it.
    /// space.map(&MapRequest::anonymous(0x8000, 0x1000, Prot::READ))?;
    /// let maps = space.maps();
    /// let rest: Vec<_> =
    ///     maps.lines(end).map(|line| line.with_usage(Usage::default()).to_string()).collect();
    /// assert_eq!(rest.len(), 1);
    /// assert!(rest[0].starts_with("00020000-00021000 rw-p"));
    /// # Ok::<(), samara_mm::Error>(())
    /// ```
    pub fn lines(&self, from: u64) -> impl Iterator<Item = Line<'_, B>> {
        self.areas_from(from, |line, from| line.start = line.start.max(from))
    }

    /// Finds the area that `query` asks for: [`AddressSpace::query`](crate::AddressSpace::query),
    /// while other threads change the space. The answer is of one moment, and so is each area that
    /// was skipped. Locks and memory: as for a line of [`lines`](Self::lines).
    ///
    /// O(log n), also for each area that is skipped.
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// use samara_mm::{Config, FileId, MapRequest, Prot, Query, QueryFlags, SharedAddressSpace};
    /// let space = SharedAddressSpace::<FileId>::new(Config::default())?;
    /// space.map(&MapRequest::anonymous(0x10000, 0x1000, Prot::READ))?;
    /// let query = Query { addr: 0x8000, flags: QueryFlags::COVERING_OR_NEXT, name_size: 0 };
    /// assert_eq!(space.maps().query(&query)?.start, 0x10000);
    /// # Ok::<(), samara_mm::Error>(())
    /// ```
    pub fn query(&self, query: &Query) -> Result<Answer<'_>, Errno> {
        query.answer(|from| self.areas_from(from, |_, _| ()))
    }

    /// The lines of areas from an address on. `show` gets each with the address of its lookup.
    fn areas_from(&self, mut from: u64, show: impl Fn(&mut Line<'_, B>, u64)) -> impl Iterator<Item = Line<'_, B>> {
        iter::from_fn(move || {
            let mut line = self.line_at_or_after(from)?;
            show(&mut line, from);
            from = line.end;
            Some(line)
        })
    }

    /// The area that holds `addr`, or the first one after it, as a line (SHARED-PROC-2).
    fn line_at_or_after(&self, addr: u64) -> Option<Line<'_, B>> {
        let mut round = 0;
        loop {
            let seen = self.space.layout.seen();
            let (span, stored) = self.guard.at_or_after(addr)?;
            let named_by_itself = stored.extra == 0 && !matches!(stored.object, Object::Anonymous);
            let (layout, extras) = if named_by_itself {
                (Layout::default(), Cow::Borrowed(&NONE))
            } else {
                let extras = self.extras_of(stored);
                match seen.filter(|(instant, _)| self.space.layout.is_still(*instant)) {
                    Some((_, layout)) => (layout, extras),
                    None => {
                        W::pause(round);
                        round = round.saturating_add(1);
                        continue;
                    }
                }
            };
            let inherited = &self.space.inherited;
            let own = inherited.is_inherited(stored).then(|| inherited.of(span.first, stored).into_owned());
            let (start, end) = (span.first, span.last.saturating_add(1));
            return Some(Line {
                start,
                end,
                area_start: start,
                stored,
                own,
                extras,
                layout,
                config: &self.space.config,
            });
        }
    }

    /// The extras of an area, if they do not change meanwhile.
    fn extras_of(&self, area: &Area<B>) -> Cow<'static, Extras> {
        match area.extra {
            0 => Cow::Borrowed(&NONE),
            at => Cow::Owned(self.space.state.lock().base.extras.get(at).clone()),
        }
    }
}

impl<B, R, W> SharedAddressSpace<B, R, W>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere,
    W: Wait,
{
    /// Displays the space as `/proc/PID/smaps` while other threads change it, as
    /// [`AddressSpace::smaps`](crate::AddressSpace::smaps) does that of one moment. `usage` returns
    /// the content of an area's page tables; no lock is held then.
    ///
    /// Records follow the rules of [`Maps::lines`]. Takes a new view every 64 records, so that a
    /// long text does not delay the reclamation of memory.
    ///
    /// ```
    /// use samara_mm::{Config, FileId, MapRequest, Prot, SharedAddressSpace, Usage};
    /// let space = SharedAddressSpace::<FileId>::new(Config::default())?;
    /// space.map(&MapRequest::anonymous(0x10000, 0x3000, Prot::READ))?;
    /// let text = space.smaps(|_area| Usage::default()).to_string();
    /// assert_eq!(text, space.snapshot()?.smaps(|_area| Usage::default()).to_string());
    /// # Ok::<(), samara_mm::Error>(())
    /// ```
    pub fn smaps<F: Fn(&Placed<'_, B>) -> Usage>(&self, usage: F) -> Smaps<'_, Self, F> {
        Smaps { space: self, usage }
    }

    /// Shows the lines of all areas, in a new view every [`LINES`] (SHARED-PROC-1).
    fn show_lines(&self, mut show: impl FnMut(Line<'_, B>) -> fmt::Result) -> fmt::Result {
        let mut from = 0;
        loop {
            let maps = self.maps();
            let mut left = LINES;
            for line in maps.lines(from).take(LINES) {
                (from, left) = (line.end, left - 1);
                show(line)?;
            }
            if left > 0 {
                return Ok(());
            }
        }
    }
}

/// Displays the space as `/proc/PID/maps` while other threads change it. Lines follow the rules of
/// [`Maps::lines`]. Takes a new view every 64 lines, so that a long text does not delay the
/// reclamation of memory. For the text of one moment display a
/// [`snapshot`](SharedAddressSpace::snapshot).
///
/// ```
/// use samara_mm::{Config, FileId, MapRequest, Prot, SharedAddressSpace};
/// let space = SharedAddressSpace::<FileId>::new(Config::default())?;
/// space.map(&MapRequest::anonymous(0x10000, 0x3000, Prot::READ))?;
/// assert_eq!(space.to_string(), space.snapshot()?.to_string());
/// # Ok::<(), samara_mm::Error>(())
/// ```
impl<B, R, W> fmt::Display for SharedAddressSpace<B, R, W>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere,
    W: Wait,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show_lines(|line| writeln!(f, "{line}"))?;
        maps::write_end(f, &self.config)
    }
}

impl<B, R, W, F> fmt::Display for Smaps<'_, SharedAddressSpace<B, R, W>, F>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere,
    W: Wait,
    F: Fn(&Placed<'_, B>) -> Usage,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.space.show_lines(|line| smaps::write_record(f, line, &self.usage))?;
        smaps::write_end(f, &self.space.config)
    }
}
