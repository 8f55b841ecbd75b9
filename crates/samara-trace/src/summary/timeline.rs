//! A number over time, in bounded memory. Knows nothing of what the number counts.
//!
//! - **TIMELINE-1** there are at most [`CELLS`] cells, each with the largest value of its time.
//!   When the time runs past the last cell, neighbours are paired up and each cell covers twice the
//!   time.

/// Most cells of a timeline.
const CELLS: usize = 256;

/// A number over time: its largest value in each of a row of equal spans of time.
#[derive(Clone, Debug)]
pub struct Timeline {
    /// Nanoseconds in a cell.
    cell_ns: u64,
    cells: Vec<u64>,
    last: u64,
}

impl Default for Timeline {
    fn default() -> Self {
        Timeline { cell_ns: 1 << 14, cells: Vec::new(), last: 0 }
    }
}

impl Timeline {
    /// Sets the number to `value` from this time on. A time before the latest one counts as the
    /// latest one.
    pub fn add(&mut self, ns: u64, value: u64) {
        while ns / self.cell_ns >= CELLS as u64 {
            self.cells = self.cells.chunks(2).map(|pair| pair.iter().copied().max().unwrap_or(0)).collect();
            self.cell_ns = self.cell_ns.saturating_mul(2);
        }
        let at = ((ns / self.cell_ns) as usize).max(self.cells.len().saturating_sub(1));
        // The previous value lasted until now.
        while self.cells.len() <= at {
            self.cells.push(self.last);
        }
        self.cells[at] = self.cells[at].max(value);
        self.last = value;
    }

    /// Extends the current value up to this time.
    pub fn lasts(&mut self, ns: u64) {
        self.add(ns, self.last);
    }

    /// The largest value in each of `count` equal parts of the time up to the last value. Fewer, if
    /// less is known.
    pub fn columns(&self, count: usize) -> Vec<u64> {
        let count = count.clamp(1, self.cells.len().max(1));
        let part = |i: usize| i * self.cells.len() / count;
        (0..count).filter_map(|i| self.cells[part(i)..part(i + 1)].iter().copied().max()).collect()
    }
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;
