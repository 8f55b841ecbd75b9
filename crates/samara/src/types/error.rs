//! Error types. Knows nothing of nodes.

use crate::tree::check::Violation;
use crate::types::key::Key;
use crate::types::span::Span;
use core::fmt;

/// Memory could not be allocated. The map is as it was before the call, unless the call says
/// otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocError;

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of memory: no node could be allocated; free memory, then try again")
    }
}

impl core::error::Error for AllocError {}

/// The write handle of a shared map is taken, by another thread or by this one, or a
/// [`SharedWriter`](crate::SharedWriter) is storing.
#[cfg(feature = "shared")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

#[cfg(feature = "shared")]
impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("busy: the write handle is taken, or another writer is storing; wait with `write`, or try again")
    }
}

#[cfg(feature = "shared")]
impl core::error::Error for Busy {}

/// The alignment of a [`GapQuery`](crate::GapQuery) is not a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AlignError<K = u64> {
    /// The alignment that was asked for.
    pub align: K,
}

impl<K: fmt::LowerHex> fmt::Display for AlignError<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the alignment {:#x} is not a power of two: pass 1 for none, or 2, 4, 8, ...", self.align)
    }
}

impl<K: fmt::LowerHex + fmt::Debug> core::error::Error for AlignError<K> {}

/// Why a store failed. The map is as it was before that store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError<K = u64> {
    /// The range holds no key: its first key lies after its last.
    EmptyRange(Span<K>),
    /// Memory could not be allocated.
    Alloc,
}

impl<K> From<AllocError> for StoreError<K> {
    fn from(_: AllocError) -> Self {
        StoreError::Alloc
    }
}

impl<K: fmt::LowerHex> fmt::Display for StoreError<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::EmptyRange(s) => {
                write!(f, "the range {s} holds no key: its first key must not lie after its last")
            }
            StoreError::Alloc => fmt::Display::fmt(&AllocError, f),
        }
    }
}

impl<K: fmt::LowerHex + fmt::Debug> core::error::Error for StoreError<K> {}

/// Why a store through a [`WriterReservation`](crate::WriterReservation) of a shared map failed.
/// The map is as it was before the call.
#[cfg(feature = "shared")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservedError<K = u64> {
    /// The range holds no key: its first key lies after its last.
    EmptyRange(Span<K>),
    /// All reserved stores have been made.
    UsedUp,
    /// Memory could not be allocated. A reserved store allocates only in the case that
    /// [`SharedWriter::reserve`](crate::SharedWriter::reserve) names.
    Alloc,
    /// The range meets more than this number of entries, for which the reservation was made.
    MeetsMore(usize),
}

#[cfg(feature = "shared")]
impl<K: fmt::LowerHex> fmt::Display for ReservedError<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReservedError::EmptyRange(s) => {
                write!(f, "the range {s} holds no key: its first key must not lie after its last")
            }
            ReservedError::Alloc => fmt::Display::fmt(&AllocError, f),
            ReservedError::UsedUp => f.write_str("as many stores were made as had been reserved: reserve more of them"),
            ReservedError::MeetsMore(most) => {
                write!(
                    f,
                    "the range meets more than the {most} entries that were reserved for: reserve for more of them"
                )
            }
        }
    }
}

#[cfg(feature = "shared")]
impl<K: fmt::LowerHex + fmt::Debug> core::error::Error for ReservedError<K> {}

/// Why an insertion into a gap failed. The map is as it was before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryError<K = u64> {
    /// The range holds no key: its first key lies after its last.
    EmptyRange(Span<K>),
    /// The range is not within the gap.
    OutsideGap {
        /// The range asked for.
        span: Span<K>,
        /// The gap.
        gap: Span<K>,
    },
    /// Memory could not be allocated.
    Alloc,
}

impl<K> From<AllocError> for EntryError<K> {
    fn from(_: AllocError) -> Self {
        EntryError::Alloc
    }
}

impl<K: fmt::LowerHex> fmt::Display for EntryError<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EntryError::EmptyRange(s) => {
                write!(f, "the range {s} holds no key: its first key must not lie after its last")
            }
            EntryError::OutsideGap { span, gap } => {
                write!(
                    f,
                    "{span} is not within the gap {gap}: ask for less, or insert into the map, over what is there"
                )
            }
            EntryError::Alloc => fmt::Display::fmt(&AllocError, f),
        }
    }
}

