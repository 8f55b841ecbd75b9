//! Chooses the address of a map if the caller leaves it open: Linux's search, and others. Knows
//! which place is preferred; `occupied` knows which are free. Knows nothing else of areas.
//!
//! Linux's rules are from mmap(2) and personality(2), from Linux's documentation of five-level
//! paging, and from the running kernel (6.18). tests/placement.rs predicts each address,
//! tests/process/exec.rs the bases of a new program.

use crate::area::flags::MapFlags;
use crate::area::huge_places::HugePlaces;
use crate::area::page_size::PageSize;
use crate::area::{Area, Backing};
use crate::space::features::Features;
use crate::space::index::AreaIndex;
use crate::space::occupied::{Occupied, free_place, hinted};
use crate::space::{AddressSpace, Config};
use samara::{End, GapQuery, RangeMap};

/// Where searches for free address space begin and end, in bytes. Linux fixes them when a program
/// starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bases {
    /// Start of the downward search, exclusive (`mmap_base`).
    pub top_down: u64,
    /// Start of the upward search. It follows a downward search that failed, and is the only one if
    /// `legacy`.
    pub bottom_up: u64,
    /// The lowest address that a search chooses (the larger of `vm.mmap_min_addr` and a security
    /// module's limit).
    pub least: u64,
    /// The lowest address of a fixed map without [`Caps::SYS_RAWIO`](crate::Caps::SYS_RAWIO)
    /// (`vm.mmap_min_addr`).
    pub fixed_least: u64,
    /// Whether all searches go upwards (`vm.legacy_va_layout`, ADDR_COMPAT_LAYOUT).
    pub legacy: bool,
    /// Size of a huge page in bytes. Maps of whole huge pages are aligned to it. 0 if the kernel
    /// has no huge pages.
    pub huge: u64,
    /// Start of the MAP_32BIT window, which ends at 2 GiB. Linux draws it for each call, from 1 GiB
    /// up to 32 MiB more; with randomisation off it is 1 GiB.
    pub low: u64,
    /// End of the part of user space that searches choose from, exclusive. A hint above it makes
    /// the search use all of user space. This is Linux with five levels of page tables, where the
    /// part ends 4096 bytes below 2^47; a hint below that end whose range passes it is not granted.
    /// `u64::MAX`: there is no such part.
    pub window: u64,
}

impl Default for Bases {
    /// Linux on x86-64 with 47-bit addresses and an 8 MiB stack limit, without randomisation.
    fn default() -> Self {
        Bases {
            top_down: 0x7fff_f7ff_f000,
            bottom_up: 0x2aaa_aaaa_b000,
            least: 0x1_0000,
            fixed_least: 0x1000,
            legacy: false,
            huge: 0x20_0000,
            low: 0x4000_0000,
            window: u64::MAX,
        }
    }
}

/// The end of user space of Linux on x86-64 with 47-bit addresses; with 56-bit addresses, the end
/// of the part that searches choose from without a hint above it.
const TASK_47: u64 = 0x7fff_ffff_f000;

impl Bases {
    /// The bases that exec of a 64-bit program decides on Linux on x86-64. User space ends at
    /// `task_size`: 4096 bytes below 2^47, or below 2^56 with five levels of page tables. The more
    /// a stack may grow (`stack_limit`, the soft RLIMIT_STACK in bytes; `u64::MAX` is no limit),
    /// the lower the downward search begins.
    ///
    /// `random` is the shift of both bases in bytes: whole pages, fewer than 2^28 of them
    /// (`vm.mmap_rnd_bits`). `None`: randomisation is off (ADDR_NO_RANDOMIZE), and no room is left
    /// for a stack at a random address. Everything else is as in [`Bases::default`]. The caller
    /// sets the lowest addresses (`least`, `fixed_least`) and whether searches go upwards
    /// (`legacy`).
    ///
    /// ```
    /// use samara_mm::Bases;
    /// let task = 0x7fff_ffff_f000;
    /// assert_eq!(Bases::at_exec(task, 8 << 20, None), Bases::default());
    /// assert_eq!(Bases::at_exec(task, 1 << 30, None).top_down, 0x7fff_bfef_f000);
    /// assert_eq!(Bases::at_exec(task, 1 << 30, Some(0x1234_5000)).top_down, 0x7ffb_adbb_a000);
    /// assert_eq!(Bases::at_exec(task, u64::MAX, None).top_down, 0x1555_5555_6000);
    /// ```
    pub fn at_exec(task_size: u64, stack_limit: u64, random: Option<u64>) -> Bases {
        const PAGE: u64 = 4096;
        const GUARD: u64 = 256 * PAGE;
        const LEAST: u64 = 128 << 20;
        const STACK_RANDOM: u64 = 16 << 30;
        let end = task_size.min(TASK_47);
        let room = GUARD + if random.is_some() { STACK_RANDOM } else { 0 };
        let gap = stack_limit.saturating_add(room).clamp(LEAST, (end / 6 * 5).max(LEAST));
        let random = random.unwrap_or(0);
        Bases {
            top_down: end.saturating_sub(gap).saturating_sub(random).next_multiple_of(PAGE),
            bottom_up: (end / 3).next_multiple_of(PAGE).saturating_add(random),
            window: if task_size > TASK_47 { TASK_47 } else { u64::MAX },
            ..Bases::default()
        }
    }

