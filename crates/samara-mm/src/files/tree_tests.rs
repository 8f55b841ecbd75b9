//! The interval tree against a vector, checked after every step.

use super::area::{FileArea, Key, Mapping, PAGE};
use super::tree::{Tree, TreeFault};
use samara::Span;
use std::vec::Vec;

/// splitmix64.
struct Rng(u64);
impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) % n
    }
}

fn mapping(key: Key, pages: u64, shared_writable: bool) -> Mapping {
    let Key { page, space, start } = key;
    Mapping { space, area: FileArea { start, end: start + pages * PAGE, page, shared_writable } }
}

#[test]
fn random_steps_keep_the_tree_balanced() {
    let seed = std::env::var("SAMARA_MM_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(0x5eed);
    std::println!("SAMARA_MM_SEED={seed}");
    let (mut rng, mut tree, mut kept) = (Rng(seed), Tree::default(), Vec::<Mapping>::new());
    let (mut inserted, mut removed, mut changed) = (0, 0, 0);
    for step in 0..6000 {
        // Grows for a while, then shrinks.
        let grows = step % 2000 < 1200;
        let key = Key { page: rng.below(64), space: rng.below(4), start: rng.below(4) * PAGE };
        let power = rng.below(7);
        let (pages, writable) = (1 + rng.below(1 << power), rng.below(4) == 0);
        let there = kept.iter().position(|m| m.key() == key);
        match rng.below(10) {
            0 => {
                let old = there.map_or(mapping(key, pages, writable), |at| kept[at]).area;
                let wrong = FileArea { shared_writable: !old.shared_writable, ..old };
                assert!(!tree.change(&key, &wrong, key.page, writable));
                assert_eq!(tree.change(&key, &old, key.page + pages - 1, writable), there.is_some());
                if let Some(at) = there {
                    kept[at] = mapping(key, pages, writable);
                    changed += 1;
                }
            }
            n if (n < 8) == grows => {
                tree.grow(usize::from(tree.capacity() == tree.len())).unwrap();
                assert_eq!(tree.insert(key, key.page + pages - 1, writable), there.is_none());
                if there.is_none() {
                    kept.push(mapping(key, pages, writable));
                    inserted += 1;
                }
            }
            _ => {
                let old = there.map_or(mapping(key, pages, writable), |at| kept[at]).area;
                assert!(!tree.remove(&key, &FileArea { end: old.end + PAGE, ..old }));
                assert_eq!(tree.remove(&key, &old), there.is_some());
                if let Some(at) = there {
                    kept.swap_remove(at);
                    removed += 1;
                }
            }
        }
        assert_eq!(tree.check(), Ok(()), "step {step}");
        assert_eq!(tree.get(&key), kept.iter().find(|m| m.key() == key).copied());
        let pages = Span::new(rng.below(70), rng.below(140));
        let after = (rng.below(2) == 0).then_some(key);
        let hits = |m: &&Mapping| {
            m.area.pages().is_some_and(|own| own.intersect(&pages).is_some())
                && after.is_none_or(|after| m.key() > after)
        };
        let mut want: Vec<Mapping> = kept.iter().filter(hits).copied().collect();
        want.sort();
        if !pages.is_empty() {
            assert!(tree.overlaps(pages, after).eq(want), "step {step}: {pages:?} {after:?}");
        }
        if kept.is_empty() {
            assert_eq!((tree.len(), tree.writable()), (0, 0));
        }
    }
    assert!(inserted > 500 && removed > 500 && changed > 100, "{inserted} {removed} {changed}");
}

/// A search looks at few nodes that are no answer, whatever the lengths: it is not a scan.
#[test]
fn a_search_skips_what_ends_before_it() {
    let mut tree = Tree::default();
    tree.grow(1 << 14).unwrap();
    for space in 0..1 << 14 {
        // All end one page before the one that is asked for; one area in the middle reaches it.
        tree.insert(Key { page: 0, space, start: 0 }, if space == 5000 { 40 } else { 39 }, false);
    }
    let found: Vec<_> = tree.overlaps(Span::new(40, 40), None).map(|m| m.space).collect();
    assert_eq!(found, [5000]);
    assert!(tree.looked_at(Span::new(40, 40)) <= 2 * 15);
    assert_eq!(tree.looked_at(Span::new(41, 41)), 1);
    assert_eq!(tree.check(), Ok(()));
}

/// A corruption of a tree, and the answer of its check.
type Spoiled = (fn(&mut Tree), TreeFault);

#[test]
fn a_check_finds_each_fault() {
    let key = |page| Key { page, space: 1, start: 0 };
    let faults: [Spoiled; 6] = [
        (|tree| tree.spoil_key(0, 3), TreeFault::Order(1)),
        (|tree| tree.spoil_greatest(1), TreeFault::Greatest(1)),
        (|tree| tree.spoil_height(2), TreeFault::Heights),
        (|tree| tree.spoil_len(), TreeFault::Counts),
        (|tree| tree.spoil_start(0), TreeFault::Malformed(0)),
        (|tree| tree.spoil_free(), TreeFault::Nodes),
    ];
    for (spoil, fault) in faults {
        let mut tree = Tree::default();
        tree.grow(8).unwrap();
        for page in 0..6 {
            tree.insert(key(page), page + 3, false);
        }
        assert_eq!(tree.check(), Ok(()));
        spoil(&mut tree);
        assert_eq!(tree.check(), Err(fault));
    }
}
