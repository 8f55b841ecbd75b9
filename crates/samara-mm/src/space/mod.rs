//! The address space: its areas, its settings, and queries. The calls are in
//! `calls`.
//!
//! - **SPACE-1** Areas are page aligned, not empty, disjoint, and end at or below 2^64 - page size.
//! - **SPACE-2** `counters` are the sums of bytes over all areas, by class.
//! - **SPACE-3** Between calls the tree holds exactly the areas: one entry each, with the span
//!   `start..=end-1`.

pub(crate) mod check;
pub(crate) mod edit;
pub(crate) mod error;
pub(crate) mod extras;
pub(crate) mod features;
pub(crate) mod huge;
pub(crate) mod index;
pub(crate) mod learn;
pub(crate) mod limits;
pub(crate) mod mdwe;
pub(crate) mod merge_pages;
pub(crate) mod occupied;
pub(crate) mod personality;
pub(crate) mod place;
pub(crate) mod plan;
pub(crate) mod secret;
pub(crate) mod snapshot;
pub(crate) mod tested;
pub(crate) mod touch;
pub(crate) mod transparent_huge;
pub(crate) mod walk;

use crate::area::extras::{Extras, Table};
use crate::area::flags::Flags;
use crate::area::merge;
use crate::area::page_size::PageSize;
use crate::area::reasons::Reasons;
use crate::area::{Area, Backing, Object};
use crate::errno::Errno;
use crate::space::features::Features;
use crate::space::index::AreaIndex;
use crate::space::learn::{Emptied, Seam};
use crate::space::limits::{Caps, Counters, Limits, Overcommit};
use crate::space::mdwe::Mdwe;
use crate::space::personality::Personality;
use crate::space::place::Bases;
use crate::space::transparent_huge::TransparentHuge;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use samara::{GapQuery, RangeMap, Span};

/// Whether the driver of the model reports which pages are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Touches {
    /// The driver reports every first write to private memory by [`AddressSpace::touch`].
    #[default]
    Told,
    /// The driver cannot see writes. Private areas are [`Anon::Unknown`](crate::Anon::Unknown) and
    /// merge optimistically; [`AddressSpace::learn_cut`] and [`AddressSpace::learn_join`] correct
    /// them.
    Unseen,
}

/// The settings of an address space, constant during its life.
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
    /// Maximum number of areas (`vm.max_map_count`).
    pub max_map_count: usize,
    /// The features of the kernel to follow.
    pub features: Features,
    /// Whether writes are reported.
    pub touches: Touches,
    /// The overcommit mode.
    pub overcommit: Overcommit,
    /// Number of pages kept free below an area that grows down (`stack_guard_gap`), and above the
    /// area that it grows towards.
    pub stack_guard_pages: u64,
    /// Where [`AddressSpace::mmap`] searches for free address space.
    pub bases: Bases,
    /// Whether the display ends with the `[vsyscall]` line.
    pub vsyscall: bool,
    /// Whether the processor has protection keys (pkeys(7)). Memory that may only be executed then
    /// has a key that denies reads and writes.
    ///
    /// That key is the lowest free one at the time of the first such map: here always 1, as no call
    /// of the model allocates keys.
    pub protection_keys: bool,
    /// Which anonymous memory gets transparent huge pages. This decides which reads give memory an
    /// identity.
    pub transparent_huge: TransparentHuge,
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
            protection_keys: false,
            transparent_huge: TransparentHuge::default(),
        }
    }
}

/// Where the program's heap and stack are. In bytes, not pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Where the heap starts.
    pub start_brk: u64,
    /// The break: the end of the heap.
    pub brk: u64,
    /// An address in the stack: `startstack` of `/proc/PID/stat`.
    pub start_stack: u64,
    /// Length of the program's data segment. It counts with the heap against RLIMIT_DATA.
    pub data: u64,
}

/// An area and its range. `==` compares extras too.
pub struct Placed<'a, B> {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Its attributes.
    pub area: &'a Area<B>,
    pub(crate) extras: &'a Extras,
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
    /// The attributes that only few areas have: policy, registration, name.
    #[inline]
    pub fn extras(&self) -> &'a Extras {
        self.extras
    }

    /// Offset of the first page into the object, in bytes. For anonymous memory: the address where
    /// it was mapped.
    pub fn offset(&self, page: PageSize) -> u64 {
        self.area.bias.wrapping_add(self.start / page.bytes()).wrapping_mul(page.bytes())
    }
}