    /// The end of the search for a map with this hint: the end of the part, or of user space if the
    /// hint is above the part.
    fn end(&self, hint: u64, task_size: u64) -> u64 {
        if hint > self.window { task_size } else { task_size.min(self.window) }
    }
}

/// Free address space to search for, in bytes. Lengths are whole pages; whole huge pages for memory
/// in huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// The address that the caller prefers; 0 without one.
    pub hint: u64,
    /// Length.
    pub len: u64,
    /// The flags of the call.
    pub flags: MapFlags,
    /// Prefers a place congruent to this offset modulo [`Bases::huge`].
    pub huge: Option<u64>,
    /// With `huge`: uses this size instead of [`Bases::huge`], and searches as Linux does for
    /// shared memory ([`HugePlaces::Shared`]).
    pub shared: Option<PageSize>,
    /// The place must be a multiple of this: the huge page size for memory in huge pages, else the
    /// page size. The hint is already a multiple.
    pub align: PageSize,
}

/// An argument that keeps other crates from implementing a method.
#[derive(Clone, Copy, Debug)]
pub struct Own;

/// Chooses where a map goes.
///
/// The place must be free, within user space, and a multiple of [`Want::align`]. Otherwise the call
/// fails with EINVAL, ENOMEM or EEXIST.
///
/// ```
/// use samara_mm::{AddressSpace, Backing, Config, FileId, MapRequest, Placement, Prot, Want};
///
/// /// One map behind the other, and nothing ever again where something was.
/// struct Bump(u64);
/// impl<B: Backing> Placement<B> for Bump {
///     fn place(&mut self, _space: &AddressSpace<B>, want: &Want) -> Option<u64> {
///         let at = self.0;
///         self.0 = at.checked_add(want.len)?;
///         Some(at)
///     }
/// }
///
/// let mut space = AddressSpace::<FileId>::new(Config::default());
/// let mut bump = Bump(0x10_0000);
/// let (first, _) = space.mmap(&MapRequest::anonymous(0, 0x3000, Prot::RW), &mut bump)?;
/// space.unmap(first, 0x3000)?;
/// let (second, _) = space.mmap(&MapRequest::anonymous(0, 0x1000, Prot::RW), &mut bump)?;
/// assert_eq!((first, second), (0x10_0000, 0x10_3000));
/// # Ok::<(), samara_mm::Error>(())
/// ```
pub trait Placement<B, I = RangeMap<u64, Area<B>>> {
    /// A place for `want`. `None`: no place is free (ENOMEM).
    fn place(&mut self, space: &AddressSpace<B, I>, want: &Want) -> Option<u64>;

    /// [`place`](Self::place) with `&mut` access to the space, whose index may remember the place.
    /// Also returns whether the place is certain to be free. No other crate can implement this
    /// method.
    #[doc(hidden)]
    #[inline]
    fn seek_place(&mut self, space: &mut AddressSpace<B, I>, want: &Want, _own: Own) -> Option<(u64, bool)> {
        Some((self.place(space, want)?, false))
    }

