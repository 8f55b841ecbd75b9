//! What a store finds that comes right after a removal: in the whole of the hole, in parts of it,
//! beyond it, and after everything that could have come between. The validator knows of the hole
//! (HOLE-1, HOLE-2), and of every gap word (TREE-3).
use samara::testing::Tiny;
use samara::{BoundError, End, GapQuery, Normal, RangeMap, Revision, Shape, Span};
use samara_testkit::ReferenceMap;
use std::collections::BTreeMap;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const N: u64 = if cfg!(miri) { 40 } else { 700 };
const ROUNDS: u64 = if cfg!(miri) {
    120
} else if cfg!(feature = "long") {
    30_000
} else {
    1_500
};

struct Both {
    map: RangeMap<u64, u64>,
    naive: ReferenceMap<u64>,
    rng: fastrand::Rng,
    /// Snapshots that are still there.
    kept: Vec<RangeMap<u64, u64>>,
}

impl Both {
    /// Entries and gaps of few widths, so that many gaps are the widest of their leaf, and across a
    /// border of packed leaves.
    fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let (mut map, mut naive, mut at) = (RangeMap::new(), ReferenceMap::default(), (1u64 << 32) - 3 * N / 2);
        for i in 0..N {
            let span = Span::new(at, at + rng.u64(0..3));
            map.insert(span, i).unwrap();
            naive.store(span, Some(i)).unwrap();
            at = span.last + 1 + rng.u64(0..4);
            if at < 1 << 32 && at + 8 > 1 << 32 {
                at = (1 << 32) + 3; // a gap across the border
            }
        }
        Both { map, naive, rng, kept: vec![] }
    }

    fn store(&mut self, span: Span<u64>, value: u64) {
        self.map.insert(span, value).unwrap();
        self.naive.store(span, Some(value)).unwrap();
    }

    fn any(&mut self) -> Span<u64> {
        if self.rng.u32(0..8) == 0
            && let Some(at_border) = self.naive.at_or_after(1 << 32)
        {
            return at_border.0;
        }
        self.naive.entries[self.rng.usize(0..self.naive.entries.len())].0
    }

    /// Something between the removal and the store.
    fn between(&mut self) -> &'static str {
        let other = self.any();
        match self.rng.u32(0..31) {
            0 => {
                self.kept.push(self.map.snapshot());
                "a snapshot that stays"
            }
            1 => {
                drop(self.map.snapshot());
                "a snapshot that goes"
            }
            2 => {
                self.kept.clear();
                "all snapshots go"
            }
            3 => {
                self.map = self.map.clone();
                "a copy takes the map's place"
            }
            4 => {
                let mut other = RangeMap::<u64, _>::new();
                mem::swap(&mut self.map, &mut other);
                self.map.append(&mut other).unwrap();
                "the map is moved"
            }
            5 => {
                assert_eq!(self.map.remove(other.first).map(|(span, _)| span), Some(other));
                self.naive.remove(other.first);
                "another removal"
            }
            6 => {
                let mut cursor = self.map.cursor_mut(other.first);
                let (_, value) = cursor.erase().unwrap();
                cursor.store(other, value).unwrap();
                "a cursor erases and stores"
            }
            7 => {
                let last = other.first + (other.last - other.first) / 2;
                self.map.cursor_mut(other.first).set_last(last).unwrap();
                let (_, value) = self.naive.remove(other.first).unwrap();
                self.naive.store(Span::new(other.first, last), Some(value)).unwrap();
                "a boundary moves"
            }
            8 => {
                self.map.retain(|span, _| span != other);
                self.naive.remove(other.first);
                "retain takes one out"
            }
            9 => {
                let wide = Span::new(other.first, other.last + 40);
                self.store(wide, 7);
                "a store over many"
            }
            10 => {
                let high = self.map.split_off(other.first).unwrap();
                high.check().unwrap();
                self.map.append(&mut { high }).unwrap();
                "split off and appended"
            }
            11 => {
                self.map.reserve(3).unwrap();
                self.map.release();
                "reserved and released"
            }
            12 => {
                *self.map.get_mut(other.first).unwrap().1 = 3;
                let i = self.naive.entries.iter().position(|(span, _)| *span == other).unwrap();
                self.naive.entries[i].1 = 3;
                "a value changes"
            }
            13 => {
                self.map.split_at(other.first + 1).unwrap();
                if other.last > other.first {
                    let (_, value) = self.naive.remove(other.first).unwrap();
                    self.naive.store(Span::new(other.first, other.first), Some(value)).unwrap();
                    self.naive.store(Span::new(other.first + 1, other.last), Some(value)).unwrap();
                }
                "a split"
            }
            14 => {
                assert!(self.map.insert(Span::new(other.last, other.first.wrapping_sub(1)), 0).is_err());
                "a refused store"
            }
            15 => {
                for (_, value) in self.map.iter_mut() {
                    *value += 1;
                }
                for (_, value) in &mut self.naive.entries {
                    *value += 1;
                }
                "all values change"
            }
            16 => {
                let entries: Vec<_> = self.map.iter().map(|(span, value)| (span, *value)).collect();
                self.map.clear();
                self.map.check().unwrap();
                self.map.extend(entries);
                "cleared and filled"
            }
            17 | 18 => {
                let (i, to) = self.bounds(other);
                self.map.resize(other.last, to).unwrap();
                self.naive.entries[i].0 = to;
                "both boundaries move"
            }
            19 | 20 => {
                let (i, to) = self.bounds(other);
                self.revise(i, Revision::Resize(to));
                self.naive.entries[i].0 = to;
                "both boundaries move after a look"
            }
            21 => {
                let i = self.position(other);
                self.revise(i, Revision::Remove);
                self.naive.remove(other.first);
                "a removal after a look"
            }
            22 => {
                let i = self.position(other);
                self.revise(i, Revision::Keep);
                "a look"
            }
            25 | 26 => {
                let next = self.naive.at_or_after(other.last + 1).map_or(other, |(next, _)| next);
                let two = Span::new(other.first - self.rng.u64(0..2), next.last + self.rng.u64(0..2));
                self.store(two, 8);
                "a store over two and the gap between them"
            }
            24 => {
                let i = self.position(other);
                let (a, b) = (self.rng.u64(other.first..=other.last), self.rng.u64(other.first..=other.last + 3));
                let hole = Span::new(a.min(b), a.max(b));
                self.revise(i, Revision::Punch(hole));
                self.naive.store(hole, None).unwrap();
                "a hole after a look"
            }
            23 => {
                let end = if self.rng.bool() { End::Lowest } else { End::Highest };
                let query = GapQuery::new(self.rng.u64(1..9)).within(other.first..=other.last + 60).from(end);
                let gap = self.map.find_gap(&query);
                let found = self.map.seek_gap(&query).map(|(gap, next)| (gap, next.map(|(span, _)| span)));
                let behind = |gap: Span<u64>| self.naive.at_or_after(gap.last).map(|(span, _)| span);
                assert_eq!(found, gap.map(|gap| (gap, behind(gap))));
                "a search for a gap"
            }
            _ => "nothing",
        }
    }

    fn position(&self, entry: Span<u64>) -> usize {
        self.naive.entries.iter().position(|(span, _)| *span == entry).unwrap()
    }

    /// Where an entry is, and other bounds for it: wider on both sides, narrower, or elsewhere
    /// between its neighbours.
    fn bounds(&mut self, entry: Span<u64>) -> (usize, Span<u64>) {
        let i = self.position(entry);
        let low = i.checked_sub(1).map_or(entry.first - 5, |i| self.naive.entries[i].0.last + 1);
        let high = self.naive.entries.get(i + 1).map_or(entry.last + 5, |(next, _)| next.first - 1);
        let (first, last) = (self.rng.u64(low..=entry.last), self.rng.u64(entry.first..=high));
        (i, Span::new(first.min(last), first.max(last)))
    }

    /// Asks for this revision, by a key of the entry or one of the gap before it; what is shown is
    /// this entry and the next one.
    fn revise(&mut self, i: usize, what: Revision) {
        let (entry, next) = (self.naive.entries[i], self.naive.entries.get(i + 1).copied());
        let low = i.checked_sub(1).map_or(entry.0.first - 3, |i| self.naive.entries[i].0.last + 1);
        let mut asked = false;
        let key = self.rng.u64(low..=entry.0.last);
        let done = self.map.revise(key, |(span, value), behind| {
            assert_eq!(((span, *value), behind.map(|(span, value)| (span, *value))), (entry, next));
            asked = true;
            what
        });
        assert_eq!((done, asked), (Ok(()), true));
    }

    /// What a look from here upwards finds first.
    fn look(&self, key: u64) {
        let found = self.map.range_from(key).take(4).map(|(span, value)| (span, *value));
        let there = self.naive.entries.partition_point(|(span, _)| span.last < key);
        assert!(found.eq(self.naive.entries[there..].iter().take(4).copied()), "from {key:x}");
    }
}