/// Why an area could not be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImportError {
    /// `start` or `end` is not a multiple of the page size, or `end` does not lie after `start`.
    BadBounds,
    /// Something is mapped there already.
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
/// `I` keeps the areas in order ([`AreaIndex`]): Samara's tree, or an embedder's own.
///
/// If memory is short, a call happens as a whole or not at all. A call that concerns k of n areas
/// takes O(k + log n).
#[derive(Debug)]
pub struct AddressSpace<B, I = RangeMap<u64, Area<B>>> {
    pub(crate) areas: I,
    /// Number of areas that count besides `areas`: in the `base` of a shared space, and in the
    /// space for an image's calls. Else 0.
    pub(crate) outside: usize,
    pub(crate) extras: Table,
    pub(crate) config: Config,
    pub(crate) layout: Layout,
    /// LOCKED and LOCKONFAULT as `mlockall(MCL_FUTURE)` set them.
    pub(crate) def_flags: Flags,
    pub(crate) counters: Counters,
    /// Number of bytes that still count as locked although their areas are not.
    pub(crate) stray_locked: u64,
    pub(crate) limits: Limits,
    pub(crate) caps: Caps,
    /// Number of bytes that other processes have charged.
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
    /// Locked sources that the last call emptied, for learning.
    pub(crate) emptied: Vec<Emptied>,
}

