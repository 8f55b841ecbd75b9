//! The maps that are measured, behind one trait. Knows how each does an operation best; nothing of timing.
//!
//! A `BTreeMap` as a range map is keyed by the first key and holds the last key and the value: a lookup is
//! `range(..=key).next_back()`, an erase is `remove`, a store into free space is `insert`.

use crate::data::Item;
use samara::{End, GapQuery};
use std::collections::BTreeMap;

/// A map of ranges to `u64`s.
pub trait Map: Clone {
    /// An empty map.
    fn empty() -> Self;
    /// A map of ascending items, the fastest way that there is.
    fn bulk(items: &[Item]) -> Self;
    /// The value at `key`.
    fn get(&self, key: u64) -> Option<u64>;
    /// Stores a range where there is none.
    fn store(&mut self, item: Item);
    /// Takes away the range that starts at `item`'s first key and ends at its last; its value.
    fn erase(&mut self, item: Item) -> Option<u64>;
    /// How many ranges there are, and the sum of their last keys and values.
    fn sum(&self) -> (usize, u64);
    /// The first key of the lowest or highest run of `len` free keys in `low..=high`.
    fn gap(&self, len: u64, low: u64, high: u64, end: End) -> Option<u64>;
}

impl Map for samara::RangeMap<u64> {
    fn empty() -> Self {
        Self::new()
    }
    fn bulk(items: &[Item]) -> Self {
        Self::from_sorted(items.iter().map(|&(first, last, value)| (first..=last, value))).expect("ascending items")
    }
    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        Self::get(self, key).map(|(_, value)| *value)
    }
    #[inline]
    fn store(&mut self, (first, last, value): Item) {
        self.insert(first..=last, value).expect("memory for a store");
    }
    #[inline]
    fn erase(&mut self, (first, ..): Item) -> Option<u64> {
        self.remove(first).map(|(_, value)| value)
    }
    #[inline]
    fn sum(&self) -> (usize, u64) {
        self.iter()
            .fold((0, 0), |(count, sum), (span, value)| (count + 1, sum.wrapping_add(span.last).wrapping_add(*value)))
    }
    #[inline]
    fn gap(&self, len: u64, low: u64, high: u64, end: End) -> Option<u64> {
        self.find_gap(&GapQuery::new(len).within(low..=high).from(end)).map(|span| span.first)
    }
}

impl Map for BTreeMap<u64, (u64, u64)> {
    fn empty() -> Self {
        Self::new()
    }
    fn bulk(items: &[Item]) -> Self {
        items.iter().map(|&(first, last, value)| (first, (last, value))).collect()
    }
    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        let (_, (last, value)) = self.range(..=key).next_back()?;
        (key <= *last).then_some(*value)
    }
    #[inline]
    fn store(&mut self, (first, last, value): Item) {
        self.insert(first, (last, value));
    }
    #[inline]
    fn erase(&mut self, (first, ..): Item) -> Option<u64> {
        self.remove(&first).map(|(_, value)| value)
    }
    #[inline]
    fn sum(&self) -> (usize, u64) {
        self.iter()
            .fold((0, 0), |(count, sum), (_, (last, value))| (count + 1, sum.wrapping_add(*last).wrapping_add(*value)))
    }
    fn gap(&self, len: u64, low: u64, high: u64, end: End) -> Option<u64> {
        match end {
            End::Lowest => {
                let spans = self.range(low..=high).map(|(first, (last, _))| (*first, *last));
                let before = self.range(..low).next_back().map(|(_, (last, _))| *last);
                lowest(spans, before.map_or(low, |last| low.max(last + 1)), len, high)
            }
            End::Highest => {
                let spans = self.range(..=high).rev().map(|(first, (last, _))| (*first, *last));
                highest(spans, len, low, high)
            }
        }
    }
}

impl Map for rangemap::RangeMap<u64, u64> {
    fn empty() -> Self {
        Self::new()
    }
    fn bulk(items: &[Item]) -> Self {
        items.iter().map(|&(first, last, value)| (first..last + 1, value)).collect()
    }
    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        Self::get(self, &key).copied()
    }
    #[inline]
    fn store(&mut self, (first, last, value): Item) {
        self.insert(first..last + 1, value);
    }
    #[inline]
    fn erase(&mut self, (first, last, _): Item) -> Option<u64> {
        // `remove` says nothing of what it took away: the caller's check of the answer needs a lookup.
        let value = Self::get(self, &first).copied()?;
        self.remove(first..last + 1);
        Some(value)
    }
    #[inline]
    fn sum(&self) -> (usize, u64) {
        self.iter().fold((0, 0), |(count, sum), (span, value)| {
            (count + 1, sum.wrapping_add(span.end - 1).wrapping_add(*value))
        })
    }
    fn gap(&self, len: u64, low: u64, high: u64, end: End) -> Option<u64> {
        match end {
            End::Lowest => self.gaps(&(low..high + 1)).find(|gap| gap.end - gap.start >= len).map(|gap| gap.start),
            End::Highest => {
                let spans = self.iter().rev().map(|(span, _)| (span.start, span.end - 1));
                highest(spans.skip_while(|(first, _)| *first > high), len, low, high)
            }
        }
    }
}

/// The lowest fit from `at` on between ascending spans.
fn lowest(spans: impl Iterator<Item = (u64, u64)>, mut at: u64, len: u64, high: u64) -> Option<u64> {
    for (first, last) in spans {
        if first.saturating_sub(at) >= len {
            return Some(at);
        }
        at = last + 1;
    }
    (at <= high && high - at >= len - 1).then_some(at)
}

/// The highest fit between descending spans that start at or below `high`.
fn highest(spans: impl Iterator<Item = (u64, u64)>, len: u64, low: u64, high: u64) -> Option<u64> {
    let mut top = high + 1;
    for (first, last) in spans {
        if last < low {
            break;
        }
        if top.saturating_sub(last + 1) >= len {
            return Some(top - len);
        }
        top = first;
    }
    (top >= low && top - low >= len).then(|| top - len)
}
