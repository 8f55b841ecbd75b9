//! Saves a part of the model before a call is tried, and puts it back. Knows no calls.

use samara_mm::{Area, Extras, LockKind};

use crate::os::sys;
use crate::space::model::Inode;
use crate::space::reach::Range;
use crate::space::{Returned, Space};

/// A saved part of the model, which can be put back: each range with all areas in it.
pub(crate) struct Saved {
    layout: samara_mm::Layout,
    future_locks: Option<LockKind>,
    pub(crate) parts: Vec<(Range, Vec<Whole>)>,
}

/// An area with its bounds.
pub(crate) type Whole = (u64, u64, Area<Inode>, Extras);

impl Space {
    pub(crate) fn save(&self, calls: &[Returned]) -> Saved {
        let page = sys::page_size();
        let mut ranges: Vec<Range> = calls.iter().flat_map(|c| self.ranges(c)).collect();
        ranges.sort_unstable();
        let mut parts: Vec<(Range, Vec<_>)> = Vec::new();
        for (start, end) in ranges {
            let (mut low, mut high) = (start.saturating_sub(page), end.saturating_add(page));
            if let Some((last, _)) = parts.last()
                && low < last.1
            {
                (low, high) = (last.0.min(low), last.1.max(high));
                parts.pop();
            }
            let areas = self.model.areas_in(low, high);
            let areas: Vec<_> = areas.map(|a| (a.start, a.end, a.area.clone(), a.extras().clone())).collect();
            low = areas.first().map_or(low, |a| a.0.min(low));
            high = areas.last().map_or(high, |a| a.1.max(high));
            parts.push(((low, high), areas));
        }
        Saved { layout: self.model.layout(), future_locks: self.model.future_locks(), parts }
    }

    pub(crate) fn put_back(&mut self, saved: Saved) {
        self.model.set_layout(saved.layout);
        self.model.set_future_locks(saved.future_locks);
        for ((low, high), areas) in saved.parts {
            let _ = self.model.forget(low, high);
            for (start, end, area, extras) in areas {
                let _ = self.model.import_with(start, end, area, extras);
            }
        }
    }
}