impl<K: fmt::LowerHex + fmt::Debug> core::error::Error for EntryError<K> {}

/// Why building a map from an iterator failed. Nothing is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError<K = u64> {
    /// An item's range holds no key.
    EmptyRange {
        /// The item's place in the iterator, from 0.
        index: usize,
        /// The item's range.
        span: Span<K>,
    },
    /// An item starts at or before the last key of the item before it.
    NotAscending {
        /// The item's place in the iterator, from 0.
        index: usize,
        /// The item's range.
        span: Span<K>,
    },
    /// Memory could not be allocated.
    Alloc,
}

impl<K> From<AllocError> for BuildError<K> {
    fn from(_: AllocError) -> Self {
        BuildError::Alloc
    }
}

impl<K: fmt::LowerHex> fmt::Display for BuildError<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::EmptyRange { index, span } => {
                write!(f, "item {index}: the range {span} holds no key: its first key must not lie after its last")
            }
            BuildError::NotAscending { index, span } => write!(
                f,
                "item {index}: {span} starts before the end of the item before it: sort the items, and let none overlap"
            ),
            BuildError::Alloc => fmt::Display::fmt(&AllocError, f),
        }
    }
}

impl<K: fmt::LowerHex + fmt::Debug> core::error::Error for BuildError<K> {}

/// Why changing an entry's bounds failed. The map is as it was before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BoundError<K = u64> {
    /// No entry holds this key.
    NoEntry(K),
    /// The requested bounds hold no key.
    EmptyRange(Span<K>),
    /// Another entry holds this key, which lies within the requested bounds.
    Occupied(K),
    /// The requested bounds share no key with the entry's. That would move the entry, not a
    /// boundary of it.
    Elsewhere {
        /// The entry's bounds.
        entry: Span<K>,
        /// The requested bounds.
        wanted: Span<K>,
    },
    /// Memory could not be allocated. It is needed if a boundary moves so far that the leaf has to
    /// be split, and on a map that shares nodes with a snapshot.
    Alloc,
}

impl<K> From<AllocError> for BoundError<K> {
    fn from(_: AllocError) -> Self {
        BoundError::Alloc
    }
}

impl<K: fmt::LowerHex> fmt::Display for BoundError<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BoundError::NoEntry(key) => {
                write!(f, "no entry holds {key:#x}: pass a key of an entry, or walk the cursor to one")
            }
            BoundError::EmptyRange(s) => write!(f, "the bounds {s} hold no key: the first must not lie after the last"),
            BoundError::Occupied(key) => {
                write!(f, "{key:#x} belongs to another entry: move the boundary into free keys only")
            }
            BoundError::Elsewhere { entry, wanted } => {
                write!(f, "{wanted} shares no key with the entry's {entry}: remove the entry and insert it there")
            }
            BoundError::Alloc => fmt::Display::fmt(&AllocError, f),
        }
    }
}

impl<K: fmt::LowerHex + fmt::Debug> core::error::Error for BoundError<K> {}

/// Converts an error with keys of type `K` into the one with `u128` keys that [`Error`] holds.
trait Keyed {
    type Wide;
    fn widen(self) -> Self::Wide;
}

impl<K: Key> Keyed for AlignError<K> {
    type Wide = AlignError<u128>;
    fn widen(self) -> AlignError<u128> {
        AlignError { align: self.align.widen() }
    }
}

impl<K: Key> Keyed for StoreError<K> {
    type Wide = StoreError<u128>;
    fn widen(self) -> StoreError<u128> {
        match self {
            StoreError::EmptyRange(span) => StoreError::EmptyRange(wide(span)),
            StoreError::Alloc => StoreError::Alloc,
        }
    }
}

#[cfg(feature = "shared")]
impl<K: Key> Keyed for ReservedError<K> {
    type Wide = ReservedError<u128>;
    fn widen(self) -> ReservedError<u128> {
        match self {
            ReservedError::EmptyRange(span) => ReservedError::EmptyRange(wide(span)),
            ReservedError::UsedUp => ReservedError::UsedUp,
            ReservedError::Alloc => ReservedError::Alloc,
            ReservedError::MeetsMore(most) => ReservedError::MeetsMore(most),
        }
    }
}

