//! The address space: its areas, its settings, and questions about them. Calls are in the files of
//! their names.
//!
//! - **SPACE-1** Areas are page aligned, not empty, disjoint, and end at or below 2^64 - page size.
//! - **SPACE-2** `counters` are the sums over all areas of bytes, by class.
//! - **SPACE-3** Between calls the tree holds exactly the areas: one entry each, keyed `[start, end
//!   - 1]`.

pub(crate) mod check;
pub(crate) mod edit;
pub(crate) mod error;
pub(crate) mod extras;
pub(crate) mod features;
pub(crate) mod huge;
pub(crate) mod learn;
pub(crate) mod limits;
pub(crate) mod mdwe;
pub(crate) mod merge_pages;
pub(crate) mod personality;
pub(crate) mod place;
pub(crate) mod plan;
pub(crate) mod secret;
pub(crate) mod snapshot;
pub(crate) mod touch;

use crate::area::extras::{Extras, Table};
use crate::area::flags::Flags;
use crate::area::merge;
use crate::area::page_size::PageSize;
use crate::area::reasons::Reasons;
use crate::area::{Area, Backing, Object};
use crate::errno::Errno;
use crate::space::features::Features;
use crate::space::learn::Seam;
use crate::space::limits::{Caps, Counters, Limits, Overcommit};
use crate::space::mdwe::Mdwe;
use crate::space::personality::Personality;
use crate::space::place::Bases;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use samara::{GapQuery, RangeMap, Span};

/// Whether whoever drives the model says which pages are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Touches {
    /// Every first write to private memory is told by [`AddressSpace::touch`].
    #[default]
    Told,
    /// Writes cannot be seen: private areas are [`Anon::Unknown`](crate::Anon::Unknown), merge
    /// optimistically, and are put right by [`AddressSpace::learn_cut`] and
    /// [`AddressSpace::learn_join`].
    Unseen,
}

/// What an address space is like. Does not change during its life.
///
/// ```
/// use samara_mm::{AddressSpace, Bases, Config, Features, FileId, Overcommit};
/// // A machine with 4 GiB that runs Linux 6.12, and takes no more than 1000 maps.
/// let space = AddressSpace::<FileId>::new(Config {
///     features: Features::LINUX_6_12,
///     overcommit: Overcommit::Guess { total: 4 << 30 },
///     max_map_count: 1000,
///     bases: Bases { top_down: 0x7fff_f000_0000, ..Bases::default() },
///     ..Config::default()
/// });
/// assert!(space.is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Page size.
    pub page_size: PageSize,
    /// End of user space in bytes, exclusive; whole pages.
    pub task_size: u64,
    /// How many areas there may be (`vm.max_map_count`).
    pub max_map_count: usize,
    /// What the kernel does that others do not.
    pub features: Features,
    /// Who tells of writes.
    pub touches: Touches,
    /// How much memory is promised.
    pub overcommit: Overcommit,
    /// Free pages that are kept below an area that grows down (`stack_guard_gap`), and above what
    /// it grows towards.
    pub stack_guard_pages: u64,
    /// Where [`AddressSpace::mmap`] seeks free address space.
    pub bases: Bases,
    /// The display ends with the `[vsyscall]` line.
    pub vsyscall: bool,
}

impl Default for Config {
    /// Linux on x86-64 with 47-bit addresses.
    fn default() -> Self {
        Config {
            page_size: PageSize::K4,
            task_size: 0x7fff_ffff_f000,
            max_map_count: 65530,
            features: Features::default(),
            touches: Touches::Told,
            overcommit: Overcommit::Guess { total: u64::MAX },
            stack_guard_pages: 256,
            bases: Bases::default(),
            vsyscall: false,
        }
    }
}

/// Where the program's heap and stack are. Bytes, not pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Where the heap starts.
    pub start_brk: u64,
    /// The break: where the heap ends.
    pub brk: u64,
    /// An address in the stack, as `/proc/PID/stat` calls it.
    pub start_stack: u64,
    /// How long the program's data segment is: counts with the heap against RLIMIT_DATA.
    pub data: u64,
}

/// An area with its place. `==` compares extras, too.
pub struct Placed<'a, B> {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// What it is.
    pub area: &'a Area<B>,
    pub(crate) extras: &'a Table,
}

