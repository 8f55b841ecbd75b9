//! Keeps faults and changes of the same pages apart: a fault announces its page, a change marks its
//! range and waits for the faults there.
//!
//! Knows addresses; knows no area and no tree.
//!
//! A faulting thread has a record of its own. It announces its page there, in the word chosen by
//! the hash of the page's *block* of 2 MiB. A change raises the *mark* of each block that it
//! changes, chosen by the same hash, or the wide mark if there are many blocks. So a fault writes
//! only to its own record, and the marks that it reads change only for changes of a block of the
//! same hash, or of many blocks. A change reads only the words of faults in blocks of its own
//! hashes.
//!
//! - **FAULT-1** A fault announces its page, then loads the marks. A change stores its range and
//!   raises its marks, then loads the announcements. Each side's store comes before its loads in
//!   one order of all SeqCst accesses. So if both do this at the same time, at least one sees the
//!   other: the fault gives way, or the change waits until the announcement is gone.
//! - **FAULT-2** A fault that sees a mark stays announced and looks at the range of each change
//!   under way ([`ChangeRange`]). If none meets its page, it goes on. FAULT-1 holds for ranges as
//!   it does for marks.
//! - **FAULT-3** Once an announced fault has found no change of its page, nothing about the page
//!   changes until it withdraws: a call that changes the page marks it first, then waits for the
//!   fault.
//! - **FAULT-4** A change publishes before it lowers its marks and clears its range. A fault that
//!   loads the lowered mark, or finds no range, reads the published change.
//!
//! Orderings: an announcement is withdrawn with Release, and a change that finds it gone has loaded
//! it with at least Acquire. So the fault's work on its page happened before the change. Marks are
//! loaded by faults with Acquire at least. They are lowered with SeqCst, as they are raised: it is
//! the same instruction on x86-64. C++20 seems to need Release only; with that Miri reports a race
//! between a fault and a change.

use crate::shared::sync::{AtomicBool, AtomicU64, Ordering, add_fenced, fence, store_fenced};
use core::array;
use samara::Span;

/// Number of hash values of blocks.
const HASHES: usize = 16;
/// Number of bits of an address within a block.
const BLOCK: u32 = 21;
/// Number of blocks up to which a change marks each of them.
const FEW: u64 = 8;

/// A word on a cache line of its own.
#[repr(align(64))]
#[derive(Debug, Default)]
struct Line(AtomicU64);

fn lines() -> [Line; HASHES] {
    array::from_fn(|_| Line::default())
}

/// The hash of the block that holds `addr`.
#[inline]
fn hash(addr: u64) -> usize {
    // The upper bits of the product depend on all bits of the block's number.
    ((addr >> BLOCK).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as usize
}

/// The word of `lines` for this hash, which is below `HASHES`.
#[inline]
fn line(lines: &[Line; HASHES], hash: usize) -> &AtomicU64 {
    &lines[hash % HASHES].0
}

/// The range of a change, end exclusive and not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Changing {
    pub(crate) start: u64,
    pub(crate) end: u64,
}

impl Changing {
    /// The addresses of a span.
    pub(crate) fn of(span: Span) -> Self {
        Changing { start: span.first, end: span.last.saturating_add(1) }
    }

    /// Whether it meets `[start, end)`.
    pub(crate) fn meets(self, start: u64, end: u64) -> bool {
        self.start < end && start < self.end
    }

    /// The smallest range that holds both.
    pub(crate) fn and(self, other: Self) -> Self {
        Changing { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// The hashes of its blocks, some perhaps twice; `None` if there are many blocks.
    fn hashes(self) -> Option<impl Iterator<Item = usize>> {
        let (first, last) = (self.start >> BLOCK, (self.end - 1) >> BLOCK);
        (last - first < FEW).then(|| (first..=last).map(|block| hash(block << BLOCK)))
    }
}

/// The announcements of one thread. Aligned to two cache lines: processors fetch lines in pairs.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct FaultRecord {
    /// The announced page plus 1, in the word of its block's hash; 0: none.
    pages: [Line; HASHES],
    taken: AtomicBool,
}

impl FaultRecord {
    /// A free record.
    pub(crate) fn new() -> Self {
        FaultRecord { pages: lines(), taken: AtomicBool::new(false) }
    }