#[test]
fn a_store_after_a_removal() {
    for seed in 0..if cfg!(feature = "long") { 4 } else { 2 } {
        let mut both = Both::new(seed);
        for round in 0..ROUNDS / 4 {
            let span = both.any();
            if round % 3 == 0 {
                let i = both.position(span);
                both.revise(i, Revision::Remove);
                both.naive.remove(span.first);
            } else {
                assert_eq!(both.map.remove(span.first), both.naive.remove(span.first));
            }
            both.map.check().unwrap_or_else(|e| panic!("seed {seed}, round {round}: after the removal: {e}"));
            let ends = [span.first - 1, span.first, span.last, span.last + 1, span.last + 4];
            ends.into_iter().for_each(|key| both.look(key));
            let between = both.between();
            ends.into_iter().for_each(|key| both.look(key));
            both.map.check().unwrap_or_else(|e| panic!("seed {seed}, round {round}: {between}: {e}"));
            // The same range mostly; or a part of the hole, or more than it.
            let store = match both.rng.u32(0..9) {
                8 => Span::new(span.first - both.rng.u64(1..9), span.first - 1),
                0 => Span::new(span.first, span.first),
                1 => Span::new(span.last, span.last),
                2 => Span::new(span.first - both.rng.u64(0..4), span.last),
                3 => Span::new(span.first, span.last + both.rng.u64(0..4)),
                4 => Span::new(span.first - 1, span.last + 1),
                _ => span,
            };
            both.store(store, round);
            ends.into_iter().for_each(|key| both.look(key));
            both.map.check().unwrap_or_else(|e| panic!("seed {seed}, round {round}: {between}, {store:?}: {e}"));
            assert!(
                both.map.iter().map(|(span, value)| (span, *value)).eq(both.naive.entries.iter().copied()),
                "seed {seed}, round {round}: {between}, {store:?}"
            );
            if both.naive.entries.len() < N as usize / 2 {
                both = Both::new(seed + round);
            }
        }
        for kept in &both.kept {
            kept.check().unwrap();
        }
    }
}