impl<B> Clone for Placed<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for Placed<'_, B> {}

impl<B: fmt::Debug> fmt::Debug for Placed<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut s = f.debug_struct("Placed");
        s.field("start", &self.start).field("end", &self.end).field("area", self.area);
        s.field("extras", self.extras()).finish()
    }
}

impl<B: PartialEq> PartialEq for Placed<'_, B> {
    fn eq(&self, o: &Self) -> bool {
        (self.start, self.end, self.area) == (o.start, o.end, o.area) && self.extras() == o.extras()
    }
}

impl<B: Eq> Eq for Placed<'_, B> {}

impl<'a, B> Placed<'a, B> {
    /// What only few areas have: policy, registration, name.
    #[inline]
    pub fn extras(&self) -> &'a Extras {
        self.extras.get(self.area.extra)
    }

    /// Offset into the object of the first page, in bytes (for anonymous memory: the place where it
    /// was mapped).
    pub fn offset(&self, page: PageSize) -> u64 {
        self.area.bias.wrapping_add(self.start / page.bytes()).wrapping_mul(page.bytes())
    }
}

/// An area could not be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImportError {
    /// `start` or `end` is not a multiple of the page size, or `end` does not lie after `start`.
    BadBounds,
    /// Something is there already.
    Overlaps,
    /// Out of memory.
    Memory,
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ImportError::BadBounds => {
                "the bounds of an area must be multiples of the page size, the end after the start"
            }
            ImportError::Overlaps => "an area is there already: remove it first (forget)",
            ImportError::Memory => "out of memory",
        })
    }
}

impl core::error::Error for ImportError {}

/// An address space: its areas, and Linux's rules for changing them.
///
/// Each call either happens whole or not at all if memory is short. Complexity: a call that
/// concerns k areas out of n takes O(k + log n).
#[derive(Debug)]
pub struct AddressSpace<B> {
    pub(crate) areas: RangeMap<Area<B>>,
    pub(crate) extras: Table,
    pub(crate) config: Config,
    pub(crate) layout: Layout,
    /// LOCKED and LOCKONFAULT as `mlockall(MCL_FUTURE)` set them.
    pub(crate) def_flags: Flags,
    pub(crate) counters: Counters,
    /// Bytes that count as locked, though their areas are locked no more.
    pub(crate) stray_locked: u64,
    pub(crate) limits: Limits,
    pub(crate) caps: Caps,
    /// What others have charged, in bytes.
    pub(crate) elsewhere: u64,
    pub(crate) mdwe: Option<Mdwe>,
    pub(crate) personality: Personality,
    /// PR_SET_MEMORY_MERGE.
    pub(crate) merges_pages: bool,
    /// Free huge pages by size.
    pub(crate) huge_pages: Option<Arc<[(PageSize, u64)]>>,
    pub(crate) next_id: u64,
    /// Joins of the last call, for learning.
    pub(crate) seams: Vec<Seam<B>>,
}

