//! The tree keeps its invariants, and equals a table of all keys.

use super::Maple;
use samara_mm::{Area, AreaIndex, End, FileId, Flags, GapQuery, Object, Revision, Span, gap_by_walk};

const KEYS: u64 = 3_000;

fn area(number: u64) -> Area<FileId> {
    Area::new(Flags::READ, Object::Anonymous, number)
}

/// A tree, and beside it the number of the area at each key.
#[derive(Default)]
struct Pair {
    tree: Maple<FileId>,
    keys: Vec<Option<u64>>,
    number: u64,
}

impl Pair {
    fn put(&mut self, span: Span) {
        self.number += 1;
        self.tree.replace(span, area(self.number)).unwrap();
        self.keys[span.first as usize..=span.last as usize].fill(Some(self.number));
    }

    fn clear(&mut self, span: Span) {
        self.tree.clear_range(span).unwrap();
        self.keys[span.first as usize..=span.last as usize].fill(None);
    }

    /// Gives the entry at a key bounds that are as large as they may be, or smaller ones.
    fn resize(&mut self, key: u64, grow: bool) {
        let free = |at: u64| at < KEYS && self.keys[at as usize].is_none();
        let mut to = None;
        let decide = |(span, _): (Span, &Area<FileId>), _: Option<(Span, &Area<FileId>)>| {
            let (mut first, mut last) = (span.first, span.last);
            if grow {
                while first > 0 && free(first - 1) {
                    first -= 1;
                }
                while free(last + 1) {
                    last += 1;
                }
            } else {
                first += (last - first) / 3;
                last -= (last - first) / 3;
            }
            to = Some((span, Span::new(first, last)));
            Revision::Resize(Span::new(first, last))
        };
        self.tree.revise(key, decide).unwrap();
        if let Some((from, to)) = to {
            let number = self.keys[from.first as usize];
            self.keys[from.first as usize..=from.last as usize].fill(None);
            self.keys[to.first as usize..=to.last as usize].fill(number);
        }
    }

    fn compare(&self) {
        self.tree.check();
        let mut keys = vec![None; KEYS as usize];
        for (span, area) in self.tree.iter() {
            let number = Some(area.bias);
            assert!(keys[span.first as usize..=span.last as usize].iter().all(Option::is_none));
            keys[span.first as usize..=span.last as usize].fill(number);
        }
        assert_eq!(keys, self.keys);
        assert!(self.tree.iter().rev().map(|(span, _)| span).eq(spans(&self.tree).into_iter().rev()));
        assert!(self.tree.range_from(0).map(|(span, _)| span).eq(spans(&self.tree)));
    }

    /// A tree that is built at once holds the same.
    fn rebuild(&mut self) {
        let entries = self.tree.iter().map(|(span, area)| (span, area.clone()));
        self.tree = Maple::from_sorted(entries).unwrap();
        self.compare();
    }

    fn search(&self, query: &GapQuery) {
        assert_eq!(self.tree.find_gap(query), gap_by_walk(self.tree.range(query.window()), query), "{query:?}");
    }
}

fn spans(tree: &Maple<FileId>) -> Vec<Span> {
    tree.iter().map(|(span, _)| span).collect()
}

#[test]
fn random_stores() {
    let mut deepest = 0;
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut pair = Pair { keys: vec![None; KEYS as usize], ..Pair::default() };
        pair.rebuild();
        let longest = [3, 12, 800][seed as usize % 3];
        for step in 0..4_000 {
            let first = random.u64(0..KEYS);
            let span = Span::new(first, (first + random.u64(0..longest)).min(KEYS - 1));
            if random.bool() {
                pair.tree.reserve(span, 2).unwrap();
            }
            match random.u8(0..10) {
                0..6 => pair.put(span),
                6..8 => pair.clear(span),
                8 => pair.resize(first, random.bool()),
                _ => drop(pair.tree.split_at(first).unwrap()),
            }
            pair.tree.release();
            deepest = deepest.max(pair.tree.height);
            if step % 500 == 0 {
                pair.rebuild();
            }
            if step % 16 == 0 {
                pair.compare();
                let window = Span::new(first / 2, first / 2 + random.u64(0..KEYS));
                for end in [End::Lowest, End::Highest] {
                    let query = GapQuery::new(random.u64(1..40)).aligned(1 << random.u8(0..5)).unwrap();
                    pair.search(&query.within(window).from(end));
                }
            }
        }
    }
    assert!(deepest >= 3, "{deepest}");
}