impl<K: Key> Keyed for EntryError<K> {
    type Wide = EntryError<u128>;
    fn widen(self) -> EntryError<u128> {
        match self {
            EntryError::EmptyRange(span) => EntryError::EmptyRange(wide(span)),
            EntryError::OutsideGap { span, gap } => EntryError::OutsideGap { span: wide(span), gap: wide(gap) },
            EntryError::Alloc => EntryError::Alloc,
        }
    }
}

impl<K: Key> Keyed for BuildError<K> {
    type Wide = BuildError<u128>;
    fn widen(self) -> BuildError<u128> {
        match self {
            BuildError::EmptyRange { index, span } => BuildError::EmptyRange { index, span: wide(span) },
            BuildError::NotAscending { index, span } => BuildError::NotAscending { index, span: wide(span) },
            BuildError::Alloc => BuildError::Alloc,
        }
    }
}

impl<K: Key> Keyed for BoundError<K> {
    type Wide = BoundError<u128>;
    fn widen(self) -> BoundError<u128> {
        match self {
            BoundError::NoEntry(key) => BoundError::NoEntry(key.widen()),
            BoundError::EmptyRange(span) => BoundError::EmptyRange(wide(span)),
            BoundError::Occupied(key) => BoundError::Occupied(key.widen()),
            BoundError::Elsewhere { entry, wanted } => {
                BoundError::Elsewhere { entry: wide(entry), wanted: wide(wanted) }
            }
            BoundError::Alloc => BoundError::Alloc,
        }
    }
}

fn wide<K: Key>(span: Span<K>) -> Span<u128> {
    Span { first: span.first.widen(), last: span.last.widen() }
}

/// Any error of this crate, of maps with any keys. Every other error converts into it, so that a
/// function that makes several calls, on several maps, can use `?` on all of them. The keys in it
/// are `u128`, whatever type the map has.
///
/// Displays what the error in it displays, and has its source.
///
/// The other errors have the map's type of keys as a parameter: `StoreError` is `StoreError<u64>`,
/// and a store with `u32` keys returns `StoreError<u32>`. So a function that returns `StoreError`
/// can use `?` on stores with `u64` keys only; with other keys it returns `StoreError<u32>`, or
/// this type.
///
/// # Examples
/// ```
/// use samara::{Error, GapQuery, RangeMap, Span};
///
/// /// Places an entry of `len` keys, with room for one key below it.
/// fn place(map: &mut RangeMap<u32, char>, len: u32) -> Result<Option<Span<u32>>, Error> {
///     let query = GapQuery::new(len).aligned(16)?.within(16..); // AlignError
///     let Some(span) = map.find_gap(&query) else { return Ok(None) };
///     map.reserve(1)?; // AllocError
///     map.insert(span, 'a')?; // StoreError<u32>
///     map.resize(span.first, span.first - 1..=span.last)?; // BoundError
///     Ok(Some(span))
/// }
///
/// let mut map = RangeMap::from_sorted([(32..=40, 'b')])?; // BuildError
/// assert_eq!(place(&mut map, 9)?, Some(Span::new(16, 24)));
/// map.insert(50..=63, 'c')?; // StoreError
/// assert_eq!(place(&mut map, 9), Err(Error::Bound(samara::BoundError::Occupied(63))));
/// # Ok::<(), Error>(())
/// ```
///
/// One function with maps of different keys, none of them `u64`:
/// ```
/// use samara::{Error, RangeMap, Span, StoreError, key_newtype};
///
/// key_newtype! { struct Port(u16); }
///
/// fn allow(
///     ports: &mut RangeMap<Port, char>,
///     hosts: &mut RangeMap<u128, char>,
/// ) -> Result<(), Error> {
///     hosts.insert(1 << 100..=u128::MAX, 'a')?; // StoreError<u128>
///     ports.insert(Port(1024)..=Port(1999), 'a')?; // StoreError<Port>
///     ports.resize(Port(1024), Port(80)..=Port(1999))?; // BoundError<Port>
///     ports.split_at(Port(1024))?;
///     Ok(ports.insert(Port(9)..=Port(3), 'b')?) // holds no port
/// }
///
/// let error = allow(&mut RangeMap::default(), &mut RangeMap::default()).unwrap_err();
/// assert_eq!(error, Error::Store(StoreError::EmptyRange(Span::new(9, 3))));
/// assert!(error.to_string().starts_with("the range 0x9..=0x3 holds no key"));
/// ```
///
/// A function for any type of keys returns [`Error`] too, or the error of its own type, or a box:
/// ```
/// use samara::{Error, Key, RangeMap, Span, StoreError, key_newtype};
///
/// fn fill<K: Key>(map: &mut RangeMap<K, char>) -> Result<(), Error> {
///     map.reserve(1)?;
///     Ok(map.insert(Span::FULL, 'a')?)
/// }
/// fn fill_typed<K: Key>(map: &mut RangeMap<K, char>) -> Result<(), StoreError<K>> {
///     map.insert(Span::FULL, 'b')
/// }
/// fn fill_boxed<K: Key>(map: &mut RangeMap<K, char>) -> Result<(), Box<dyn core::error::Error>> {
///     Ok(map.insert(Span::FULL, 'c')?)
/// }
///
/// key_newtype! { struct Frame(u64); }
/// let (mut small, mut frames) = (RangeMap::<u8, char>::new(), RangeMap::<Frame, char>::new());
/// fill(&mut small)?;
/// fill(&mut frames)?;
/// fill_typed(&mut frames)?;
/// fill_boxed(&mut frames)?;
/// assert_eq!((small[9], frames[Frame(9)]), ('a', 'c'));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// [`AlignError`].
    Align(AlignError<u128>),
    /// [`AllocError`].
    Alloc(AllocError),
    /// [`BoundError`].
    Bound(BoundError<u128>),
    /// [`BuildError`].
    Build(BuildError<u128>),
    /// [`Busy`].
    #[cfg(feature = "shared")]
    Busy(Busy),
    /// [`EntryError`].
    Entry(EntryError<u128>),
    /// [`ReservedError`].
    #[cfg(feature = "shared")]
    Reserved(ReservedError<u128>),
    /// [`StoreError`].
    Store(StoreError<u128>),
    /// [`Violation`].
    Violation(Violation),
}

