//! The areas of all spaces as rectangles of addresses and time, in bounded memory.
//!
//! - **RECTS-1** there are at most twice [`RECTS`] rectangles at any time, and [`RECTS`] in the
//!   end. If there would be more, rectangles of one space and kind that are close to one another
//!   are merged into one, which covers and counts them. The distance for this grows. (There are few
//!   spaces: see [`SPACES`].)

use std::collections::HashMap;

use super::kinds::Kind;

/// Most rectangles in the end.
pub(super) const RECTS: usize = 30_000;
/// Most spaces that may be added.
pub(super) const SPACES: u64 = 1024;
/// Bytes of a page.
pub(super) const PAGE: u64 = 4096;

/// An area, or several areas, from one moment to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rect {
    pub(super) space: u64,
    /// Addresses in pages: the first, and the end.
    pub(super) pages: (u64, u64),
    pub(super) ns: (u64, u64),
    pub(super) kind: Kind,
    /// The number of its name, the site that gave it its attributes, and the event; for several
    /// areas, those of the first one in the trace.
    pub(super) name: u32,
    pub(super) site: u32,
    pub(super) event: u64,
    /// Number of areas that it covers.
    pub(super) areas: u64,
}

/// All rectangles.
#[derive(Debug, Default)]
pub(super) struct Rects {
    pub(super) all: Vec<Rect>,
    /// Rectangles within this number of nanoseconds and pages are merged. 0: nothing is merged.
    pub(super) close: (u64, u64),
    last_ns: u64,
}

impl Rects {
    /// Adds one, unless it lasted no time.
    pub(super) fn add(&mut self, rect: Rect) {
        if rect.ns.0 >= rect.ns.1 {
            return;
        }
        self.last_ns = self.last_ns.max(rect.ns.1);
        self.all.push(rect);
        if self.all.len() >= 2 * RECTS {
            self.shrink();
        }
    }

    /// All of them, in order of space, address and time.
    pub(super) fn finish(mut self) -> Self {
        if self.close != (0, 0) || self.all.len() > RECTS {
            self.shrink();
        }
        self.all.sort_by_key(|rect| (rect.space, rect.pages, rect.ns));
        self
    }

    fn shrink(&mut self) {
        if self.close == (0, 0) {
            self.close = ((self.last_ns / 2048).max(1), 1);
        }
        self.merge();
        while self.all.len() > RECTS && self.close != (u64::MAX, u64::MAX) {
            let (ns, pages) = self.close;
            // Time first: areas that live long are distinguished by address.
            self.close = match ns < self.last_ns / 32 {
                true => (ns.saturating_mul(2), pages.saturating_mul(2)),
                false if pages < 1 << 52 => (ns, pages.saturating_mul(4)),
                false => (u64::MAX, u64::MAX),
            };
            self.merge();
        }
    }

    fn merge(&mut self) {
        let (ns, pages) = (self.close.0.max(1), self.close.1.max(1));
        let mut merged: HashMap<_, Rect> = HashMap::new();
        for rect in std::mem::take(&mut self.all) {
            let key =
                (rect.space, rect.kind, rect.pages.0 / pages, rect.pages.1 / pages, rect.ns.0 / ns, rect.ns.1 / ns);
            merged.entry(key).and_modify(|one| one.join(&rect)).or_insert(rect);
        }
        self.all = merged.into_values().collect();
    }
}

impl Rect {
    fn join(&mut self, other: &Rect) {
        self.pages = (self.pages.0.min(other.pages.0), self.pages.1.max(other.pages.1));
        self.ns = (self.ns.0.min(other.ns.0), self.ns.1.max(other.ns.1));
        self.areas += other.areas;
        if other.event < self.event {
            (self.name, self.site, self.event) = (other.name, other.site, other.event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RECTS-1: whatever is added, none is lost, and each is covered.
    #[test]
    fn rectangles_are_bounded_and_cover() {
        let mut rng = fastrand::Rng::with_seed(3);
        for spaces in [1, SPACES] {
            let mut rects = Rects::default();
            let mut added = Vec::new();
            for i in 0..200_000_u64 {
                let most = 1 << rng.u32(1..36);
                let (page, ns) = (rng.u64(0..most), rng.u64(0..=i));
                let rect = Rect {
                    space: rng.u64(0..spaces),
                    pages: (page, page + rng.u64(1..100)),
                    ns: (ns, ns + rng.u64(1..5000)),
                    kind: if rng.bool() { Kind::Anonymous } else { Kind::NoAccess },
                    name: 0,
                    site: i as u32,
                    event: i,
                    areas: 1,
                };
                rects.add(rect);
                assert!(rects.all.len() < 2 * RECTS);
                if i % 1000 == 0 {
                    added.push(rect);
                }
            }
            let rects = rects.finish();
            assert!(rects.all.len() <= RECTS);
            assert_eq!(rects.all.iter().map(|rect| rect.areas).sum::<u64>(), 200_000);
            for one in added {
                let covers = |rect: &Rect| {
                    (rect.space, rect.kind) == (one.space, one.kind)
                        && rect.pages.0 <= one.pages.0
                        && rect.pages.1 >= one.pages.1
                        && rect.ns.0 <= one.ns.0
                        && rect.ns.1 >= one.ns.1
                };
                assert!(rects.all.iter().any(covers));
            }
        }
    }
}