/// Each gap has a width of its own, so each is the only widest one of some node's.
#[test]
fn a_store_over_one_or_two_entries_and_their_gaps() {
    let mut first = 0;
    let entries: Vec<Span<u64>> = (0..100)
        .map(|i| {
            first += 3 + i * 37 % 101;
            Span::new(first, first + 1)
        })
        .collect();
    let built = RangeMap::<u64, u64>::from_sorted(entries.iter().map(|span| (*span, span.first))).unwrap();
    for pair in entries.windows(2) {
        for (low, high) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            for last in [pair[0].last, pair[1].first - 2, pair[1].last] {
                let mut map = built.clone();
                let span = Span::new(pair[0].first - low, last + high);
                map.insert(span, 7).unwrap();
                map.check().unwrap_or_else(|e| panic!("{span:?}: {e}"));
                assert_eq!(map.get(span.last), Some((span, &7)));
                let hole = Span::new(pair[0].first, pair[0].first);
                map.revise(span.first, |_, _| Revision::Punch(hole)).unwrap();
                map.check().unwrap_or_else(|e| panic!("{span:?} without {hole:?}: {e}"));
            }
        }
    }
}

/// Bounds that cannot be change nothing, and so does a key above all entries.
#[test]
fn a_revision_that_is_refused() {
    let built = RangeMap::<u64, char>::from_sorted([(10..=19, 'a'), (30..=39, 'b')]).unwrap();
    for shares in [false, true] {
        let mut map = built.clone();
        let _kept = shares.then(|| map.snapshot());
        let mut to = |key, first, last| map.revise(key, |_, _| Revision::Resize(Span::new(first, last)));
        assert_eq!(to(15, 10, 30), Err(BoundError::Occupied(30)));
        assert_eq!(to(30, 19, 39), Err(BoundError::Occupied(19)));
        assert_eq!(to(20, 29, 28), Err(BoundError::EmptyRange(Span::new(29, 28))));
        let mut punch = |hole| map.revise(15, |_, _| Revision::Punch(hole));
        assert_eq!(punch(Span::new(16, 15)), Err(BoundError::EmptyRange(Span::new(16, 15))));
        assert_eq!(punch(Span::new(20, 29)), Ok(()));
        let mut to = |key, first, last| map.revise(key, |_, _| Revision::Resize(Span::new(first, last)));
        let elsewhere = BoundError::Elsewhere { entry: Span::new(10, 19), wanted: Span::new(20, 29) };
        assert_eq!(to(10, 20, 29), Err(elsewhere));
        let nothing = Span::new(29, 28);
        assert_eq!(map.resize(20, nothing), Err(BoundError::NoEntry(20)));
        assert_eq!(map.resize(10, nothing), Err(BoundError::EmptyRange(nothing)));
        map.revise(40, |_, _| panic!("there is nothing")).unwrap();
        RangeMap::<u64, char>::new().revise(0, |_, _| panic!("there is nothing")).unwrap();
        map.check().unwrap();
        let panics = |map: &mut RangeMap<u64, char>| map.revise(10, |_, _| panic!("while it is decided"));
        assert!(catch_unwind(AssertUnwindSafe(|| panics(&mut map))).is_err());
        map.check().unwrap();
        assert!(map == built);
    }
}