impl<B: Backing> AddressSpace<B> {
    /// An empty space without limits and with all capabilities ([`AddressSpace::set_limits`] and
    /// [`AddressSpace::set_caps`] change them).
    pub fn new(config: Config) -> Self {
        Self::with_index(config)
    }
}

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// [`AddressSpace::new`] with an index of the caller's choice.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Area, AreaIndex, Config, FileId, MapRequest, Prot};
    /// /// Works on a space with any index.
    /// fn map_a_page<I: AreaIndex<FileId>>(space: &mut AddressSpace<FileId, I>) {
    ///     space.map(&MapRequest::anonymous(0x10000, 0x1000, Prot::RW)).unwrap();
    /// }
    /// type Tree = samara::RangeMap<u64, Area<FileId>>; // the default
    /// let mut space = AddressSpace::<FileId, Tree>::with_index(Config::default());
    /// map_a_page(&mut space);
    /// assert_eq!(space.len(), 1);
    /// ```
    pub fn with_index(config: Config) -> Self {
        AddressSpace {
            areas: I::default(),
            outside: 0,
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
            emptied: Vec::new(),
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

    /// Sets where heap and stack are (`PR_SET_MM`, or what exec decided). Changes no area.
    pub fn set_layout(&mut self, layout: Layout) {
        self.layout = layout;
    }

    /// Loads an existing area at `[start, end)` as it is, without [`Extras`]. Merges nothing and
    /// adds no flag. (Shared memory has no anonymous identity: a given one is dropped. smaps shows
    /// none: [`Anon::Unknown`](crate::Anon::Unknown) is for memory that may have one.)
    ///
    /// # Errors
    /// Bad bounds, something mapped in the range, or out of memory. The space stays as it was.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Area, Config, FileId, Flags, Object};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// // A line of smaps: 00400000-00402000 r-xp 00001000 fe:00 42 /bin/true, VmFlags: rd ex mr mw me.
    /// let file = FileId { dev: (0xfe, 0), inode: 42, open: 0, name: "/bin/true".into() };
    /// let bias = Area::<FileId>::bias_of(0x400000, 0x1000, 4096);
    /// space.import(
    ///     0x400000,
    ///     0x402000,
    ///     Area::new(Flags::from_letters("rd ex mr mw me"), Object::File(file), bias),
    /// )?;
    /// assert!(space.to_string().starts_with("00400000-00402000 r-xp 00001000 fe:00 42 "));
    /// # Ok::<(), samara_mm::ImportError>(())
    /// ```
    pub fn import(&mut self, start: u64, end: u64, area: Area<B>) -> Result<(), ImportError> {
        self.import_with(start, end, area, Extras::default())
    }

    /// [`AddressSpace::import`] for an area with extras.
    ///
    /// # Errors
    /// As [`AddressSpace::import`].
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
        self.forget_last_call();
        self.store(start, end, area).map_err(|_| ImportError::Memory)
    }

    /// Removes everything in `[start, end)` without any rules: cuts areas at both ends, and ignores
    /// seals. For a driver that corrects the model from the kernel's state, together with
    /// [`AddressSpace::import`].
    ///
    /// # Errors
    /// EINVAL for bad bounds, ENOMEM if memory is short. The space stays as it was.
    pub fn forget(&mut self, start: u64, end: u64) -> Result<(), Errno> {
        if !self.aligned(start) || !self.aligned(end) || end <= start {
            return Err(Errno::EINVAL);
        }
        self.set_aside(start, end, 1)?;
        self.forget_last_call();
        self.erase(start, end)
    }

    /// Moves the start of the area at `addr` down to `start`, as a stack grows on a fault. Never
    /// merges. Counts as a write, even if the fault was refused after the growth.
    ///
    /// # Errors
    /// - EFAULT: there is no area at `addr`, or it does not grow down.
    /// - EINVAL: `start` is not page aligned, or not below the area.
    /// - ENOMEM: something is in the way, or memory is short.
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
        self.forget_last_call();
        self.touch(from, end);
        let Some(area) = self.area_at(from).map(|a| a.area.clone()) else { return Err(Errno::EFAULT) };
        self.store(start, end, area)
    }

    /// Passes each object in the space to `edit`, for example after a file was renamed or removed.
    /// (Includes the objects of areas that the last call joined, which [`AddressSpace::learn_cut`]
    /// may restore; so some objects come more than once.)
    pub fn edit_objects(&mut self, mut edit: impl FnMut(&mut Object<B>)) {
        self.areas.for_each_mut(|area| edit(&mut area.object));
        self.seams.iter_mut().for_each(|s| {
            edit(&mut s.left.object);
            edit(&mut s.right.object);
        });
    }

    /// Free address space that `query` asks for, in bytes; the answer's last address is inclusive.
    ///
    /// Knows areas only: the query must state alignment, the lowest address and the guard below a
    /// stack. O(log n); with an alignment that is not padded O(n).
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, End, FileId, GapQuery, MapRequest, Prot};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.map(&MapRequest::anonymous(0x7000, 0x1000, Prot::RW)).unwrap();
    /// let query = GapQuery::new(0x2000).within(0x1000..=0x7fff).aligned(0x1000).unwrap();
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

    /// The areas that meet `[start, end)`, untrimmed, ascending.
    pub fn areas_in(&self, start: u64, end: u64) -> impl DoubleEndedIterator<Item = Placed<'_, B>> + Clone {
        // An empty range becomes no window at all, so that the iterator has one type.
        let window = (start < end).then(|| Span::new(start, end - 1));
        window.into_iter().flat_map(|w| self.areas.range(w).map(|at| self.placed(at)))
    }

    /// Number of areas.
    pub fn len(&self) -> usize {
        self.areas.len()
    }

    /// Whether there is no area.
    pub fn is_empty(&self) -> bool {
        self.areas.is_empty()
    }

    /// The reasons why the two areas that touch at `addr` are not one.
    ///
    /// `None` if no two areas touch there. An empty set if nothing keeps them apart: this happens
    /// after a call that failed half way, or if an area became equal to its neighbour in a call
    /// that did not compare them.
    pub fn why_not_merged(&self, addr: u64) -> Option<Reasons> {
        let (l, r) = self.pair(addr)?;
        Some(merge::reasons(l.area, r.area, &self.extras))
    }

    /// The flags behind [`Reason::Flags`](crate::Reason::Flags) at `addr`: those in which the two
    /// areas that touch there differ, except flags with a reason of their own.
    ///
    /// `None` if no two areas touch there.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Advice, Config, FileId, Flags, MapRequest, Prot};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.map(&MapRequest::anonymous(0x10000, 0x2000, Prot::RW))?;
    /// space.advise(0x11000, 0x1000, Advice::DontFork)?;
    /// assert_eq!(space.flags_apart(0x11000), Some(Flags::DONTCOPY));
    /// # Ok::<(), samara_mm::Error>(())
    /// ```
    pub fn flags_apart(&self, addr: u64) -> Option<Flags> {
        let (l, r) = self.pair(addr)?;
        Some(merge::other_flags(l.area, r.area))
    }

    /// Whether the modelled kernel has a feature.
    #[inline]
    pub(crate) fn has(&self, feature: Features) -> bool {
        self.config.features.contains(feature)
    }

    /// Number of areas that count against the limit.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.areas.len() + self.outside
    }

    /// The start of the first hole in `[start, end)`; `end` if there is no hole.
    pub(crate) fn covered(&self, start: u64, end: u64) -> u64 {
        let mut at = start;
        for a in self.overlapping(start, end) {
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
        Placed { start: span.first, end: span.last.saturating_add(1), area, extras: self.extras.get(area.extra) }
    }

    pub(crate) fn page(&self) -> u64 {
        self.config.page_size.bytes()
    }

    pub(crate) fn aligned(&self, x: u64) -> bool {
        x & (self.page() - 1) == 0
    }

    /// The end of the range as most calls compute it: start aligned, length rounded up, not
    /// wrapping.
    pub(crate) fn end_of(&self, start: u64, len: u64) -> Result<u64, Errno> {
        let rounded = self.page_up(len);
        let end = start.wrapping_add(rounded);
        let bad = !self.aligned(start) || (len != 0 && rounded == 0) || end < start;
        if bad { Err(Errno::EINVAL) } else { Ok(end) }
    }

    /// `x` rounded up to a page, wrapping to 0 as in Linux.
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
