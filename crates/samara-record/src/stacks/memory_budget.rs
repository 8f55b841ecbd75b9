//! Limits the memory for content of files that the program chooses: unwind tables, symbols, debug
//! information, and compilers' records of their code. Also finds, in one pass, the entries of such
//! a file that are nearest to the wanted addresses.
//!
//! - **BUDGET-1** Bytes are taken from the budget before memory is allocated for them. For a name
//!   of unknown length 4096 bytes are taken, and the unused rest is given back.
//! - **BUDGET-2** A note names each file that was read only in part.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use object::{CompressionFormat, ObjectSection, ReadCache, ReadRef};
use ruzstd::decoding::StreamingDecoder;

/// Most bytes that are kept at one moment.
const BYTES: u64 = 512 << 20;

/// The largest file that is read, in whole or in part.
pub(super) const FILE_BYTES: u64 = 1 << 30;

/// The longest name that is read from a file, with its zero byte: the limit of [`ReadCache`].
const NAME_BYTES: u64 = 4096;

/// Overhead of a kept entry, besides its bytes.
const ENTRY_BYTES: u64 = 256;

/// Most files that a note names.
const NAMES: usize = 3;

/// The budget of a recording.
#[derive(Debug)]
pub(super) struct Budget {
    left: Cell<u64>,
    /// Files that were read only in part: the first of them, and whether there are others.
    left_out: RefCell<(Vec<String>, bool)>,
}

impl Default for Budget {
    fn default() -> Self {
        Budget::of(BYTES)
    }
}

impl Budget {
    pub(super) fn of(bytes: u64) -> Self {
        Budget { left: Cell::new(bytes), left_out: RefCell::default() }
    }

    /// Takes bytes, if the budget has enough.
    pub(super) fn take(&self, bytes: u64) -> bool {
        let left = self.left.get().checked_sub(bytes);
        left.inspect(|left| self.left.set(*left)).is_some()
    }

    /// Gives bytes back.
    pub(super) fn give(&self, bytes: u64) {
        self.left.set(self.left.get().saturating_add(bytes));
    }

    pub(super) fn left(&self) -> u64 {
        self.left.get()
    }

    /// Gives back all bytes taken since `left` bytes remained, except `kept` bytes.
    pub(super) fn give_back(&self, left: u64, kept: u64) {
        self.left.set(left.saturating_sub(kept));
    }

    /// Notes that a part of a file is left out (BUDGET-2).
    pub(super) fn leave_out(&self, name: &str) {
        let (names, others) = &mut *self.left_out.borrow_mut();
        if names.iter().any(|known| known == name) {
            return;
        }
        if names.len() < NAMES {
            names.push(name.to_owned());
        } else {
            *others = true;
        }
    }

    /// The note on files that were read only in part.
    pub(super) fn note(&self) -> Option<String> {
        let (names, others) = &*self.left_out.borrow();
        let others = if *others { " and others" } else { "" };
        let limits = format!(
            "{} MiB in all, {} MiB of a file, {} MiB of its line tables",
            BYTES >> 20,
            FILE_BYTES >> 20,
            super::symbols::LINES >> 20
        );
        let text = format!(
            "stacks: more symbols than are read ({limits}): some or all left out of {}{others}",
            names.join(", ")
        );
        (!names.is_empty()).then_some(text)
    }
}

/// A file whose bytes are taken from the budget when they are first read.
///
/// The file is not mapped, because it may be cut meanwhile.
pub(super) struct Source<'f> {
    file: &'f File,
    cache: ReadCache<&'f File>,
    budget: &'f Budget,
    /// Ranges that were read: offset and size; [`None`] for names, which have no size.
    read: RefCell<HashSet<(u64, Option<u64>)>>,
    /// Whether the budget did not suffice.
    refused: Cell<bool>,
}

impl<'f> Source<'f> {
    pub(super) fn new(file: &'f File, budget: &'f Budget) -> Self {
        let (read, refused) = (RefCell::default(), Cell::new(false));
        Source { file, cache: ReadCache::new(file), budget, read, refused }
    }

    pub(super) fn refused(&self) -> bool {
        self.refused.get()
    }

    pub(super) fn refuse(&self) {
        self.refused.set(true);
    }

    fn take(&self, bytes: u64) -> Option<()> {
        let taken = self.budget.take(bytes);
        self.refused.set(self.refused.get() || !taken);
        taken.then_some(())
    }