#[test]
fn a_revision_drops_what_it_removes() {
    for shares in [false, true] {
        let value = Arc::new(());
        let mut map = RangeMap::<u64, Arc<()>>::from_sorted((0..3).map(|i| (i..=i, Arc::clone(&value)))).unwrap();
        let kept = shares.then(|| map.snapshot());
        map.revise(1, |_, _| Revision::Remove).unwrap();
        assert!(map.spans().eq([Span::new(0, 0), Span::new(2, 2)]));
        drop(kept);
        assert_eq!(Arc::strong_count(&value), 3);
    }
}

/// A hole that begins with its leaf's region reaches down to keys that the leaf has no words for.
#[test]
fn a_hole_across_a_border_of_leaves() {
    const BORDER: u64 = 1 << 32;
    let low = (0..20).map(|i| (BORDER - 300 + 10 * i..=BORDER - 300 + 10 * i, i));
    let high = (0..20).map(|i| (BORDER + 10 * i..=BORDER + 10 * i, i));
    let built = RangeMap::<u64, u64>::from_sorted(low.chain(high)).unwrap();
    assert_eq!(built.stats().unwrap().wide, 0);
    for store in [BORDER - 2..=BORDER - 1, BORDER - 1..=BORDER, BORDER..=BORDER + 1, BORDER - 109..=BORDER - 109] {
        let mut map = built.clone();
        map.remove(BORDER).unwrap();
        map.insert(store.clone(), 7).unwrap();
        map.check().unwrap();
        assert_eq!(map.get(*store.end()), Some((Span::from(store), &7)));
        assert_eq!(map.len(), 40);
    }
}

/// The same in trees of up to seven levels, near one place for a while, so that gap words are
/// raised on many levels and found again.
fn tall<S: Shape>(seed: u64, n: u64) -> usize {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut naive: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    let mut at = (1u64 << 32) - n;
    for i in 0..n {
        let width = rng.u64(0..2);
        naive.insert(at, (at + width, i));
        at += width + 1 + rng.u64(0..5);
        if seed.is_multiple_of(2) && rng.u32(0..50) == 0 {
            at += 1 << 31;
        }
        if rng.u32(0..30) == 0 {
            at += rng.u64(0..20);
        }
    }
    let entries = naive.iter().map(|(first, (last, value))| (Span::new(*first, *last), *value));
    let mut map = RangeMap::<u64, u64, S>::from_sorted(entries).unwrap();
    let levels = map.stats().unwrap().levels;
    let mut hot = 1u64 << 32;
    for round in 0..if cfg!(miri) { 25 } else { 1_500 } {
        if rng.u32(0..40) == 0 {
            let keys: Vec<u64> = naive.keys().copied().collect();
            hot = keys[rng.usize(0..keys.len())];
        }
        let Some((&first, &(last, value))) = naive.range(hot.saturating_sub(rng.u64(0..60))..).next() else {
            hot = *naive.keys().next().unwrap();
            continue;
        };
        naive.remove(&first);
        assert_eq!(map.remove(last), Some((Span::new(first, last), value)));
        if round % 3 == 0 {
            map.check().unwrap_or_else(|e| panic!("seed {seed}, {n} ranges, round {round}: after the removal: {e}"));
        }
        if rng.u32(0..6) == 0 {
            continue;
        }
        // The same range, or a part of the free run about it.
        let low = naive.range(..first).next_back().map_or(0, |(_, (last, _))| last + 1).max(first.saturating_sub(6));
        let high = naive.range(first..).next().map_or(u64::MAX, |(next, _)| next - 1).min(last + 6);
        let start = rng.u64(low..=high);
        let end = rng.u64(start..=high);
        let (start, end) = if rng.bool() { (first, last) } else { (start, end) };
        naive.insert(start, (end, round));
        map.insert(start..=end, round).unwrap();
        if round % 2 == 0 {
            map.check().unwrap_or_else(|e| panic!("seed {seed}, {n} ranges, round {round}: after the store: {e}"));
        }
        if rng.u32(0..3) > 0 {
            hot = first + rng.u64(0..8);
        }
    }
    let expected = naive.iter().map(|(first, (last, value))| (*first, *last, *value));
    assert!(map.iter().map(|(span, value)| (span.first, span.last, *value)).eq(expected), "seed {seed}, {n} ranges");
    levels
}

#[test]
fn in_tall_trees() {
    let mut most = 0;
    for seed in 0..if cfg!(feature = "long") { 6 } else { 1 } {
        for n in if cfg!(miri) { [20, 60] } else { [300, 2_500] } {
            most = most.max(tall::<Tiny>(seed, n));
            tall::<Normal>(seed, 3 * n);
        }
    }
    assert!(most >= if cfg!(miri) { 3 } else { 6 }, "no tree was tall: {most} levels");
}
