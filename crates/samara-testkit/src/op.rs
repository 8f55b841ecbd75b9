//! Every operation of a range map, as data.
//!
//! Knows which operations there are, not their answers. The same code makes scripts from a seed and
//! from a fuzzer's bytes, so each can find what the other finds. Scripts for a shared map also have
//! [`Shared`] operations.

use crate::key::TestKey;
use crate::universe::Universe;
use arbitrary::{Result, Unstructured};
use samara::{End, GapQuery, Span};

/// How an iterator is walked: each bit of `turns` says which end the next step is from (set: the
/// back).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Walk {
    /// The ends, lowest bit first, and again from the lowest after the highest.
    pub turns: u32,
    /// How many steps at most, before the iterator is dropped.
    pub steps: u16,
}

/// An operation of a range map.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Op<K> {
    Insert(Span<K>),
    Replace(Span<K>),
    ClearRange(Span<K>),
    Remove(K),
    SplitAt(K),
    Get(K),
    /// Stores a new value through the reference.
    GetMut(K),
    AtOrAfter(K),
    AtOrBefore(K),
    Iter(Walk),
    /// Stores a new value through each reference.
    IterMut(Walk),
    Range(Span<K>, Walk),
    /// Stores a new value through each reference.
    RangeMut(Span<K>, Walk),
    Gaps(Span<K>, Walk),
    FindGap(GapQuery<K>),
    /// Continues with the copy or with the original, and drops the other.
    TryClone {
        keep_copy: bool,
    },
    /// Starts again from these ranges (as they are, or first made into a list that is ascending).
    FromSorted {
        spans: Vec<Span<K>>,
        tidy: bool,
    },
    /// Starts again from the map's own entries.
    Rebuild,
    Reserve(u16),
    /// Gives back what was reserved.
    Release,
    /// Makes a cursor at a key, and takes these steps with it; those that edit are left out.
    Cursor(K, Vec<Step<K>>),
    /// Makes a mutable cursor at a key, and takes these steps with it.
    CursorMut(K, Vec<Step<K>>),
    Clear,
    Verb(Verb<K>),
    Shared(Shared<K>),
}

/// What only a shared map can do; a plain map leaves it out.
#[derive(Clone, Debug, PartialEq)]
pub enum Shared<K> {
    /// Pins a guard, and begins a walk over the range and a cursor at the key, which stay open
    /// during the operations that follow.
    Pin(Span<K>, K),
    /// Drops the guard that was pinned last.
    Unpin,
    /// Steps of the walk that was begun last.
    Walk(Walk),
    /// Steps of the cursor that was begun last; those that edit are left out.
    Steps(Vec<Step<K>>),
    /// Takes a snapshot, through the write guard or as a reader does, and keeps it.
    Snapshot {
        /// Through the write guard.
        by_handle: bool,
    },
    /// Stores in a snapshot that is kept.
    StoreKept(u8, Span<K>),
    /// Replaces the map by a snapshot that is kept.
    SetKept(u8),
    /// Drops a snapshot that is kept.
    DropKept(u8),
    /// Does these operations as one atomic update; where it `fails` after them, none of them.
    Update {
        /// Operations of a plain map.
        ops: Vec<Op<K>>,
        /// Whether it ends in an error.
        fails: bool,
    },
    /// Turns the shared map into a plain one for these operations, and then shares it again. Left
    /// out while a guard is pinned.
    Owned(Vec<Op<K>>),
}

impl<K: TestKey> Shared<K> {
    fn arbitrary(u: &mut Unstructured<'_>, universe: &Universe) -> Result<Self> {
        Ok(match u.int_in_range(0..=63_u8)? {
            0..=7 => Shared::Pin(universe.span(u)?, universe.key(u)?),
            8..=9 => Shared::Pin(Span::FULL, universe.key(u)?),
            // More often than the one before, so that there are times at which nothing is pinned.
            10..=22 => Shared::Unpin,
            23..=30 => Shared::Walk(Walk { turns: u.arbitrary()?, steps: u.int_in_range(1..=8)? }),
            31..=38 => Shared::Steps(steps(u, universe)?),
            39..=44 => Shared::Snapshot { by_handle: u.arbitrary()? },
            45..=48 => Shared::StoreKept(u.arbitrary()?, universe.span(u)?),
            49..=50 => Shared::SetKept(u.arbitrary()?),
            51..=54 => Shared::DropKept(u.arbitrary()?),
            55..=61 => Shared::Update { ops: ops(u, universe)?, fails: u.int_in_range(0..=3_u8)? == 3 },
            _ => Shared::Owned(ops(u, universe)?),
        })
    }
}

