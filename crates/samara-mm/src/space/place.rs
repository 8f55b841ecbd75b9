//! Where a map goes whose place the caller leaves open: Linux's search, and others. Knows of the
//! areas where they are, and which grow down; not what else is in them.
//!
//! Linux's rules are from mmap(2) and personality(2), from Linux's documentation of five-level
//! paging, and from the running kernel (6.18): tests/place.rs foretells each address, tests/exec.rs
//! where a new program begins.

use crate::area::Backing;
use crate::area::flags::{Flags, MapFlags};
use crate::area::huge_places::HugePlaces;
use crate::area::page_size::PageSize;
use crate::space::features::Features;
use crate::space::{AddressSpace, Config};
use samara::{End, GapQuery, Span};

/// Where searches for free address space begin and end, in bytes. Linux fixes them when a program
/// starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bases {
    /// Where the search downwards begins, exclusive (`mmap_base`).
    pub top_down: u64,
    /// Where the search upwards begins: the one that follows a search downwards that failed, and
    /// the only one if `legacy`.
    pub bottom_up: u64,
    /// The lowest address that is chosen (the larger of `vm.mmap_min_addr` and what a security
    /// module asks for).
    pub least: u64,
    /// The lowest address of a fixed map without [`Caps::SYS_RAWIO`](crate::Caps::SYS_RAWIO)
    /// (`vm.mmap_min_addr`).
    pub fixed_least: u64,
    /// Whether all searches go upwards (`vm.legacy_va_layout`, ADDR_COMPAT_LAYOUT).
    pub legacy: bool,
    /// Bytes of a huge page, to which maps of whole huge pages are aligned; 0 where the kernel has
    /// none.
    pub huge: u64,
    /// Where the window of MAP_32BIT begins; it ends at 2 GiB. Linux draws it anew for each call,
    /// from 1 GiB and 32 MiB more, unless randomisation is off: then it is 1 GiB.
    pub low: u64,
    /// Where that part of user space ends that places are chosen in, exclusive, unless a wish for
    /// more than this asks for all of it (Linux on five levels of page tables, where it is 2^47
    /// - 4096; a wish that begins before and ends behind it is not granted). `u64::MAX`: there is
    /// no such part.
    pub window: u64,
}

impl Default for Bases {
    /// Linux on x86-64 with 47-bit addresses and an 8 MiB stack limit, where nothing is random.
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

/// The end of user space of Linux on x86-64 where addresses have 47 bits; of what is chosen unasked
/// where they have 56.
const TASK_47: u64 = 0x7fff_ffff_f000;

impl Bases {
    /// What exec of a 64-bit program decides on Linux on x86-64, where user space ends at
    /// `task_size` (2^47 - 4096, or 2^56 - 4096 on five levels): the more a stack may grow
    /// (`stack_limit`, the soft RLIMIT_STACK in bytes; `u64::MAX` is none), the lower the search
    /// downwards begins.
    ///
    /// `random` is by how much both bases are shifted: whole pages, fewer than 2^28 of them
    /// (`vm.mmap_rnd_bits`). `None`: randomisation is off (ADDR_NO_RANDOMIZE), and no room is
    /// left for a stack that begins anywhere. The rest is as in [`Bases::default`]: how low maps
    /// may be (`least`, `fixed_least`), and whether searches go upwards (`legacy`), is the
    /// caller's to set.
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

    /// Where what is chosen for this wish ends: user space, or the part of it that is meant unless
    /// the wish is for more.
    fn end(&self, hint: u64, task_size: u64) -> u64 {
        if hint > self.window { task_size } else { task_size.min(self.window) }
    }
}

/// Free address space that is sought. All in bytes; lengths are whole pages (huge ones, if it is to
/// be a place for such).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Where the caller would like it; 0: no wish.
    pub hint: u64,
    /// How much.
    pub len: u64,
    /// The flags of the call.
    pub flags: MapFlags,
    /// Asks for a place that is congruent to this offset modulo [`Bases::huge`], if one is found.
    pub huge: Option<u64>,
    /// With `huge`: not modulo that size but this one, and as Linux seeks for shared memory
    /// ([`HugePlaces::Shared`]).
    pub shared: Option<PageSize>,
    /// What the place must be a multiple of: more than the page size for memory in huge pages,
    /// which goes nowhere else. The wish is one already.
    pub align: PageSize,
}

/// Who chooses where a map goes.
///
/// What is chosen must be whole pages, free, within user space, and a multiple of what `want` says,
/// or the call that asks fails with EINVAL or ENOMEM, or EEXIST.
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
pub trait Placement<B> {
    /// A place for `want`; `None`: there is none (ENOMEM).
    fn place(&mut self, space: &AddressSpace<B>, want: &Want) -> Option<u64>;
}

