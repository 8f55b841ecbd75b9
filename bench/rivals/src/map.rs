//! The trait of a map of ranges to `u64`s that `index` measures. Knows nothing of timing.

use crate::cases::Case;
use crate::gap::Gap;
use samara_bench::data::Item;
use std::hint::{black_box, select_unpredictable};

/// How many ranges, and the sum of their last keys and values.
pub type Sum = (usize, u64);

/// The value found, or 0. Half of all lookups hit, unpredictably: a branch would be mispredicted
/// every other time, and that cost is not the map's.
#[inline(always)]
pub fn found(value: Option<&u64>) -> u64 {
    *select_unpredictable(value.is_some(), value.unwrap_or(&0), &0)
}

/// The value of a range that may hold the key, or 0: the same for maps of points.
#[inline(always)]
pub fn found_if(holds: bool, value: u64) -> u64 {
    select_unpredictable(holds, value, 0)
}

/// A map of ranges to `u64`s, or a map of points that is used as one.
pub trait Map: Sized {
    /// The cases for which this map has no operation. They are not measured, and their methods are
    /// not called.
    const LACKS: &'static [Case] = &[];

    /// An empty map.
    fn empty() -> Self;

    /// A map of ascending items, by the crate's bulk constructor.
    fn bulk(_items: &[Item]) -> Option<Self> {
        None
    }

    /// The sum of the values at these keys. If the crate has guards, one is held over all of them.
    fn lookups(&self, keys: &[u64]) -> u64;

    /// The sum of the last keys of the ranges that hold these keys, or that are the last ones below
    /// them: by a walk down, if the crate has no call for that.
    #[inline]
    fn befores(&self, keys: &[u64]) -> u64 {
        keys.iter().fold(0, |mut sum: u64, key| {
            self.walk_rev(black_box(*key), |_, last| {
                sum = sum.wrapping_add(last);
                false
            });
            sum
        })
    }

    /// [`Map::befores`] by the crate's iterator over a window from its back, if it has one.
    #[inline]
    fn ranges_before(&self, keys: &[u64]) -> u64 {
        self.befores(keys)
    }

    /// Stores a range in free space.
    fn store(&mut self, item: Item);

    /// Removes the range that starts at `item`'s first key and ends at its last; returns its value.
    fn erase(&mut self, item: Item) -> Option<u64>;

    /// Stores a range over others: ranges inside are removed, ranges that overlap its ends keep
    /// their rest.
    fn overwrite(&mut self, item: Item);

    /// Visits all ranges, ascending.
    fn each(&self, visit: impl FnMut(Item));

    /// Visits all ranges, descending.
    fn each_rev(&self, _visit: impl FnMut(Item)) {}

    /// Visits the first and last key of the ranges that do not end before `from`, ascending, until
    /// `visit` returns `false`.
    fn walk(&self, from: u64, visit: impl FnMut(u64, u64) -> bool);

    /// The same for ranges that do not start after `from`, descending. `false` if the map cannot.
    fn walk_rev(&self, _from: u64, _visit: impl FnMut(u64, u64) -> bool) -> bool {
        false
    }

    /// The first key of the wanted gap: by a linear search, if the crate has no gap search.
    #[inline]
    fn gap(&self, want: &Gap) -> Option<u64> {
        want.scan(self)
    }

    /// A copy.
    fn copy(&self) -> Option<Self> {
        None
    }

    /// A copy in O(1) that shares what it can.
    fn snapshot(&self) -> Option<Self> {
        None
    }

    /// How many ranges, and the sum of their last keys and values.
    #[inline]
    fn sum(&self) -> Sum {
        let mut sum = (0, 0_u64);
        self.each(|(_, last, value)| sum = (sum.0 + 1, sum.1.wrapping_add(last).wrapping_add(value)));
        sum
    }

    /// The same, descending.
    #[inline]
    fn sum_rev(&self) -> Sum {
        let mut sum = (0, 0_u64);
        self.each_rev(|(_, last, value)| sum = (sum.0 + 1, sum.1.wrapping_add(last).wrapping_add(value)));
        sum
    }

    /// Panics unless the map holds these ranges in this order, and no others.
    fn assert_holds(&self, items: &[Item]) {
        let mut visited = 0;
        self.each(|item| {
            assert_eq!(items.get(visited), Some(&item), "range {visited} is another one");
            visited += 1;
        });
        assert_eq!(visited, items.len(), "ranges are missing");
    }
}
