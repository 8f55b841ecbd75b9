//! The ranges and the random choices that all measured maps share.
//!
//! - **DATA-1** Range `i` lies in slot `i`: it starts at the slot's start and is one to three pages
//!   of the slot's four, two on average. So half of all random addresses hit a range, and no hole
//!   between ranges is as long as a slot.
//! - **DATA-2** Range `i` has the value `i + 1`: a lookup's right answer is computed, not looked
//!   up.

/// A range and its value: first key, last key, value.
pub type Item = (u64, u64, u64);

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// Bytes of a slot.
pub const SLOT: u64 = 4 * PAGE;
/// The first slot's start.
pub const BASE: u64 = 1 << 30;

/// The ranges of one size.
#[derive(Clone, Debug)]
pub struct Data {
    /// The ranges, ascending.
    pub items: Vec<Item>,
    /// The same, in random order.
    pub shuffled: Vec<Item>,
}

impl Data {
    /// `n` ranges.
    pub fn new(n: usize) -> Self {
        let items: Vec<Item> = (0..n as u64).map(|i| (first(i), first(i) + len(i) - 1, i + 1)).collect();
        let mut shuffled = items.clone();
        fastrand::Rng::with_seed(0x5a3a).shuffle(&mut shuffled);
        Data { items, shuffled }
    }

    /// Number of ranges.
    pub fn n(&self) -> usize {
        self.items.len()
    }

    /// `count` random addresses, half of them in a range, and the sum of the values they hit.
    pub fn probes(&self, round: u64, count: usize) -> (Vec<u64>, u64) {
        let mut rng = fastrand::Rng::with_seed(0xa11 + round);
        let span = self.n() as u64 * SLOT;
        let keys: Vec<u64> = (0..count).map(|_| BASE + rng.u64(0..span)).collect();
        let sum = keys.iter().map(|key| self.answer(*key)).fold(0_u64, u64::wrapping_add);
        (keys, sum)
    }

    /// `count` random addresses in ranges, and the sum of the values they hit.
    pub fn hits(&self, round: u64, count: usize) -> (Vec<u64>, u64) {
        let mut rng = fastrand::Rng::with_seed(0x417 + round);
        let picks = self.picks(round, count);
        let keys = picks.iter().map(|&(first, last, _)| rng.u64(first..=last)).collect();
        (keys, picks.iter().fold(0, |sum: u64, item| sum.wrapping_add(item.2)))
    }

    /// `count` random ranges.
    pub fn picks(&self, round: u64, count: usize) -> Vec<Item> {
        let mut rng = fastrand::Rng::with_seed(0xbee + round);
        (0..count).map(|_| self.items[rng.usize(0..self.n())]).collect()
    }

    /// The value at `key`, which is in a slot; 0 if there is none (DATA-2).
    pub fn answer(&self, key: u64) -> u64 {
        let slot = (key - BASE) / SLOT;
        if key - first(slot) < len(slot) { slot + 1 } else { 0 }
    }

    /// The last key of the range at or below `key`, which is in a slot: every range begins at its
    /// slot's start (DATA-1).
    pub fn before(&self, key: u64) -> u64 {
        self.items[((key - BASE) / SLOT) as usize].1
    }

    /// The end of the last slot, exclusive.
    pub fn end(&self) -> u64 {
        BASE + self.n() as u64 * SLOT
    }
}

fn first(slot: u64) -> u64 {
    BASE + slot * SLOT
}

/// One to three pages, by the slot's number.
fn len(slot: u64) -> u64 {
    (1 + (slot.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % 3) * PAGE
}