    /// Takes the record, if it is free.
    pub(crate) fn take(&self) -> bool {
        // Acquire, with the Release of `give_back`: its words are withdrawn.
        !self.taken.swap(true, Ordering::Acquire)
    }

    /// Gives the record to the next thread. Withdraws the announcements of leaked guards.
    pub(crate) fn give_back(&self) {
        self.pages.iter().filter(|page| page.0.load(Ordering::Relaxed) != 0).for_each(|page| {
            page.0.store(0, Ordering::Release); // as in the `drop` of an announcement
        });
        self.taken.store(false, Ordering::Release); // with the Acquire of `take`
    }

    /// Announces the page that starts at `page`. `Err`: a change may be under way there; it has the
    /// announcement, for [`may_stay`].
    #[inline]
    pub(crate) fn enter(&self, marks: &Marks, page: u64) -> Result<Announced<'_>, Announced<'_>> {
        let announced = self.announce(page);
        if marks.may_change(page) { Err(announced) } else { Ok(announced) }
    }

    /// Announces the page that starts at `page`.
    #[inline]
    fn announce(&self, page: u64) -> Announced<'_> {
        let word = line(&self.pages, hash(page));
        store_fenced(word, page.wrapping_add(1)); // FAULT-1, with `is_free`
        Announced { word }
    }

    /// Whether no announcement here meets `change`.
    pub(crate) fn is_free(&self, change: Changing) -> bool {
        let is_at = |word: u64| word != 0 && change.meets(word - 1, word);
        // SeqCst, with `store_fenced` in the announcements (FAULT-1).
        let free = |hash: usize| !is_at(line(&self.pages, hash).load(Ordering::SeqCst));
        match change.hashes() {
            Some(mut hashes) => hashes.all(free),
            None => (0..HASHES).all(free),
        }
    }
}

/// An announcement, which is withdrawn when this is dropped.
#[derive(Debug)]
pub(crate) struct Announced<'r> {
    word: &'r AtomicU64,
}

impl Drop for Announced<'_> {
    #[inline]
    fn drop(&mut self) {
        self.word.store(0, Ordering::Release); // with the load in `is_free`
    }
}

/// A range that one thread is changing now.
#[derive(Debug, Default)]
pub(crate) struct ChangeRange {
    start: AtomicU64,
    /// 0: nothing.
    end: AtomicU64,
}

impl ChangeRange {
    /// Stores the range that is about to change, before its marks are raised.
    #[inline]
    pub(crate) fn set(&self, change: Changing) {
        // Release: with the Acquire fence in `may_meet`. A load that finds this start finds the end
        // of the change before it withdrawn, or this change's end.
        fence(Ordering::Release);
        self.start.store(change.start, Ordering::Relaxed);
        // Release: with the load of `end` in `may_meet`.
        fence(Ordering::Release);
        store_fenced(&self.end, change.end); // FAULT-1, with `may_meet`
    }

    /// Clears the range, when the change is published or given up.
    #[inline]
    pub(crate) fn clear(&self) {
        self.end.store(0, Ordering::Release); // FAULT-4, with `may_meet`
    }

    /// Whether there is no range.
    pub(crate) fn is_clear(&self) -> bool {
        self.end.load(Ordering::Acquire) == 0
    }