/// An operation that is built upon the others.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Verb<K> {
    /// Stores; answers this for the entry that touches below, and for the one above.
    InsertMerging(Span<K>, bool, bool),
    MergeAt(K, bool),
    Entry(K, EntryStep<K>),
    /// Keeps the entries whose bit is set, in their order, again from the lowest bit after the
    /// highest.
    Retain(u32),
    /// Takes out the entries whose bit is set, as many at most.
    ExtractIf(Span<K>, u32, u16),
    Drain(Span<K>, Walk),
    /// Owned iteration; continues with a copy.
    IntoIter(Walk),
    /// Ranges and values, shared, mutable and owned.
    Views(Walk),
    SplitOff(K, Kept),
    /// Stores these ranges, the empty ones too, one by one or as a map that is appended.
    Extend {
        spans: Vec<Span<K>>,
        by_append: bool,
    },
    /// Stores in turns through a reservation.
    Reserved(Vec<Span<K>>),
    Ends {
        pop_first: bool,
        pop_last: bool,
    },
    /// What is occupied and what is free in a window, and at a key.
    Cover(Span<K>, K),
}

/// What is done with one entry; `OrInsert` and `SetSpan` insert where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum EntryStep<K> {
    Replace,
    Remove,
    SetSpan(Span<K>),
    SplitAt(K),
    OrInsert(Span<K>),
}

/// Which half to continue with where a map was split in two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kept {
    Low,
    High,
    /// The high one is appended to the low one again.
    Both,
}

impl<K: TestKey> Verb<K> {
    fn arbitrary(u: &mut Unstructured<'_>, universe: &Universe) -> Result<Self> {
        Ok(match u.int_in_range(0..=63_u8)? {
            0..=13 => Verb::InsertMerging(universe.span(u)?, u.arbitrary()?, u.arbitrary()?),
            14..=19 => Verb::MergeAt(universe.key(u)?, u.arbitrary()?),
            20..=31 => Verb::Entry(
                universe.key(u)?,
                match u.int_in_range(0..=7_u8)? {
                    0 => EntryStep::Replace,
                    1 => EntryStep::Remove,
                    2..=4 => EntryStep::SetSpan(universe.span(u)?),
                    5 => EntryStep::SplitAt(universe.key(u)?),
                    _ => EntryStep::OrInsert(universe.span(u)?),
                },
            ),
            // Mostly most of them stay, or a map would never grow tall.
            32 => {
                let (some, others) = (u.arbitrary::<u32>()?, u.arbitrary::<u32>()?);
                Verb::Retain(if u.int_in_range(0..=3_u8)? == 0 { some & others } else { some | others })
            }
            33..=35 => Verb::ExtractIf(universe.span(u)?, u.arbitrary()?, u.int_in_range(0..=9)?),
            36..=41 => Verb::Drain(universe.span(u)?, Walk::arbitrary(u)?),
            42..=43 => Verb::IntoIter(Walk::arbitrary(u)?),
            44..=45 => Verb::Views(Walk::arbitrary(u)?),
            46..=48 => Verb::SplitOff(
                universe.key(u)?,
                match u.int_in_range(0..=15_u8)? {
                    0 => Kept::Low,
                    1 => Kept::High,
                    _ => Kept::Both,
                },
            ),
            49..=50 => Verb::Extend { spans: spans(u, universe)?, by_append: u.arbitrary()? },
            51..=52 => Verb::Reserved(spans(u, universe)?),
            53..=56 => Verb::Ends { pop_first: u.arbitrary()?, pop_last: u.arbitrary()? },
            _ => Verb::Cover(universe.span(u)?, universe.key(u)?),
        })
    }
}

/// What a cursor does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Step<K> {
    Walk(K),
    Next,
    Prev,
    NextRange,
    PrevRange,
    /// Stores a new value through the reference.
    SetValue,
    Store(Span<K>),
    Erase,
    SetFirst(K),
    SetLast(K),
}