    /// The place that [`place`](Self::place) would choose in a shared space with these areas and
    /// this configuration: [`Caller::mmap`](crate::Caller::mmap) then locks the range around the
    /// place. `None` (the default): no place is free, or the choice needs the whole space. Then the
    /// call uses `place`.
    ///
    /// The answer must stay the same if concurrent calls add areas elsewhere that do not grow down.
    /// Elsewhere means that they meet neither the place nor, if [`Want::huge`] is set, the
    /// [`Bases::huge`] bytes on either side of it. The highest or the lowest free place is such an
    /// answer; the narrowest one is not.
    ///
    /// May be called more than once for one call, while the areas may change, so it must not change
    /// `self` in a way that affects later answers. It must not make a call on the shared space,
    /// which could wait for this one.
    fn place_among(&mut self, areas: &dyn Occupied, config: &Config, want: &Want) -> Option<u64> {
        let _unused = (areas, config, want);
        None
    }
}

/// Chooses as Linux does on x86-64: the hint if it is free, else the highest place below
/// `mmap_base`, else the lowest one above the other base. O(log n), plus O(log n) for each area
/// that grows down and is in the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Linux;

/// Chooses the hint if it is free, else the lowest place; below [`Bases::top_down`] if there is one
/// there, because the room above belongs to the stack. Memory in huge pages goes to the lowest gap
/// that has room for it at any alignment, as Linux searches for it. O(log n).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirstFit;

/// Chooses the hint if it is free, else the lowest place in the narrowest gap that is wide enough;
/// below [`Bases::top_down`] if there is one there. O(n).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BestFit;

impl<B: Backing, I: AreaIndex<B>> Placement<B, I> for Linux {
    fn place(&mut self, space: &AddressSpace<B, I>, want: &Want) -> Option<u64> {
        linux(space, space.config(), want)
    }

    /// The common case is a map that may go anywhere: one search, whose place is remembered.
    #[inline]
    fn seek_place(&mut self, space: &mut AddressSpace<B, I>, want: &Want, _own: Own) -> Option<(u64, bool)> {
        let config = &space.config;
        let page = config.page_size;
        let anywhere = want.hint == 0 && want.huge.is_none() && want.align == page;
        if anywhere && !config.bases.legacy && !want.flags.contains(MapFlags::BIT32) {
            let (least, top_down) = high_window(config, want);
            let (low, high) = (page.up(least), page.down(top_down));
            if low < high
                && let query = GapQuery::new(want.len).within(low..=high - 1).from(End::Highest)
                && let Some((place, next)) = space.areas.seek_gap(&query)
                && page.holds(place.first)
                && next.is_none_or(|(span, area)| config.guarded(span.first, area.flags) == span.first)
            {
                return Some((place.first, true));
            }
        }
        Some((linux(space, &space.config, want)?, false))
    }

    fn place_among(&mut self, areas: &dyn Occupied, config: &Config, want: &Want) -> Option<u64> {
        let (Some(offset), Some(size)) = (want.huge, want.shared) else { return linux(areas, config, want) };
        // If the first place does not suit, the wider one depends on free space elsewhere.
        let first = linux_hinted(areas, config, want, want.len).or_else(|| plain(areas, config, want, want.len));
        first.filter(|at| *at == want.hint || up_to(*at, offset, size) == 0)
    }
}

/// The end of Linux's searches for this map.
fn search_end(config: &Config, want: &Want) -> u64 {
    // A hint below the start of the MAP_32BIT window is granted.
    if want.flags.contains(MapFlags::BIT32) { LOW_END } else { config.bases.end(want.hint, config.task_size) }
}

/// The hint, if `len` bytes are free there.
fn linux_hinted<A: Occupied + ?Sized>(areas: &A, config: &Config, want: &Want, len: u64) -> Option<u64> {
    hinted(areas, config, &Want { len, ..*want }, (0, search_end(config, want)))
}