/// Chooses as Linux does on x86-64: the hint if it is free, else the highest place below
/// `mmap_base`, else the lowest one above the other base. O(log n), and as much again for each area
/// that grows down and is in the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Linux;

/// The hint if it is free, else the lowest place: below [`Bases::top_down`] if there is one, as the
/// room above is the stack's. O(log n).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirstFit;

/// The hint if it is free, else the lowest place in the narrowest gap that is wide enough: below
/// [`Bases::top_down`] if there is one. O(n).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BestFit;

impl<B: Backing> Placement<B> for Linux {
    fn place(&mut self, space: &AddressSpace<B>, want: &Want) -> Option<u64> {
        let bases = &space.config().bases;
        // A wish below where the window of MAP_32BIT begins is granted.
        let end =
            if want.flags.contains(MapFlags::BIT32) { LOW_END } else { bases.end(want.hint, space.config().task_size) };
        let hinted = |len| space.hinted(&Want { len, ..*want }, (0, end));
        if let (Some(offset), Some(size)) = (want.huge, want.shared) {
            let wish = hinted(want.len);
            return wish.or_else(|| shared(space, want, offset, size));
        }
        // Where huge pages are sought, a wish must have room for one more.
        let huge = want.huge.filter(|_| bases.huge != 0).and_then(|offset| {
            let len = want.len.checked_add(bases.huge)?;
            hinted(len).or_else(|| aligned(space, want, offset))
        });
        huge.or_else(|| hinted(want.len)).or_else(|| plain(space, want, want.len))
    }
}

/// The end of what MAP_32BIT asks for.
const LOW_END: u64 = 0x8000_0000;
/// Where MAP_ABOVE4G begins.
const ABOVE: u64 = 0x1_0000_0000;

/// Whether a whole huge page of the file lies in this range, and the place with one more does not
/// wrap.
fn holds_huge(offset: u64, len: u64, size: u64) -> bool {
    let whole = |first: u64| offset.checked_add(len)?.checked_sub(first).filter(|rest| *rest >= size);
    let room = offset.checked_add(len).and_then(|end| end.checked_add(size));
    room.is_some() && offset.checked_next_multiple_of(size).and_then(whole).is_some()
}

/// The places of a private map of `/dev/zero`, which is anonymous memory.
pub(crate) fn of_zeros<B: Backing>(backing: Option<&B>, private: bool) -> Option<HugePlaces> {
    backing.filter(|file| private && file.is_zero()).map(|_| HugePlaces::FileSystem)
}

/// Linux's search without the alignment that is only wished for.
fn plain<B: Backing>(space: &AddressSpace<B>, want: &Want, len: u64) -> Option<u64> {
    let bases = &space.config().bases;
    let task = bases.end(want.hint, space.config().task_size);
    let above = if want.flags.contains(MapFlags::ABOVE4G) { ABOVE } else { 0 };
    if want.flags.contains(MapFlags::BIT32) {
        return space.free_place(len, want.align, bases.low, LOW_END, End::Lowest);
    }
    if !bases.legacy {
        let least = bases.least.max(space.page()).max(above);
        // In all of user space as far below its end as else below the end of the part.
        let top_down = bases.top_down.saturating_add(task.saturating_sub(bases.window));
        if let Some(at) = space.free_place(len, want.align, least, top_down, End::Highest) {
            return Some(at);
        }
    }
    space.free_place(len, want.align, bases.bottom_up.max(above), task, End::Lowest)
}

/// Linux's search for whole huge pages: a place with one huge page more, of which the aligned part
/// is taken.
fn aligned<B: Backing>(space: &AddressSpace<B>, want: &Want, offset: u64) -> Option<u64> {
    let bases = &space.config().bases;
    let at = plain(space, want, want.len.checked_add(bases.huge)?)?;
    let up = offset.wrapping_sub(at) & (bases.huge - 1);
    // The upper part, also of what MAP_32BIT seeks upwards.
    Some(at + if up == 0 && !bases.legacy { bases.huge } else { up })
}

/// Linux's search for shared memory: the place that is found first, unless it does not suit and one
/// more page less than a huge one is free elsewhere.
fn shared<B: Backing>(space: &AddressSpace<B>, want: &Want, offset: u64, size: PageSize) -> Option<u64> {
    let first = plain(space, want, want.len)?;
    let up = |at: u64| offset.wrapping_sub(at) & (size.bytes() - 1);
    if up(first) == 0 {
        return Some(first);
    }
    let wide = want.len.checked_add(size.bytes() - space.page()).and_then(|len| plain(space, want, len));
    wide.map(|at| at + up(at)).or(Some(first))
}

