//! A map of points as a map of ranges: it maps a range's first key to its last key and value. This
//! module stores over a window as users of such a map do.

use samara_bench::data::Item;

/// A map from first keys to last keys and values.
pub trait Points {
    /// The range with the greatest first key at or below `key`.
    fn floor(&self, key: u64) -> Option<Item>;
    /// The range with the smallest first key at or above `key`.
    fn ceil(&self, key: u64) -> Option<Item>;
    /// Stores a range, or replaces the one with that first key.
    fn put(&mut self, item: Item);
    /// Removes the range with this first key.
    fn take(&mut self, first: u64);

    /// Shortens the range that starts below `at` and holds it, so that it ends before `at`. Returns
    /// the range as it was.
    fn cut(&mut self, at: u64) -> Option<Item> {
        let (first, last, value) = self.floor(at.checked_sub(1)?)?;
        if last < at {
            return None;
        }
        self.put((first, at - 1, value));
        Some((first, last, value))
    }

    /// Removes the ranges that start in this window, and returns the last of them.
    fn clear(&mut self, first: u64, last: u64) -> Option<Item> {
        let mut gone = None;
        while let Some(item) = self.ceil(first).filter(|item| item.0 <= last) {
            self.take(item.0);
            gone = Some(item);
        }
        gone
    }
}

/// Stores a range over others.
#[inline]
pub fn overwrite<P: Points>(map: &mut P, item: Item) {
    let (first, last, _) = item;
    let head = map.cut(first);
    let tail = map.clear(first, last).or(head);
    if let Some((_, end, value)) = tail.filter(|tail| tail.1 > last) {
        map.put((last + 1, end, value));
    }
    map.put(item);
}
