//! Gap search, and the linear scan that users write for a map without one. Uses maps through their
//! trait.

use crate::map::Map;
use samara::End;

/// The gap to find.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    /// Number of keys.
    pub len: u64,
    /// The first key is a multiple of this power of two.
    pub align: u64,
    /// Whether only free ranges count that hold an aligned gap wherever they begin.
    pub padded: bool,
    /// The gap starts here or later.
    pub low: u64,
    /// The gap ends here or before; below the largest key.
    pub high: u64,
    /// The end from which to search.
    pub end: End,
}

impl Gap {
    /// The first key of the fit in the free range `from..=to` that is nearest to the wanted end.
    #[inline]
    pub fn fit(&self, from: u64, to: u64) -> Option<u64> {
        let (from, to) = (from.max(self.low), to.min(self.high));
        let least = self.len - 1 + if self.padded { self.align - 1 } else { 0 };
        if from > to || to - from < least {
            return None;
        }
        match self.end {
            End::Lowest => {
                let first = from.checked_next_multiple_of(self.align)?;
                (first <= to && to - first >= self.len - 1).then_some(first)
            }
            End::Highest => {
                let first = (to - (self.len - 1)) & !(self.align - 1);
                (first >= from).then_some(first)
            }
        }
    }

    /// The fit in `map`, range by range.
    #[inline]
    pub fn scan<M: Map>(&self, map: &M) -> Option<u64> {
        match self.end {
            End::Lowest => self.upwards(map),
            End::Highest => self.downwards(map),
        }
    }

    fn upwards<M: Map>(&self, map: &M) -> Option<u64> {
        let (mut at, mut found) = (self.low, None);
        map.walk(self.low, |first, last| {
            if first > at {
                found = self.fit(at, first - 1);
            }
            at = at.max(last + 1);
            found.is_none() && at <= self.high
        });
        found.or_else(|| self.fit(at, self.high))
    }

    fn downwards<M: Map>(&self, map: &M) -> Option<u64> {
        // One above the highest key of the free range.
        let (mut top, mut found) = (self.high + 1, None);
        let walked = map.walk_rev(self.high, |first, last| {
            if last + 1 < top {
                found = self.fit(last + 1, top - 1);
            }
            top = top.min(first);
            found.is_none() && top > self.low
        });
        if !walked {
            return self.last_of_all(map);
        }
        found.or_else(|| if top > self.low { self.fit(self.low, top - 1) } else { None })
    }

    /// Upwards over everything, for a map that cannot go down.
    fn last_of_all<M: Map>(&self, map: &M) -> Option<u64> {
        let (mut at, mut found) = (self.low, None);
        map.walk(self.low, |first, last| {
            if first > at {
                found = self.fit(at, first - 1).or(found);
            }
            at = at.max(last + 1);
            at <= self.high
        });
        if at <= self.high { self.fit(at, self.high).or(found) } else { found }
    }
}