impl Want {
    /// Where it may go, `[start, end)`, as far as its flags (MAP_32BIT, MAP_ABOVE4G), the lowest
    /// address and the end of user space say.
    pub fn window(&self, config: &Config) -> (u64, u64) {
        let (least, task) = (config.bases.least, config.bases.end(self.hint, config.task_size));
        match self.flags {
            flags if flags.contains(MapFlags::BIT32) => (least, LOW_END.min(task)),
            flags if flags.contains(MapFlags::ABOVE4G) => (least.max(ABOVE), task),
            _ => (least, task),
        }
    }
}

impl<B: Backing> Placement<B> for FirstFit {
    fn place(&mut self, space: &AddressSpace<B>, want: &Want) -> Option<u64> {
        let (least, end) = want.window(space.config());
        let place = |end| space.free_place(want.len, want.align, least, end, End::Lowest);
        let high = space.config().bases.top_down.min(end);
        space.hinted(want, (least, end)).or_else(|| place(high)).or_else(|| place(end))
    }
}

/// The lowest place in the narrowest gap in this window that has room.
fn narrowest<B: Backing>(space: &AddressSpace<B>, want: &Want, (least, end): (u64, u64)) -> Option<u64> {
    let (mut from, mut best) = (least, None);
    // The window's end ends the last gap.
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

impl<B: Backing> Placement<B> for BestFit {
    fn place(&mut self, space: &AddressSpace<B>, want: &Want) -> Option<u64> {
        let (least, task) = want.window(space.config());
        let high = space.config().bases.top_down.min(task);
        let place = |end| narrowest(space, want, (least, end));
        space.hinted(want, (least, task)).or_else(|| place(high)).or_else(|| place(task))
    }
}

impl<B: Backing> AddressSpace<B> {
    /// What the place is to be congruent to, if it is to suit huge pages, and of which size if they
    /// are shared memory's. `places`: those of the file behind it; `None`: it is private
    /// anonymous memory, which suits them where it is whole huge pages and without a wish.
    pub(crate) fn suitable(
        &self,
        places: Option<HugePlaces>,
        offset: u64,
        hint: u64,
        len: u64,
    ) -> (Option<u64>, Option<PageSize>) {
        let size = self.config.bases.huge;
        if size == 0 {
            return (None, None);
        }
        let whole_multiples = self.config.features.contains(Features::HUGE_MULTIPLES);
        match places {
            None => {
                let whole = if whole_multiples { len.is_multiple_of(size) } else { len >= size };
                ((hint == 0 && whole).then_some(0), None)
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

    /// The place that `want` wishes for, if it has a wish, and that is free and within `window`:
    /// what is kept free below an area that grows down counts as taken.
    pub fn hinted(&self, want: &Want, window: (u64, u64)) -> Option<u64> {
        let (at, end) = (want.hint, want.hint.checked_add(want.len)?);
        let free = at != 0 && at >= window.0 && end <= window.1 && self.area_at(at).is_none();
        let next = self.area_at_or_after(at);
        (free && next.is_none_or(|next| end <= self.config.guarded(next.start, next.area.flags))).then_some(at)
    }

    /// `len` bytes of free address space in `[low, high)`, at a multiple of `align`, at the lowest
    /// or the highest place: what is kept free below an area that grows down counts as taken.
    /// As in Linux, a gap that has room for no more than a place that happens to be a multiple is
    /// passed over. O(log n), and as much again for each such area that is in the way.
    pub fn free_place(&self, len: u64, align: PageSize, low: u64, high: u64, end: End) -> Option<u64> {
        let page = self.page();
        let (mut low, mut high) = (low.checked_next_multiple_of(page)?, self.page_down(high));
        // With as much more as any place in the gap is from a multiple at most.
        let wide = len.checked_add(align.bytes().saturating_sub(page))?;
        let rest = len.checked_sub(1)?;
        loop {
            let window = (low < high).then(|| Span::new(low, high - 1))?;
            let gap = self.areas.find_gap(&GapQuery::new(wide).within(window).from(end))?;
            let at = match end {
                End::Lowest => align.up(gap.first),
                End::Highest => align.down(gap.last - rest),
            };
            let next = self.area_at_or_after(gap.first);
            let room = next.map_or(u64::MAX, |next| self.config.guarded(next.start, next.area.flags));
            if at + rest < room {
                return Some(at);
            }
            match end {
                // Nothing lower in this gap can end lower.
                End::Lowest => low = next?.end,
                End::Highest => high = room,
            }
        }
    }
}

impl Config {
    /// Where what is kept free below an area begins.
    pub(crate) fn guarded(&self, start: u64, flags: Flags) -> u64 {
        let pages = match flags {
            flags if flags.contains(Flags::GROWSDOWN) => self.stack_guard_pages,
            // A shadow stack.
            flags => flags.contains(Flags::SHADOW_STACK).into(),
        };
        start.saturating_sub(pages.saturating_mul(self.page_size.bytes()))
    }
}
