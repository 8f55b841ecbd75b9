//! Explores every tree of the smallest nodes that operations reach over a few keys, with every
//! finger and hole that they leave. Runs each operation with each argument on each tree, compares
//! with a list, and checks. A proof for small trees, where random operations give a sample.
//!
//! A state is identified by its nodes and by what the tree remembers (not by its values, which no
//! path depends on); a state that was met before is not looked at again. Knows the operations of a
//! map; does not know how a tree does them.

extern crate std;

use crate::map::RangeMap;
use crate::map::revise::Revision;
use crate::node::Raw;
use crate::node::inner::Inner;
use crate::node::leaf::Leaf;
use crate::node::shape::Tiny;
use crate::tree::Tree;
use crate::tree::regroup::Side;
use crate::types::gap::{End, GapQuery};
use crate::types::key::Key;
use crate::types::span::Span;
use alloc::vec;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use std::collections::HashSet;
use std::hash::DefaultHasher;

type Map = RangeMap<u64, u8, Tiny>;

impl<K: Key, V, S: crate::node::shape::Shape> Tree<K, V, S> {
    /// All nodes, parents before children, from left to right.
    pub(crate) fn nodes(&self) -> Vec<Raw> {
        fn add<K: Key, S: crate::node::shape::Shape>(all: &mut Vec<Raw>, at: Raw, level: usize) {
            all.push(at);
            if level > 0 {
                // SAFETY: TREE-4: a node above level 0 is a live inner node, and its children are
                // live.
                unsafe {
                    let node = Inner::<K, S>::from_raw(at);
                    (0..node.len()).for_each(|i| add::<K, S>(all, node.child(i), level - 1));
                }
            }
        }
        let mut all = Vec::new();
        if let Some(root) = self.root {
            add::<K, S>(&mut all, root, self.height());
        }
        all
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Entries {
    /// Entries of any bounds, by every operation.
    Any,
    /// Entries of one cell each, by the operations that keep them so: this gives fewer trees, and
    /// taller ones are within reach.
    OneCell,
}

/// The keys of an exploration, in cells: an operation's bounds are those of cells.
struct Universe {
    /// The first key of each cell, and the one behind the last cell.
    firsts: Vec<u64>,
    entries: Entries,
}

impl Universe {
    fn cells(&self) -> usize {
        self.firsts.len() - 1
    }

    fn span(&self, (a, b): (usize, usize)) -> Span<u64> {
        Span::new(self.firsts[a], self.firsts[b + 1] - 1)
    }

    /// Cells of one key each.
    fn dense(cells: usize, entries: Entries) -> Self {
        Universe { firsts: (0..=cells as u64).collect(), entries }
    }

    /// Cells of one key, but for one in the middle that is so wide that no packed leaf holds keys
    /// of both sides.
    fn wide(cells: usize, entries: Entries) -> Self {
        let first = |i: u64| if i > cells as u64 / 2 { i + (1 << 40) } else { i };
        Universe { firsts: (0..=cells as u64).map(first).collect(), entries }
    }
}

/// What a map holds: the first cell and the last of each entry, and its value.
type List = Vec<(usize, usize, u8)>;

#[derive(Clone, Copy, Debug)]
enum Op {
    Insert(usize, usize),
    InsertMerging(usize, usize),
    Clear(usize, usize),
    Drain(usize, usize),
    Remove(usize),
    Resize(usize, (usize, usize)),
    Revise(usize, (usize, usize)),
    ReviseAway(usize),
    /// Punches a hole by `revise` of the entry at or after the first cell.
    Punch(usize, (usize, usize)),
    Keep(usize),
    SplitAt(usize),
    MergeAt(usize),
    Seek(usize),
    /// The lowest or the highest gap of one cell in a window.
    SeekGap(usize, usize, End),
    Modify(usize),
    ModifyAll,
    PopFirst,
    PopLast,
    Coalesce,
    Reserve,
    Regroup(usize, Side),
    RegroupAround(usize, usize),
}

fn operations(universe: &Universe) -> Vec<Op> {
    let n = universe.cells();
    let any = universe.entries == Entries::Any;
    let mut ops = vec![Op::PopFirst, Op::PopLast, Op::Reserve, Op::ModifyAll];
    for (a, b) in (0..n).flat_map(|a| (a..n).map(move |b| (a, b))) {
        ops.extend([Op::Clear(a, b), Op::Drain(a, b), Op::RegroupAround(a, b)]);
        ops.extend([Op::SeekGap(a, b, End::Lowest), Op::SeekGap(a, b, End::Highest)]);
        if any || a == b {
            ops.push(Op::Insert(a, b));
        }
        if any {
            ops.push(Op::InsertMerging(a, b));
            ops.extend((0..n).flat_map(|at| [Op::Resize(at, (a, b)), Op::Revise(at, (a, b)), Op::Punch(at, (a, b))]));
        }
    }
    for at in 0..n {
        ops.extend([Op::Regroup(at, Side::Before), Op::Regroup(at, Side::Behind)]);
        ops.extend([Op::Keep(at), Op::Seek(at), Op::Modify(at), Op::Remove(at), Op::ReviseAway(at)]);
        if any {
            ops.extend([Op::SplitAt(at), Op::MergeAt(at)]);
        }
    }
    if any {
        ops.push(Op::Coalesce);
    }
    ops
}

/// The entry that holds cell `at`.
fn holds(list: &List, at: usize) -> Option<usize> {
    list.iter().position(|(a, b, _)| (*a..=*b).contains(&at))
}

fn at_or_after(list: &List, at: usize) -> Option<usize> {
    list.iter().position(|(_, b, _)| at <= *b)
}

fn clear(list: &mut List, (a, b): (usize, usize)) {
    *list = list
        .iter()
        .flat_map(|&(first, last, value)| {
            let left = (first < a).then(|| (first, last.min(a.wrapping_sub(1)), value));
            let right = (last > b).then(|| (first.max(b + 1), last, value));
            left.into_iter().chain(right)
        })
        .collect();
}

fn insert(list: &mut List, (a, b): (usize, usize), value: u8) {
    clear(list, (a, b));
    list.push((a, b, value));
    list.sort_unstable();
}

/// Whether the entry may have these bounds.
fn resize(list: &mut List, at: Option<usize>, (a, b): (usize, usize)) -> bool {
    let Some(at) = at else { return false };
    let (first, last, _) = list[at];
    let meets = |first: usize, last: usize| first <= b && a <= last;
    let others = list.iter().enumerate().any(|(i, e)| i != at && meets(e.0, e.1));
    if others || !meets(first, last) {
        return false;
    }
    (list[at].0, list[at].1) = (a, b);
    true
}

impl Op {
    /// Whether the operation is worth running. Others are refused for their arguments alone, or
    /// repeat another operation.
    fn applies(self, list: &List) -> bool {
        match self {
            // By the first cell of an entry, and by its last.
            Op::Resize(at, _) => list.iter().any(|e| e.0 == at || e.1 == at),
            Op::Punch(at, _) | Op::Revise(at, _) => {
                at_or_after(list, at).is_some_and(|i| list[i].0 >= at || list[i].1 == at)
            }
            _ => true,
        }
    }

    /// Runs the operation on both, and compares the results.
    fn run(self, map: &mut Map, list: &mut List, universe: &Universe) {
        let (key, span) = (|at: usize| universe.firsts[at], |cells| universe.span(cells));
        let shown = |e: (usize, usize, u8)| (span((e.0, e.1)), e.2);
        let fresh = list.iter().map(|e| e.2).max().unwrap_or(0).wrapping_add(1);
        match self {
            Op::Insert(a, b) => {
                map.insert(span((a, b)), fresh).unwrap();
                insert(list, (a, b), fresh);
            }
            Op::InsertMerging(a, b) => {
                let whole = map.insert_merging(span((a, b)), fresh, |_, _| true).unwrap();
                let first = a.checked_sub(1).and_then(|at| holds(list, at)).map_or(a, |i| list[i].0);
                let last = holds(list, b + 1).map_or(b, |i| list[i].1);
                assert_eq!(whole, span((first, last)));
                insert(list, (first, last), fresh);
            }
            Op::Clear(a, b) => {
                map.clear_range(span((a, b)), |_| {}).unwrap();
                clear(list, (a, b));
            }
            Op::Drain(a, b) => {
                map.drain(span((a, b))).unwrap().for_each(drop);
                clear(list, (a, b));
            }
            Op::Remove(at) => {
                let removed = holds(list, at).map(|i| list.remove(i));
                assert_eq!(map.remove(key(at)), removed.map(shown));
            }
            Op::Resize(at, to) => {
                let at_list = holds(list, at);
                assert_eq!(map.resize(key(at), span(to)).is_ok(), resize(list, at_list, to));
            }
            Op::Revise(at, to) => {
                let at_list = at_or_after(list, at);
                let went = map.revise(key(at), |_, _| Revision::Resize(span(to))).is_ok();
                assert_eq!(went, resize(list, at_list, to) || at_list.is_none());
            }
            Op::ReviseAway(at) => {
                map.revise(key(at), |_, _| Revision::Remove).unwrap();
                at_or_after(list, at).map(|i| list.remove(i));
            }
            Op::Punch(at, hole) => {
                map.revise(key(at), |_, _| Revision::Punch(span(hole))).unwrap();
                if at_or_after(list, at).is_some() {
                    clear(list, hole);
                }
            }
            Op::Keep(at) => {
                let mut seen = None;
                map.revise(key(at), |(span, value), next| {
                    seen = Some(((span, *value), next.map(|(span, value)| (span, *value))));
                    Revision::Keep
                })
                .unwrap();
                let i = at_or_after(list, at);
                assert_eq!(seen, i.map(|i| (shown(list[i]), list.get(i + 1).copied().map(shown))));
            }
            Op::SplitAt(at) => {
                let i = holds(list, at).filter(|i| list[*i].0 < at);
                assert_eq!(map.split_at(key(at)), Ok(i.is_some()));
                if let Some(i) = i {
                    let (_, last, value) = list[i];
                    list[i].1 = at - 1;
                    list.insert(i + 1, (at, last, value));
                }
            }
            Op::MergeAt(at) => {
                let right = holds(list, at).filter(|i| *i > 0 && list[*i - 1].1 + 1 == at);
                let merged = map.merge_at(key(at), |_, _| true);
                let gone = right.map(|i| list.remove(i));
                assert_eq!(merged, gone.map(|e| e.2));
                if let (Some(i), Some((_, last, _))) = (right, gone) {
                    list[i - 1].1 = last;
                }
            }
            Op::Seek(at) => {
                let found = map.seek(key(at)).map(|(span, value)| (span, *value));
                assert_eq!(found, at_or_after(list, at).map(|i| shown(list[i])));
            }
            Op::SeekGap(a, b, end) => {
                let query = GapQuery::new(1).within(span((a, b))).from(end);
                let gap = map.find_gap(&query);
                let found = map.seek_gap(&query).map(|(gap, next)| (gap, next.map(|(span, value)| (span, *value))));
                let behind = |gap: Span<u64>| list.iter().find(|e| key(e.0) > gap.last).copied().map(shown);
                assert_eq!(found, gap.map(|gap| (gap, behind(gap))));
            }
            Op::Modify(at) => {
                let i = holds(list, at);
                let there = map.get_mut(key(at)).map(|(_, value)| *value = fresh);
                assert_eq!(there.is_some(), i.is_some());
                if let Some(i) = i {
                    list[i].2 = fresh;
                }
            }
            Op::ModifyAll => {
                map.range_mut(Span::FULL).for_each(|(_, value)| *value = value.wrapping_add(1));
                list.iter_mut().for_each(|e| e.2 = e.2.wrapping_add(1));
            }
            Op::PopFirst => {
                let first = (!list.is_empty()).then(|| list.remove(0));
                assert_eq!(map.pop_first(), first.map(shown));
            }
            Op::PopLast => assert_eq!(map.pop_last(), list.pop().map(shown)),
            Op::Coalesce => {
                map.coalesce(Span::FULL, |_, _| true);
                let mut i = 1;
                while i < list.len() {
                    if list[i - 1].1 + 1 == list[i].0 {
                        list[i - 1].1 = list.remove(i).1;
                    } else {
                        i += 1;
                    }
                }
            }
            Op::Reserve => {
                map.reserve(2).unwrap();
                map.release();
            }
            Op::Regroup(at, side) => {
                if map.tree.regroup(key(at), side).unwrap() {
                    let i = holds(list, at).unwrap();
                    let next = if side == Side::Before { i - 1 } else { i + 1 };
                    let leaf = |i: usize| map.tree.find(key(list[i].0)).unwrap().0;
                    assert!(leaf(i) == leaf(next), "both are in one leaf now");
                }
            }
            Op::RegroupAround(a, b) => drop(map.tree.regroup_around(span((a, b))).unwrap()),
        }
    }
}

/// Asserts that the map is valid and holds the entries of the list.
fn compare(map: &Map, list: &List, universe: &Universe) {
    map.check().unwrap();
    let held = map.iter().map(|(span, value)| (span, *value));
    assert!(held.eq(list.iter().map(|e| (universe.span((e.0, e.1)), e.2))), "{map:?} is not {list:?}");
}

/// Runs every lookup on the map.
fn look(map: &Map, list: &List, universe: &Universe) {
    let entry = |i: usize| (universe.span((list[i].0, list[i].1)), &list[i].2);
    let mut runs = Vec::new();
    for at in 0..universe.cells() {
        let key = universe.firsts[at];
        assert_eq!(map.get(key), holds(list, at).map(entry));
        assert_eq!(map.at_or_after(key), at_or_after(list, at).map(entry));
        assert_eq!(map.at_or_before(key), list.iter().rposition(|e| e.0 <= at).map(entry));
        assert!(map.range_from(key).eq((0..list.len()).filter(|i| at <= list[*i].1).map(entry)));
        if holds(list, at).is_none() {
            match runs.last_mut() {
                Some((_, end)) if *end == at => *end = at + 1,
                _ => runs.push((at, at + 1)),
            }
        }
    }
    let within = universe.span((0, universe.cells() - 1));
    let free = |run: &(usize, usize)| universe.span((run.0, run.1 - 1));
    for a in 0..universe.cells() {
        for b in a..universe.cells() {
            let len = universe.firsts[b + 1] - universe.firsts[a];
            let wide = |run: &Span<u64>| run.last - run.first + 1 >= len;
            let (lowest, highest) = (runs.iter().map(free).find(wide), runs.iter().map(free).rfind(wide));
            let query = GapQuery::new(len).within(within);
            assert_eq!(map.find_gap(&query), lowest.map(|run| Span::new(run.first, run.first + len - 1)));
            let query = query.from(End::Highest);
            assert_eq!(map.find_gap(&query), highest.map(|run| Span::new(run.last + 1 - len, run.last)));
            if let Some(beside) = map.beside(universe.span((a, b))) {
                let behind = at_or_after(list, a).unwrap();
                assert!(list[behind].0 > b);
                assert_eq!(beside, [behind - 1, behind].map(entry));
            }
        }
    }
}

/// The state as a hash of 128 bits. Two of some million states have the same hash with a
/// probability of less than one in 10^24.
fn state(map: &Map) -> [u64; 2] {
    let tree = &map.tree;
    let mut words = vec![u64::from(tree.levels), u64::from(tree.thinned)];
    fn add(words: &mut Vec<u64>, at: Raw, level: usize) {
        // SAFETY: TREE-4: the node is live, and an inner node above level 0; only slots below its
        // length are read.
        unsafe {
            if level == 0 {
                let leaf = Leaf::<u64, u8, Tiny>::from_raw(at);
                words.push(1000 + 2 * leaf.len() as u64 + u64::from(leaf.is_wide()));
                words.extend((0..leaf.len()).flat_map(|i| [leaf.first(i), leaf.key(i)]));
            } else {
                let node = Inner::<u64, Tiny>::from_raw(at);
                words.push(2000 + node.len() as u64);
                (0..node.len()).for_each(|i| add(words, node.child(i), level - 1));
            }
        }
    }
    if let Some(root) = tree.root {
        add(&mut words, root, tree.height());
    }
    words.extend(tree.remembered());
    [1_u64, 2].map(|salt| {
        let mut hasher = DefaultHasher::new();
        (salt, &words).hash(&mut hasher);
        hasher.finish()
    })
}

fn twin(map: &Map) -> Map {
    RangeMap { tree: map.tree.twin() }
}

/// Runs an operation beside a snapshot, which must not change. Then looks at the map, first while
/// it may still share nodes, and again when it shares none.
fn beside_a_snapshot(map: &Map, list: &List, op: Op, universe: &Universe) {
    let (mut map, mut changed) = (twin(map), list.clone());
    let snapshot = map.snapshot();
    op.run(&mut map, &mut changed, universe);
    compare(&map, &changed, universe);
    compare(&snapshot, list, universe);
    drop(snapshot);
    for at in 0..universe.cells() {
        Op::Modify(at).run(&mut map, &mut changed, universe);
    }
    map.unshare(Span::FULL).unwrap();
    for at in 0..universe.cells() {
        Op::Seek(at).run(&mut map, &mut changed, universe);
        Op::Modify(at).run(&mut map, &mut changed, universe);
    }
    compare(&map, &changed, universe);
}

/// Returns the number of states, and of operations that were done.
fn explore(universe: &Universe) -> (usize, usize) {
    let operations = operations(universe);
    let mut known = HashSet::new();
    let mut left = vec![(Map::with_shape(), List::new())];
    if cfg!(miri) {
        // Miri is too slow for more than a few operations: on a full tree, and on what they leave.
        let (map, list) = &mut left[0];
        (0..universe.cells()).for_each(|at| Op::Insert(at, at).run(map, list, universe));
    }
    known.insert(state(&left[0].0));
    let mut done = 0;
    while let Some((map, list)) = left.pop() {
        look(&map, &list, universe);
        for op in operations.iter().filter(|op| op.applies(&list)).step_by(if cfg!(miri) { 7 } else { 1 }) {
            if cfg!(miri) && done == 20 {
                break;
            }
            let (mut next, mut changed) = (twin(&map), list.clone());
            op.run(&mut next, &mut changed, universe);
            compare(&next, &changed, universe);
            if changed != list || matches!(op, Op::Regroup(..)) {
                beside_a_snapshot(&map, &list, *op, universe);
            }
            done += 1;
            if known.insert(state(&next)) {
                left.push((next, changed));
            }
        }
    }
    let (cells, states) = (universe.cells(), known.len());
    std::println!("every tree of {cells} cells: {states} states, {done} operations");
    (states, done)
}

/// Explores this many cells of one key, and as many with a wide one in the middle.
fn both(cells: usize, entries: Entries) {
    explore(&Universe::dense(cells, entries));
    explore(&Universe::wide(cells, entries));
}

#[test]
fn every_tree_of_few_entries() {
    (if cfg!(miri) { 5 } else { 3 }..=5).for_each(|cells| both(cells, Entries::Any));
}

#[test]
fn every_tree_of_two_levels() {
    both(6, Entries::OneCell);
}

/// SAMARA_CELLS is the number of keys: `ci/long.sh tree` takes 12.
#[test]
#[cfg(all(feature = "long", not(miri)))]
fn every_tree_of_more_keys() {
    let cells = std::env::var("SAMARA_CELLS").map_or(9, |cells| cells.parse().unwrap());
    both(cells - 3, Entries::Any);
    both(cells, Entries::OneCell);
}
