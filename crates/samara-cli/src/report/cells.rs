//! Counts of areas by site, kind, begin and end, in bounded memory.
//!
//! - **CELLS-1** there are at most [`CELLS`] cells after each [`Cells::add`], and no moment has a
//!   number of [`BINS`] or more. If there would be more, neighbouring moments are merged, and cells
//!   with them; every area still counts once.

use std::collections::HashMap;

use super::kinds::Kind;

/// Most cells.
pub(super) const CELLS: usize = 50_000;
/// Most moments.
pub(super) const BINS: u64 = 512;
/// Value for areas that have not ended.
pub(super) const ALIVE: u16 = u16::MAX;
/// With this number of moments left, sites are no longer distinguished.
const FEWEST: u64 = 8;

/// The common attributes of the areas of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Cell {
    pub(super) site: u32,
    pub(super) kind: Kind,
    pub(super) born: u16,
    /// Or [`ALIVE`].
    pub(super) gone: u16,
}

/// The cells: number of areas, and their bytes in the end.
#[derive(Debug)]
pub(super) struct Cells {
    /// Nanoseconds in a moment.
    pub(super) bin_ns: u64,
    last_ns: u64,
    all: HashMap<Cell, (u64, u64)>,
}

impl Default for Cells {
    fn default() -> Self {
        Cells { bin_ns: 1 << 10, last_ns: 0, all: HashMap::new() }
    }
}

impl Cells {
    /// Counts an area. `gone_ns`: `None` if it has not ended.
    pub(super) fn add(&mut self, site: u32, kind: Kind, born_ns: u64, gone_ns: Option<u64>, bytes: u64) {
        self.last_ns = self.last_ns.max(born_ns).max(gone_ns.unwrap_or(0));
        while self.last_ns / self.bin_ns >= BINS {
            self.halve();
        }
        let bin = |ns: u64| (ns / self.bin_ns) as u16;
        let cell = Cell { site, kind, born: bin(born_ns), gone: gone_ns.map_or(ALIVE, bin) };
        self.count(cell, (1, bytes));
        while self.all.len() > CELLS {
            match self.last_ns / self.bin_ns >= FEWEST {
                true => self.halve(),
                false => self.map(|cell| Cell { site: super::lives::UNKNOWN, ..cell }),
            }
        }
    }

    fn count(&mut self, cell: Cell, (areas, bytes): (u64, u64)) {
        let sum = self.all.entry(cell).or_default();
        *sum = (sum.0 + areas, sum.1.saturating_add(bytes));
    }

    /// Merges each two moments.
    fn halve(&mut self) {
        self.bin_ns = self.bin_ns.saturating_mul(2);
        self.map(|cell| Cell {
            born: cell.born / 2,
            gone: if cell.gone == ALIVE { ALIVE } else { cell.gone / 2 },
            ..cell
        });
    }

    fn map(&mut self, to: impl Fn(Cell) -> Cell) {
        for (cell, sum) in std::mem::take(&mut self.all) {
            self.count(to(cell), sum);
        }
    }

    /// All cells, in order.
    pub(super) fn sorted(&self) -> Vec<(Cell, (u64, u64))> {
        let mut all: Vec<_> = self.all.iter().map(|(cell, sum)| (*cell, *sum)).collect();
        all.sort_unstable();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CELLS-1, whatever is counted.
    #[test]
    fn every_area_counts_once() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut cells = Cells::default();
        let (mut areas, mut bytes) = (0, 0);
        for i in 0..300_000_u64 {
            let born = rng.u64(0..=i * 50);
            let gone = rng.bool().then(|| rng.u64(born..=i * 50));
            let size = rng.u64(1..9) << 12;
            cells.add(rng.u32(0..2_000), Kind::Anonymous, born, gone, size);
            (areas, bytes) = (areas + 1, bytes + size);
            assert!(cells.all.len() <= CELLS && cells.last_ns / cells.bin_ns < BINS);
        }
        let all = cells.sorted();
        assert_eq!(all.iter().fold((0, 0), |sum, (_, n)| (sum.0 + n.0, sum.1 + n.1)), (areas, bytes));
        assert!(all.iter().all(|(cell, _)| cell.born <= cell.gone));
        // More sites than cells, all at once.
        let mut cells = Cells::default();
        (0..3 * CELLS as u32).for_each(|site| cells.add(site, Kind::File, 5, None, 4096));
        assert_eq!(cells.sorted().iter().map(|(_, n)| n.0).sum::<u64>(), 3 * CELLS as u64);
        // At the end of time.
        cells.add(1, Kind::File, u64::MAX, Some(u64::MAX), u64::MAX);
        assert!(cells.last_ns / cells.bin_ns < BINS);
    }
}
