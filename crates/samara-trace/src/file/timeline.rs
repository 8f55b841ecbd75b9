//! A number over time in bounded memory. Knows nothing of what the number counts.
//!
//! - **TIMELINE-1** at most [`CELLS`] cells, each the greatest value while it lasted; when time
//!   runs past the last, neighbours pair up and cells become twice as long.

/// Most cells of a timeline.
const CELLS: usize = 256;

/// The greatest value of a number in each of a row of equal spans of time.
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
    /// The number is `value` from this time on. Times that go backwards count as the latest time
    /// before them.
    pub fn add(&mut self, ns: u64, value: u64) {
        while ns / self.cell_ns >= CELLS as u64 {
            self.cells = self.cells.chunks(2).map(|pair| pair.iter().copied().max().unwrap_or(0)).collect();
            self.cell_ns = self.cell_ns.saturating_mul(2);
        }
        let at = ((ns / self.cell_ns) as usize).max(self.cells.len().saturating_sub(1));
        // The value of before lasted up to here.
        while self.cells.len() <= at {
            self.cells.push(self.last);
        }
        self.cells[at] = self.cells[at].max(value);
        self.last = value;
    }

    /// The number stays what it is up to this time.
    pub fn lasts(&mut self, ns: u64) {
        self.add(ns, self.last);
    }

    /// The greatest value in each of `count` equal parts of the time up to the last value (fewer,
    /// where less is known).
    pub fn columns(&self, count: usize) -> Vec<u64> {
        let count = count.clamp(1, self.cells.len().max(1));
        let part = |i: usize| i * self.cells.len() / count;
        (0..count).filter_map(|i| self.cells[part(i)..part(i + 1)].iter().copied().max()).collect()
    }
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;