/// Linux's choice.
#[inline]
fn linux<A: Occupied + ?Sized>(areas: &A, config: &Config, want: &Want) -> Option<u64> {
    let bases = &config.bases;
    let wish = |len| linux_hinted(areas, config, want, len);
    if let (Some(offset), Some(size)) = (want.huge, want.shared) {
        return wish(want.len).or_else(|| shared(areas, config, want, offset, size));
    }
    // If huge pages are wanted, the hint must have room for one more.
    let huge = want.huge.filter(|_| bases.huge != 0).and_then(|offset| {
        let len = want.len.checked_add(bases.huge)?;
        wish(len).or_else(|| aligned(areas, config, want, offset))
    });
    huge.or_else(|| wish(want.len)).or_else(|| plain(areas, config, want, want.len))
}

/// The end of the MAP_32BIT window.
const LOW_END: u64 = 0x8000_0000;
/// The lowest address with MAP_ABOVE4G.
const ABOVE: u64 = 0x1_0000_0000;

/// Whether this range of the file holds a whole huge page, and does not wrap with one more.
fn holds_huge(offset: u64, len: u64, size: u64) -> bool {
    let whole = |first: u64| offset.checked_add(len)?.checked_sub(first).filter(|rest| *rest >= size);
    let room = offset.checked_add(len).and_then(|end| end.checked_add(size));
    room.is_some() && offset.checked_next_multiple_of(size).and_then(whole).is_some()
}

/// Which addresses a private map of `/dev/zero` prefers, if it is one.
pub(crate) fn of_zeros<B: Backing>(backing: Option<&B>, private: bool, features: Features) -> Option<HugePlaces> {
    let aligned = features.contains(Features::ZERO_ALIGNED);
    let places = if aligned { HugePlaces::FileSystem } else { HugePlaces::Plain };
    backing.filter(|file| private && file.is_zero()).map(|_| places)
}

/// Linux's search without a preferred alignment.
fn plain<A: Occupied + ?Sized>(areas: &A, config: &Config, want: &Want, len: u64) -> Option<u64> {
    let bases = &config.bases;
    let place = |low, high, end| free_place(areas, config, (len, want.align), (low, high), end);
    if want.flags.contains(MapFlags::BIT32) {
        return place(bases.low, LOW_END, End::Lowest);
    }
    if !bases.legacy {
        let (least, top_down) = high_window(config, want);
        if let Some(at) = place(least, top_down, End::Highest) {
            return Some(at);
        }
    }
    place(bases.bottom_up.max(least_by(want.flags)), bases.end(want.hint, config.task_size), End::Lowest)
}

/// The lowest address that these flags allow.
#[inline]
fn least_by(flags: MapFlags) -> u64 {
    if flags.contains(MapFlags::ABOVE4G) { ABOVE } else { 0 }
}

/// The end and the start of Linux's search downwards.
#[inline]
fn high_window(config: &Config, want: &Want) -> (u64, u64) {
    let bases = &config.bases;
    let task = bases.end(want.hint, config.task_size);
    let least = bases.least.max(config.page_size.bytes()).max(least_by(want.flags));
    // A search in all of user space begins below its end at the same distance as a search in the
    // part.
    (least, bases.top_down.saturating_add(task.saturating_sub(bases.window)))
}

/// Linux's search for whole huge pages: finds a place with room for one more, and takes the aligned
/// part.
fn aligned<A: Occupied + ?Sized>(areas: &A, config: &Config, want: &Want, offset: u64) -> Option<u64> {
    let bases = &config.bases;
    let at = plain(areas, config, want, want.len.checked_add(bases.huge)?)?;
    let up = offset.wrapping_sub(at) & (bases.huge - 1);
    // Takes the upper part, also where MAP_32BIT searches upwards.
    Some(at + if up == 0 && !bases.legacy { bases.huge } else { up })
}

/// How far `at` is below the next address that suits this offset.
fn up_to(at: u64, offset: u64, size: PageSize) -> u64 {
    offset.wrapping_sub(at) & (size.bytes() - 1)
}

/// Linux's search for shared memory: takes the first place found, unless it does not suit and a
/// place wider by a huge page less a page is free.
fn shared<A: Occupied + ?Sized>(areas: &A, config: &Config, want: &Want, offset: u64, size: PageSize) -> Option<u64> {
    let first = plain(areas, config, want, want.len)?;
    if up_to(first, offset, size) == 0 {
        return Some(first);
    }
    let wide = want.len.checked_add(size.bytes() - config.page_size.bytes());
    let wide = wide.and_then(|len| plain(areas, config, want, len));
    wide.map(|at| at + up_to(at, offset, size)).or(Some(first))
}