impl<K: TestKey> Step<K> {
    fn arbitrary(u: &mut Unstructured<'_>, universe: &Universe) -> Result<Self> {
        Ok(match u.int_in_range(0..=31_u8)? {
            0..=5 => Step::Next,
            6..=11 => Step::Prev,
            12..=16 => Step::NextRange,
            17..=21 => Step::PrevRange,
            22..=23 => Step::Walk(universe.key(u)?),
            24 => Step::SetValue,
            25..=26 => Step::Store(universe.span(u)?),
            27 => Step::Erase,
            28..=29 => Step::SetFirst(universe.key(u)?),
            _ => Step::SetLast(universe.key(u)?),
        })
    }
}

impl Walk {
    fn arbitrary(u: &mut Unstructured<'_>) -> Result<Self> {
        let turns = match u.int_in_range(0..=3_u8)? {
            0 => 0,
            1 => u32::MAX,
            _ => u.arbitrary()?,
        };
        let steps = if u.arbitrary()? { u16::MAX } else { u.int_in_range(0..=40)? };
        Ok(Walk { turns, steps })
    }
}

impl<K: TestKey> Op<K> {
    /// An operation with keys of `universe`.
    ///
    /// # Errors
    /// As [`Unstructured`]'s methods.
    pub fn arbitrary(u: &mut Unstructured<'_>, universe: &Universe) -> Result<Self> {
        Ok(match u.int_in_range(0..=255_u8)? {
            0..=36 => Op::Insert(universe.span(u)?),
            37..=49 => Op::Verb(Verb::arbitrary(u, universe)?),
            50..=84 => Op::Replace(universe.span(u)?),
            85..=106 => Op::ClearRange(universe.span(u)?),
            107..=129 => Op::Remove(universe.key(u)?),
            130..=142 => Op::SplitAt(universe.key(u)?),
            143..=158 => Op::Get(universe.key(u)?),
            159..=164 => Op::GetMut(universe.key(u)?),
            165..=176 => Op::AtOrAfter(universe.key(u)?),
            177..=188 => Op::AtOrBefore(universe.key(u)?),
            189..=193 => Op::Iter(Walk::arbitrary(u)?),
            194..=196 => Op::IterMut(Walk::arbitrary(u)?),
            197..=206 => Op::Range(universe.span(u)?, Walk::arbitrary(u)?),
            207..=211 => Op::RangeMut(universe.span(u)?, Walk::arbitrary(u)?),
            212..=219 => Op::Gaps(universe.span(u)?, Walk::arbitrary(u)?),
            220..=247 => Op::FindGap(gap_query(u, universe)?),
            248..=249 => Op::TryClone { keep_copy: u.arbitrary()? },
            250 => match u.int_in_range(0..=3_u8)? {
                0 => Op::Rebuild,
                1 => Op::Release,
                _ => Op::Reserve(u.int_in_range(0..=64)?),
            },
            251 => Op::Cursor(universe.key(u)?, steps(u, universe)?),
            252 => Op::CursorMut(universe.key(u)?, steps(u, universe)?),
            // Rarely: a map that is emptied often never grows tall.
            253 => match u.int_in_range(0..=31_u8)? {
                0 => Op::Clear,
                1..=4 => Op::FromSorted { spans: spans(u, universe)?, tidy: u.int_in_range(0..=7_u8)? != 7 },
                _ => Op::Insert(universe.span(u)?),
            },
            _ => Op::Insert(universe.span(u)?),
        })
    }

    /// An operation of a shared map, with keys of `universe`.
    ///
    /// # Errors
    /// As [`Unstructured`]'s methods.
    pub fn arbitrary_shared(u: &mut Unstructured<'_>, universe: &Universe) -> Result<Self> {
        if u.int_in_range(0..=7_u8)? == 7 {
            return Ok(Op::Shared(Shared::arbitrary(u, universe)?));
        }
        Op::arbitrary(u, universe)
    }
}

/// A few operations of a plain map.
fn ops<K: TestKey>(u: &mut Unstructured<'_>, universe: &Universe) -> Result<Vec<Op<K>>> {
    let count = u.int_in_range(1..=5_usize)?;
    (0..count).map(|_| Op::arbitrary(u, universe)).collect()
}