    /// The content of a section of this file, decompressed, if it has at most `most` bytes.
    pub(super) fn content<'d>(&self, section: &impl ObjectSection<'d>, most: u64) -> Option<Arc<[u8]>> {
        let range = section.compressed_file_range().ok()?;
        if range.uncompressed_size > most {
            self.refuse();
            return None;
        }
        let size = usize::try_from(range.uncompressed_size).ok()?;
        let plain = range.format == CompressionFormat::None;
        let end = range.offset.checked_add(range.compressed_size)?;
        if end > self.file.metadata().ok()?.len() {
            return None;
        }
        self.take(range.uncompressed_size)?;
        if plain {
            let mut bytes: Arc<[u8]> = std::iter::repeat_n(0, size).collect();
            self.file.read_exact_at(Arc::get_mut(&mut bytes)?, range.offset).ok()?;
            return Some(bytes);
        }
        let data = section.compressed_data().ok()?;
        if range.format == CompressionFormat::Zstandard {
            return unpacked(data.data, size).map(Arc::from);
        }
        // This stops at the section's declared length.
        Some(Arc::from(&*data.decompress().ok()?))
    }
}

/// Unpacks zstd data that must have `size` bytes. Stops one byte after that, however much there is.
fn unpacked(mut data: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut all = Vec::with_capacity(size);
    while !data.is_empty() {
        let left = (size - all.len()) as u64;
        let frame = StreamingDecoder::new(&mut data).ok()?;
        frame.take(left + 1).read_to_end(&mut all).ok()?;
        if all.len() > size {
            return None;
        }
    }
    (all.len() == size).then_some(all)
}

impl<'a> ReadRef<'a> for &'a Source<'_> {
    fn len(self) -> Result<u64, ()> {
        self.cache.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'a [u8], ()> {
        // A range beyond the file's end is refused before bytes are taken for it.
        if offset.checked_add(size).ok_or(())? > self.cache.len()? {
            return Err(());
        }
        if !self.read.borrow().contains(&(offset, Some(size))) {
            self.take(size.saturating_add(ENTRY_BYTES)).ok_or(())?;
            self.read.borrow_mut().insert((offset, Some(size)));
        }
        self.cache.read_bytes_at(offset, size)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        if self.read.borrow().contains(&(range.start, None)) {
            return self.cache.read_bytes_at_until(range, delimiter);
        }
        self.take(NAME_BYTES + ENTRY_BYTES).ok_or(())?;
        let is_long = range.end.saturating_sub(range.start) > NAME_BYTES;
        let most = range.end.min(range.start.saturating_add(NAME_BYTES));
        let Ok(text) = self.cache.read_bytes_at_until(range.start..most, delimiter) else {
            // Nothing is kept. If the file goes on here, the name is too long.
            self.budget.give(NAME_BYTES + ENTRY_BYTES);
            self.refused.set(self.refused.get() || is_long);
            return Err(());
        };
        self.budget.give(NAME_BYTES - text.len() as u64);
        self.read.borrow_mut().insert((range.start, None));
        Ok(text)
    }
}

/// The nearest entry that begins at or before each wanted address.
pub(super) struct Nearest<'w, T> {
    /// Ascending.
    wanted: &'w [u64],
    /// The last entry that begins at or before each wanted address and after the previous one.
    found: Vec<Option<(u64, T)>>,
}

impl<'w, T> Nearest<'w, T> {
    pub(super) fn new(wanted: &'w [u64]) -> Self {
        Nearest { wanted, found: wanted.iter().map(|_| None).collect() }
    }

    /// Adds an entry that begins at `start`, if `make` returns one. `make` gets the wanted address,
    /// and is called only if no earlier entry is nearer to it. Returns the replaced entry. O(log
    /// n).
    pub(super) fn add(&mut self, start: u64, make: impl FnOnce(u64) -> Option<T>) -> Option<T> {
        let place = self.wanted.partition_point(|at| *at < start);
        let (at, found) = self.wanted.get(place).zip(self.found.get_mut(place))?;
        if found.as_ref().is_some_and(|(nearest, _)| *nearest > start) {
            return None;
        }
        Some(found.replace((start, make(*at)?))?.1)
    }

    /// The found entries, ascending, each with its start.
    pub(super) fn into_found(self) -> Vec<(u64, T)> {
        self.found.into_iter().flatten().collect()
    }

    /// Each wanted address that has an entry, with the entry and its start.
    pub(super) fn all(&self) -> impl Iterator<Item = (u64, u64, &T)> {
        let mut last = None;
        self.wanted.iter().zip(&self.found).filter_map(move |(at, found)| {
            last = found.as_ref().or(last);
            last.map(|(start, thing)| (*at, *start, thing))
        })
    }
}

#[cfg(test)]
#[path = "memory_budget_tests.rs"]
mod tests;
