//! The stores of `overwrite` and `split`, and the expected content of the map after them. Uses maps
//! through their trait.
//!
//! - **RIVALS-WRITES-1** Each store touches one group of [`GROUP`] slots, and no two stores of a
//!   plan the same group. So the content of a map after all of them is computed, not looked up.

use crate::map::Map;
use samara_bench::data::{Data, Item, PAGE};

/// Slots of a group.
const GROUP: usize = 8;
/// Ranges that an overwrite overlaps: two are cut, those between them are removed.
const OVERLAPPED: usize = 4;

/// The kind of stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// From inside a range to inside another.
    Overwrite,
    /// Inside a range.
    Split,
}

/// Stores at disjoint places.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The stores, in random order.
    pub stores: Vec<Item>,
    /// What the map must hold after them.
    pub after: Vec<Item>,
    /// The indices of the first and the last range that each store overlaps.
    overlapped: Vec<(usize, usize)>,
}

/// At most `most` stores over the data's ranges.
pub fn plan(data: &Data, write: Write, round: u64, most: usize) -> Plan {
    let mut groups: Vec<usize> = (0..data.n()).step_by(GROUP).collect();
    fastrand::Rng::with_seed(0x0e7 + round).shuffle(&mut groups);
    groups.truncate(most);
    let overlapped: Vec<(usize, usize)> = groups
        .into_iter()
        .map(|from| (from, if write == Write::Split { from } else { (from + OVERLAPPED - 1).min(data.n() - 1) }))
        .collect();
    let stores: Vec<Item> = overlapped
        .iter()
        .enumerate()
        .map(|(i, &(from, to))| {
            let (first, last) = (data.items[from].0 + PAGE / 2, data.items[to].1 - PAGE / 4);
            (first, last, (data.n() + 1 + i) as u64)
        })
        .collect();
    let mut order: Vec<usize> = (0..stores.len()).collect();
    order.sort_unstable_by_key(|i| stores[*i].0);
    let mut after = Vec::with_capacity(data.n() + 2 * stores.len());
    let mut next = 0;
    for i in order {
        after.extend_from_slice(&data.items[next..overlapped[i].0]);
        after.extend(pieces(data, overlapped[i], stores[i]));
        next = overlapped[i].1 + 1;
    }
    after.extend_from_slice(&data.items[next..]);
    Plan { stores, after, overlapped }
}

/// The remains of the ranges that a store overlaps, from the first to the last.
fn pieces(data: &Data, (from, to): (usize, usize), store: Item) -> [Item; 3] {
    let (head, tail) = (data.items[from], data.items[to]);
    [(head.0, store.0 - 1, head.2), store, (store.1 + 1, tail.1, tail.2)]
}

impl Plan {
    /// Restores the data's ranges in `map`.
    pub fn undo<M: Map>(&self, data: &Data, map: &mut M) {
        for (&(from, to), store) in self.overlapped.iter().zip(&self.stores) {
            for piece in pieces(data, (from, to), *store) {
                assert_eq!(map.erase(piece), Some(piece.2), "a range that was just stored, or cut, is not there");
            }
            data.items[from..=to].iter().for_each(|item| map.store(*item));
        }
    }
}