    /// Whether the change may meet the page that starts at `page`.
    fn may_meet(&self, page: u64) -> bool {
        loop {
            let end = self.end.load(Ordering::SeqCst); // FAULT-1, with `set`
            if end == 0 {
                return false;
            }
            let start = self.start.load(Ordering::Relaxed);
            fence(Ordering::Acquire); // with the first fence in `set`
            if self.end.load(Ordering::Relaxed) == end {
                return Changing { start, end }.meets(page, page.saturating_add(1));
            }
        }
    }
}

/// Keeps the announcement of a fault at `page` that has seen a mark, if no change under way meets
/// the page (FAULT-2).
#[cold]
pub(crate) fn may_stay<'r, 'c>(
    announced: Announced<'r>,
    mut changes: impl Iterator<Item = &'c ChangeRange>,
    page: u64,
) -> Option<Announced<'r>> {
    (!changes.any(|change| change.may_meet(page))).then_some(announced)
}

/// Whether a change may be under way at `page`. For a thread that has not announced the page.
pub(crate) fn is_changing<'c>(marks: &Marks, mut changes: impl Iterator<Item = &'c ChangeRange>, page: u64) -> bool {
    marks.may_change(page) && changes.any(|change| change.may_meet(page))
}

/// The number of changes under way: for each hash of blocks, and of wide changes.
#[derive(Debug)]
pub(crate) struct Marks {
    blocks: [Line; HASHES],
    wide: Line,
}

impl Marks {
    pub(crate) fn new() -> Self {
        Marks { blocks: lines(), wide: Line::default() }
    }

    /// Whether a change may be under way at `page`. With the page announced, one that begins later
    /// waits (FAULT-1).
    #[inline]
    fn may_change(&self, page: u64) -> bool {
        // SeqCst, with `raise` (FAULT-1); they are Acquire too, with `lower` (FAULT-4).
        line(&self.blocks, hash(page)).load(Ordering::SeqCst) != 0 || self.wide.0.load(Ordering::SeqCst) != 0
    }

    /// Whether a mark of the range's hashes, or the wide mark, is raised.
    #[inline]
    pub(crate) fn may_meet(&self, range: Changing) -> bool {
        let is_raised = |mark: &AtomicU64| mark.load(Ordering::SeqCst) != 0; // as in `may_change`
        is_raised(&self.wide.0)
            || match range.hashes() {
                Some(mut hashes) => hashes.any(|hash| is_raised(line(&self.blocks, hash))),
                None => self.blocks.iter().any(|mark| is_raised(&mark.0)),
            }
    }

    fn each(&self, change: Changing, act: impl Fn(&AtomicU64)) {
        match change.hashes() {
            Some(hashes) => hashes.for_each(|hash| act(line(&self.blocks, hash))),
            None => act(&self.wide.0),
        }
    }

    /// Marks a range that is about to change.
    pub(crate) fn raise(&self, change: Changing) {
        self.each(change, |mark| add_fenced(mark, 1)); // FAULT-1, with `may_change`
    }

    /// Lowers the marks, when the change is published or given up.
    pub(crate) fn lower(&self, change: Changing) {
        self.each(change, |mark| {
            mark.fetch_sub(1, Ordering::SeqCst); // FAULT-4, with `may_change`
        });
    }

    /// Whether no change is under way.
    pub(crate) fn are_lowered(&self) -> bool {
        self.blocks.iter().chain([&self.wide]).all(|mark| mark.0.load(Ordering::Acquire) == 0)
    }
}

/// A range that is about to change, marked until this is dropped.
pub(crate) struct Marked<'a> {
    marks: &'a Marks,
    range: &'a ChangeRange,
    change: Changing,
}

impl<'a> Marked<'a> {
    #[inline]
    pub(crate) fn raise(marks: &'a Marks, range: &'a ChangeRange, change: Changing) -> Self {
        range.set(change);
        marks.raise(change);
        Marked { marks, range, change }
    }
}

impl Drop for Marked<'_> {
    #[inline]
    fn drop(&mut self) {
        self.marks.lower(self.change);
        self.range.clear();
    }
}