impl<B: Backing> AddressSpace<B> {
    /// An empty space; without limits, and with all capabilities, until it is told otherwise
    /// ([`AddressSpace::set_limits`], [`AddressSpace::set_caps`]).
    pub fn new(config: Config) -> Self {
        AddressSpace {
            areas: RangeMap::new(),
            extras: Table::default(),
            config,
            layout: Layout::default(),
            def_flags: Flags::empty(),
            counters: Counters::default(),
            stray_locked: 0,
            limits: Limits::NONE,
            caps: Caps::all(),
            elsewhere: 0,
            mdwe: None,
            personality: Personality::empty(),
            merges_pages: false,
            huge_pages: None,
            next_id: 1,
            seams: Vec::new(),
        }
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Where heap and stack are.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Says where heap and stack are (`PR_SET_MM`, or what exec decided). Changes no area.
    pub fn set_layout(&mut self, layout: Layout) {
        self.layout = layout;
    }

    /// Puts an area at `[start, end)` as it is, without [`Extras`]: nothing is merged, no flag is
    /// added. Loads a space that exists already. (Shared memory has no anonymous identity: one
    /// that is given is dropped.)
    ///
    /// # Errors
    /// Bad bounds, or something is there; the space is then as it was.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Area, Config, FileId, Flags, Object};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// // A line of smaps: 00400000-00402000 r-xp 00001000 fe:00 42 /bin/true, VmFlags: rd ex mr mw me.
    /// let file = FileId { dev: (0xfe, 0), inode: 42, open: 0, name: "/bin/true".into() };
    /// let bias = Area::<FileId>::bias_of(0x400000, 0x1000, 4096);
    /// space.import(0x400000, 0x402000, Area::new(Flags::from_letters("rd ex mr mw me"), Object::File(file), bias))?;
    /// assert!(space.to_string().starts_with("00400000-00402000 r-xp 00001000 fe:00 42 "));
    /// # Ok::<(), samara_mm::ImportError>(())
    /// ```
    pub fn import(&mut self, start: u64, end: u64, area: Area<B>) -> Result<(), ImportError> {
        self.import_with(start, end, area, Extras::default())
    }

    /// [`AddressSpace::import`] of an area that has extras.
    ///
    /// # Errors
    /// As there.
    pub fn import_with(&mut self, start: u64, end: u64, mut area: Area<B>, extras: Extras) -> Result<(), ImportError> {
        if !self.aligned(start) || !self.aligned(end) || end <= start {
            return Err(ImportError::BadBounds);
        }
        if !self.is_free(start, end) {
            return Err(ImportError::Overlaps);
        }
        if !area.has_own_pages() {
            area.set_anon(crate::area::Anon::Untouched);
        }
        self.set_aside(start, end, 1).map_err(|_| ImportError::Memory)?;
        self.sweep_extras();
        area.extra = self.extras.add(extras).map_err(|_| ImportError::Memory)?;
        self.seams.clear();
        self.store(start, end, area).map_err(|_| ImportError::Memory)
    }

    /// Takes away whatever `[start, end)` holds, by no rule at all: cuts what sticks out, seals and
    /// all. For a driver that sets the model right from the kernel's view, with
    /// [`AddressSpace::import`].
    ///
    /// # Errors
    /// Out of memory; the space is then as it was.
    pub fn forget(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        if !self.aligned(start) || !self.aligned(end) || end <= start {
            return Err(Errno::EINVAL);
        }
        self.set_aside(start, end, 1)?;
        self.seams.clear();
        self.erase(start, end)
    }

    /// Moves the start of the area at `addr` down to `start`: a stack that grew on a fault. Never
    /// merges. Counts as a write, even where the fault was refused after the growth.
    ///
    /// # Errors
    /// EFAULT where no area that grows down is at `addr`, EINVAL where `start` is not a page below
    /// it, ENOMEM where something is in the way.
    pub fn grow_down(&mut self, addr: u64, start: u64) -> Result<(), Errno> {
        let at = self.area_at(addr).filter(|a| a.area.flags.contains(Flags::GROWSDOWN)).ok_or(Errno::EFAULT)?;
        if !self.aligned(start) || start >= at.start {
            return Err(Errno::EINVAL);
        }
        if !self.is_free(start, at.start) {
            return Err(Errno::ENOMEM);
        }
        let (from, end) = (at.start, at.end);
        self.set_aside(start, end, 1)?;
        self.seams.clear();
        self.touch(from, end);
        let Some(area) = self.area_at(from).map(|a| a.area.clone()) else { return Err(Errno::EFAULT) };
        self.store(start, end, area)
    }

    /// Gives `edit` each object in the space: a file was renamed or removed, and its name is shown
    /// differently. (Also the objects of what the last call joined, which
    /// [`AddressSpace::learn_cut`] may bring back: some come more than once.)
    pub fn edit_objects(&mut self, mut edit: impl FnMut(&mut Object<B>)) {
        self.areas.iter_mut().for_each(|(_, a)| edit(&mut a.object));
        self.seams.iter_mut().for_each(|s| {
            edit(&mut s.left.object);
            edit(&mut s.right.object);
        });
    }

    /// Free address space, as `query` asks for it (in bytes; the answer's last address is
    /// inclusive). O(log n).
    ///
    /// Knows areas only: alignment, the lowest address allowed and the guard below a stack are the
    /// query's to say.
    ///
    /// ```
    /// use samara::{GapQuery, End};
    /// use samara_mm::{AddressSpace, Config, FileId, MapRequest, Prot};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.map(&MapRequest::anonymous(0x7000, 0x1000, Prot::RW)).unwrap();
    /// let query = GapQuery::new(0x2000).within(0x1000..=0x7fff).aligned(0x1000);
    /// assert_eq!(space.find_gap(&query.from(End::Highest)).map(|gap| gap.first), Some(0x5000));
    /// ```
    pub fn find_gap(&self, query: &GapQuery) -> Option<Span> {
        self.areas.find_gap(query)
    }

    /// The areas, ascending.
    pub fn areas(&self) -> impl DoubleEndedIterator<Item = Placed<'_, B>> + Clone {
        self.areas.iter().map(|at| self.placed(at))
    }