impl Want {
    /// The range `[start, end)` that the place must lie in, by the flags (MAP_32BIT, MAP_ABOVE4G),
    /// the lowest address and the end of user space.
    pub fn window(&self, config: &Config) -> (u64, u64) {
        let (least, task) = (config.bases.least, config.bases.end(self.hint, config.task_size));
        match self.flags {
            flags if flags.contains(MapFlags::BIT32) => (least, LOW_END.min(task)),
            flags if flags.contains(MapFlags::ABOVE4G) => (least.max(ABOVE), task),
            _ => (least, task),
        }
    }
}

impl<B: Backing, I: AreaIndex<B>> Placement<B, I> for FirstFit {
    fn place(&mut self, space: &AddressSpace<B, I>, want: &Want) -> Option<u64> {
        first_fit(space, space.config(), want)
    }

    fn place_among(&mut self, areas: &dyn Occupied, config: &Config, want: &Want) -> Option<u64> {
        first_fit(areas, config, want)
    }
}

/// The hint, or the lowest place.
#[inline]
fn first_fit<A: Occupied + ?Sized>(areas: &A, config: &Config, want: &Want) -> Option<u64> {
    let (least, end) = want.window(config);
    let place = |end| free_place(areas, config, (want.len, want.align), (least, end), End::Lowest);
    let high = config.bases.top_down.min(end);
    hinted(areas, config, want, (least, end)).or_else(|| place(high)).or_else(|| place(end))
}

/// The lowest place in the narrowest gap in this window that is wide enough.
fn narrowest<B: Backing, I: AreaIndex<B>>(
    space: &AddressSpace<B, I>,
    want: &Want,
    (least, end): (u64, u64),
) -> Option<u64> {
    let (mut from, mut best) = (least, None);
    // The end of the window ends the last gap.
    let ends = space.areas().filter(|a| a.end > least).map(|a| (space.config.guarded(a.start, a.area.flags), a.end));
    for (gap, next) in ends.chain([(end, end)]) {
        let wide = gap.min(end).saturating_sub(from);
        let at = want.align.up(from);
        if wide >= want.len.saturating_add(at.wrapping_sub(from)) && best.is_none_or(|(least, _)| wide < least) {
            best = Some((wide, at));
        }
        from = from.max(next);
    }
    best.map(|(_, at)| at)
}

impl<B: Backing, I: AreaIndex<B>> Placement<B, I> for BestFit {
    fn place(&mut self, space: &AddressSpace<B, I>, want: &Want) -> Option<u64> {
        let (least, task) = want.window(space.config());
        let high = space.config().bases.top_down.min(task);
        let place = |end| narrowest(space, want, (least, end));
        space.hinted(want, (least, task)).or_else(|| place(high)).or_else(|| place(task))
    }
}

impl Config {
    /// The `huge` and the `shared` of a [`Want`]. `places` are the file's preferred places; `None`
    /// for private anonymous memory. That prefers huge pages, without a hint, if it consists of
    /// whole ones; in some releases if it holds one, or never.
    pub(crate) fn suitable(
        &self,
        places: Option<HugePlaces>,
        offset: u64,
        hint: u64,
        len: u64,
    ) -> (Option<u64>, Option<PageSize>) {
        let size = self.bases.huge;
        if size < self.page_size.bytes() {
            return (None, None);
        }
        match places {
            None => {
                if hint != 0 || len < size {
                    return (None, None);
                }
                let any = self.features.contains(Features::HUGE_ANY_LENGTH);
                let whole = self.features.contains(Features::HUGE_MULTIPLES) && len.is_multiple_of(size);
                ((any || whole).then_some(0), None)
            }
            Some(HugePlaces::Plain) => (None, None),
            Some(HugePlaces::FileSystem) => (holds_huge(offset, len, size).then_some(offset), None),
            Some(HugePlaces::Shared(size)) => {
                let within = offset & (size.bytes() - 1);
                let least = if within == 0 { size.bytes() } else { 2 * size.bytes() - within };
                if len >= least { (Some(offset), Some(size)) } else { (None, None) }
            }
        }
    }
}