fn spans<K: TestKey>(u: &mut Unstructured<'_>, universe: &Universe) -> Result<Vec<Span<K>>> {
    let count = u.int_in_range(0..=40_usize)?;
    (0..count).map(|_| universe.span(u)).collect()
}

fn steps<K: TestKey>(u: &mut Unstructured<'_>, universe: &Universe) -> Result<Vec<Step<K>>> {
    let count = u.int_in_range(0..=24_usize)?;
    (0..count).map(|_| Step::arbitrary(u, universe)).collect()
}

fn gap_query<K: TestKey>(u: &mut Unstructured<'_>, universe: &Universe) -> Result<GapQuery<K>> {
    let window = match u.int_in_range(0..=3_u8)? {
        0 => Span::FULL,
        1 => universe.span(u)?,
        _ => {
            let (a, b) = (universe.key::<K>(u)?, universe.key::<K>(u)?);
            Span::new(a.min(b), a.max(b))
        }
    };
    let span: Span<K> = universe.span(u)?;
    let len = match u.int_in_range(0..=15_u8)? {
        0 => K::ZERO,
        1 => K::MAX,
        2 => K::ONE,
        _ => span.len().unwrap_or(K::ONE),
    };
    let align = match u.int_in_range(0..=7_u8)? {
        0..=2 => K::ONE,
        // Any number: mostly no power of two, and so refused.
        3 => universe.key(u)?,
        4..=5 => K::from_u128(1 << u.int_in_range(0..=6_u32)?),
        _ => K::from_u128(1 << u.int_in_range(0..=16_u32)?),
    };
    let offset = if u.arbitrary()? { K::ZERO } else { universe.key(u)? };
    let end = if u.arbitrary()? { End::Lowest } else { End::Highest };
    let query = GapQuery::new(len).within(window).from(end);
    let query = query.aligned_at(align, offset).unwrap_or(query);
    Ok(if u.ratio(1, 4)? { query.padded() } else { query })
}

/// How an operation is made: [`Op::arbitrary`] or [`Op::arbitrary_shared`].
type Make<K> = fn(&mut Unstructured<'_>, &Universe) -> Result<Op<K>>;

/// The script of `seed`. Operation `index` is the same at every call, whatever comes before it.
fn from_seed<K: TestKey>(make: Make<K>, seed: u64, universe: &Universe, len: usize) -> Vec<Op<K>> {
    let nth = |index: usize| {
        let mut rng = fastrand::Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(index as u64));
        let mut bytes = [0; 512];
        rng.fill(&mut bytes);
        match make(&mut Unstructured::new(&bytes), universe) {
            Ok(op) => op,
            Err(error) => unreachable!("the bytes that run out read as zeros: {error}"),
        }
    };
    (0..len).map(nth).collect()
}

fn from_bytes<K: TestKey>(make: Make<K>, u: &mut Unstructured<'_>, longest: usize) -> Result<Vec<Op<K>>> {
    let universe = Universe::arbitrary(u)?;
    let mut ops = Vec::new();
    while !u.is_empty() && ops.len() < longest {
        ops.push(make(u, &universe)?);
    }
    Ok(ops)
}

/// The script of `seed`: `len` operations with keys of `universe`.
pub fn script<K: TestKey>(seed: u64, universe: Universe, len: usize) -> Vec<Op<K>> {
    from_seed(Op::arbitrary, seed, &universe, len)
}

/// The script of `seed` for a shared map.
pub fn script_shared<K: TestKey>(seed: u64, universe: Universe, len: usize) -> Vec<Op<K>> {
    from_seed(Op::arbitrary_shared, seed, &universe, len)
}

/// The script that a fuzzer's bytes stand for, at most `longest` operations.
///
/// # Errors
/// As [`Unstructured`]'s methods.
pub fn script_from_bytes<K: TestKey>(u: &mut Unstructured<'_>, longest: usize) -> Result<Vec<Op<K>>> {
    from_bytes(Op::arbitrary, u, longest)
}

/// The script for a shared map that a fuzzer's bytes stand for, at most `longest` operations.
///
/// # Errors
/// As [`Unstructured`]'s methods.
pub fn script_shared_from_bytes<K: TestKey>(u: &mut Unstructured<'_>, longest: usize) -> Result<Vec<Op<K>>> {
    from_bytes(Op::arbitrary_shared, u, longest)
}