    /// The area that holds `addr`. O(log n).
    pub fn area_at(&self, addr: u64) -> Option<Placed<'_, B>> {
        self.areas.get(addr).map(|at| self.placed(at))
    }

    /// The area that holds `addr`, or the first one after it. O(log n).
    pub fn area_at_or_after(&self, addr: u64) -> Option<Placed<'_, B>> {
        self.areas.at_or_after(addr).map(|at| self.placed(at))
    }

    /// The areas that meet `[start, end)`, whole, ascending.
    pub fn areas_in(&self, start: u64, end: u64) -> impl DoubleEndedIterator<Item = Placed<'_, B>> + Clone {
        // An empty window is asked as one that no entry can meet: the iterator's type must stay one.
        let window = (start < end).then(|| Span::new(start, end - 1));
        window.into_iter().flat_map(|w| self.areas.range(w).map(|at| self.placed(at)))
    }

    /// How many areas there are.
    pub fn len(&self) -> usize {
        self.areas.len()
    }

    /// Whether there is no area.
    pub fn is_empty(&self) -> bool {
        self.areas.is_empty()
    }

    /// Why the two areas that touch at `addr` are not one.
    ///
    /// `None` where no two areas touch there. An empty set where nothing keeps them apart: legal
    /// after a call that failed half way, and where a neighbour came to be equal without being
    /// looked at.
    pub fn why_not_merged(&self, addr: u64) -> Option<Reasons> {
        let (l, r) = self.pair(addr)?;
        Some(merge::reasons(l.area, r.area, &self.extras))
    }

    /// Where the first hole in `[start, end)` begins; `end` if there is none.
    pub(crate) fn covered(&self, start: u64, end: u64) -> u64 {
        let mut at = start;
        for a in self.met(start, end) {
            if a.start > at {
                break;
            }
            at = a.end;
        }
        at.min(end)
    }

    /// The two areas that touch at `addr`.
    pub(crate) fn pair(&self, addr: u64) -> Option<(Placed<'_, B>, Placed<'_, B>)> {
        let l = self.area_at(addr.checked_sub(1)?).filter(|l| l.end == addr)?;
        Some((l, self.area_at(addr)?))
    }

    #[inline]
    pub(crate) fn placed<'a>(&'a self, (span, area): (Span, &'a Area<B>)) -> Placed<'a, B> {
        Placed { start: span.first, end: span.last.saturating_add(1), area, extras: &self.extras }
    }

    pub(crate) fn page(&self) -> u64 {
        self.config.page_size.bytes()
    }

    pub(crate) fn aligned(&self, x: u64) -> bool {
        x & (self.page() - 1) == 0
    }

    /// End of the range that most calls mean: aligned, rounded up, not wrapping.
    pub(crate) fn end_of(&self, start: u64, len: u64) -> Result<u64, Errno> {
        let rounded = self.page_up(len);
        let end = start.wrapping_add(rounded);
        let bad = !self.aligned(start) || (len != 0 && rounded == 0) || end < start;
        if bad { Err(Errno::EINVAL) } else { Ok(end) }
    }

    /// `x` rounded up to a page, wrapping to 0 as Linux's rounding does.
    pub(crate) fn page_up(&self, x: u64) -> u64 {
        self.page_down(x.wrapping_add(self.page() - 1))
    }

    pub(crate) fn page_down(&self, x: u64) -> u64 {
        x & !(self.page() - 1)
    }

    pub(crate) fn fresh_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        id
    }
}