macro_rules! any {
    ($($(#[$when:meta])* $name:ident($error:ident);)*) => {$(
        $(#[$when])*
        impl<K: Key> From<$error<K>> for Error {
            fn from(error: $error<K>) -> Self {
                Error::$name(error.widen())
            }
        }
    )*};
}
any! {
    Align(AlignError);
    Bound(BoundError);
    Build(BuildError);
    Entry(EntryError);
    #[cfg(feature = "shared")]
    Reserved(ReservedError);
    Store(StoreError);
}

impl From<AllocError> for Error {
    fn from(error: AllocError) -> Self {
        Error::Alloc(error)
    }
}

impl From<Violation> for Error {
    fn from(violation: Violation) -> Self {
        Error::Violation(violation)
    }
}

#[cfg(feature = "shared")]
impl From<Busy> for Error {
    fn from(error: Busy) -> Self {
        Error::Busy(error)
    }
}

impl Error {
    fn inner(&self) -> &(dyn core::error::Error + 'static) {
        match self {
            Error::Align(error) => error,
            Error::Alloc(error) => error,
            Error::Bound(error) => error,
            Error::Build(error) => error,
            #[cfg(feature = "shared")]
            Error::Busy(error) => error,
            Error::Entry(error) => error,
            #[cfg(feature = "shared")]
            Error::Reserved(error) => error,
            Error::Store(error) => error,
            Error::Violation(error) => error,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.inner(), f)
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        self.inner().source()
    }
}

/// Lets an empty range pass and panics for a reversed one, in a call that returns no `Result`: as
/// slices do.
#[cold]
#[track_caller]
pub(crate) fn empty_or_panic<K: Key>(span: Span<K>) {
    let empty = span.last.succ() == Some(span.first);
    assert!(
        empty,
        "the range {span} is reversed, its first key lies after its last: `try_extend` returns that as an error"
    );
}

/// Aborts for lack of memory, in a call that returns no `Result`.
#[cold]
pub(crate) fn out_of_memory() -> ! {
    alloc::alloc::handle_alloc_error(core::alloc::Layout::new::<[u64; 96]>())
}

/// Unwraps `result` in a call that returns no error: aborts for lack of memory, as `Box` does.
#[inline]
pub(crate) fn or_abort<T>(result: Result<T, AllocError>) -> T {
    match result {
        Ok(done) => done,
        Err(AllocError) => out_of_memory(),
    }
}
