//! Runs a script on a shared map and on the reference map, and compares every answer: of a reader's
//! guard and of the write guard. Every other store goes through a `SharedWriter`.
//!
//! What the write guard has no operation for is done on a plain map, by `driver`, within
//! [`update`](samara::WriteGuard::update). Guards stay pinned while the script continues, each with
//! an iterator and a cursor; `history` knows what these may then show. One thread runs all of it:
//! other tests are about threads.
//!
//! Uses the public interface of the map only.

use crate::driver::{
    ALL, Difference, Outcome, Run, Stats, compare_lookup, compare_store, is_due, pair, same, same_entry, tidied, walk,
};
use crate::history::History;
use crate::interfaces::{Merges, Observe};
use crate::key::TestKey;
use crate::op::{Op, Shared, Verb, Walk};
use crate::open_iterators::OpenIterators;
use crate::reference_map::ReferenceMap;
use crate::value::Value;
use crate::verbs::{commit_all, cover, ends, insert_merging};
use samara::{
    AllocError, RangeMap, Reclaim, ReservedError, Shape, SharedGuard, SharedRangeMap, SharedReader, Span, WriteGuard,
};
use std::cell::Cell;
use std::{mem, thread};

/// Guards that are pinned at once, one within another.
const DEEPEST: usize = 3;

/// Snapshots that are kept at once.
const KEPT: usize = 3;

/// What a run of a shared map does.
#[derive(Debug)]
pub struct SharedOptions<R> {
    /// Makes the reclaimer.
    pub reclaim: fn() -> R,
    /// Whether guards stay pinned during stores.
    pub hold_guards: bool,
    /// Whether it takes snapshots, and calls `update`.
    pub take_snapshots: bool,
    /// Whether rebalancing is at times refused the copy of a shared neighbour, as where memory runs
    /// out. Then nodes stay thin.
    pub leave_thin_nodes: bool,
}

thread_local! { static REFUSES: Cell<bool> = const { Cell::new(false) }; }

/// Refuses rebalancing its copies, in this thread, until it is dropped or set otherwise.
struct Refusal;

impl Refusal {
    fn set(refuses: bool) {
        samara::testing::set_refusal(|| REFUSES.get());
        REFUSES.set(refuses);
    }
}

impl Drop for Refusal {
    fn drop(&mut self) {
        REFUSES.set(false);
    }
}

impl<R> Clone for SharedOptions<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for SharedOptions<R> {}

/// Runs `ops` on an empty shared map, compares every answer with the reference map's, and ends with
/// `check()` and, where live values are counted, with their count.
///
/// # Errors
/// The first difference.
pub fn run_shared<K: TestKey, V: Value + Send + Sync, R: Reclaim, S: Shape>(
    options: SharedOptions<R>,
    ops: &[Op<K>],
) -> Result<Stats, Difference> {
    let mut map = SharedRangeMap::with_reclaim((options.reclaim)());
    let mut run = SharedRun::<K, V, S> {
        reference: ReferenceMap { entries: Vec::new() },
        id: 0,
        live_before: V::live(),
        stats: Stats::default(),
        hold_guards: options.hold_guards,
        take_snapshots: options.take_snapshots,
        leave_thin_nodes: options.leave_thin_nodes,
        kept: Vec::new(),
        history: History::none(),
        depth: 0,
        unseen: 0,
    };
    let _refusal = Refusal;
    let mut script = ops.iter().enumerate();
    while let Some((index, op, inner)) = run.run_shared_ops(&Access::new(&map), &mut script)? {
        let at = |what: String| Difference { index, what: format!("{op:?}: {what}") };
        map = run.run_owned_ops(map, inner, (options.reclaim)()).map_err(at)?;
    }
    let at = |what| Difference { index: ops.len().saturating_sub(1), what: format!("at the end: {what}") };
    run.end(map).map_err(at)?;
    Ok(run.stats)
}

/// The rest of a script.
type Script<'a, K> = std::iter::Enumerate<std::slice::Iter<'a, Op<K>>>;

/// The map, and a registered reader.
struct Access<'m, K: TestKey, V, R: Reclaim, S: Shape> {
    map: &'m SharedRangeMap<K, V, R, S>,
    reader: SharedReader<'m, K, V, R, S>,
}

impl<'m, K: TestKey, V, R: Reclaim, S: Shape> Access<'m, K, V, R, S> {
    fn new(map: &'m SharedRangeMap<K, V, R, S>) -> Self {
        Access { map, reader: map.reader() }
    }
}

/// The state of a run: what the map must hold, and what is open.
struct SharedRun<K: TestKey, V, S: Shape> {
    reference: ReferenceMap<K>,
    /// The last value's number.
    id: u64,
    /// How many values were live before the run: a run that failed may have left some.
    live_before: Option<usize>,
    stats: Stats,
    hold_guards: bool,
    take_snapshots: bool,
    leave_thin_nodes: bool,
    /// Snapshots, and what they must hold.
    kept: Vec<(RangeMap<K, V, S>, ReferenceMap<K>)>,
    /// Since the outermost guard was pinned, if one is.
    history: History<K>,
    /// How many guards are pinned.
    depth: usize,
    /// Operations since everything was compared.
    unseen: usize,
}

/// Why an update returns an error.
enum Stop {
    Asked,
    Wrong(String),
}

impl From<AllocError> for Stop {
    fn from(error: AllocError) -> Self {
        Stop::Wrong(error.to_string())
    }
}

impl<K: TestKey, V: Value + Send + Sync, S: Shape> SharedRun<K, V, S> {
    fn next_id(&mut self) -> u64 {
        self.id += 1;
        self.id
    }

    /// Runs operations until the script is over or one of them needs the map owned. Returns that
    /// one, and the operations in it.
    #[expect(clippy::type_complexity)]
    fn run_shared_ops<'a, R: Reclaim>(
        &mut self,
        on: &Access<'_, K, V, R, S>,
        script: &mut Script<'a, K>,
    ) -> Result<Option<(usize, &'a Op<K>, &'a [Op<K>])>, Difference> {
        while let Some((index, op)) = script.next() {
            if let Op::Shared(Shared::Owned(inner)) = op {
                self.stats.count(self.reference.entries.len());
                return Ok(Some((index, op, inner)));
            }
            self.step(on, (index, op), script)?;
        }
        Ok(None)
    }

    /// Runs one operation; where it pins a guard, all operations until that guard is dropped.
    fn step<R: Reclaim>(
        &mut self,
        on: &Access<'_, K, V, R, S>,
        (index, op): (usize, &Op<K>),
        script: &mut Script<'_, K>,
    ) -> Result<(), Difference> {
        let at = |what: String| Difference { index, what: format!("{op:?}: {what}") };
        // In turns, so that a node stays thin for a while, and later stores may rebalance it.
        Refusal::set(self.leave_thin_nodes && index % 64 < 40);
        if let Op::Shared(Shared::Pin(window, key)) = op
            && self.hold_guards
            && self.depth < DEEPEST
        {
            self.stats.count(self.reference.entries.len());
            return self.pinned(on, (index, op), (*window, *key), script);
        }
        self.operate(on, op).map_err(at)?;
        same("len", &on.map.len(), &self.reference.entries.len()).map_err(at)?;
        same("is_empty", &on.map.is_empty(), &self.reference.entries.is_empty()).map_err(at)?;
        self.history.note(&self.reference);
        self.stats.count(self.reference.entries.len());
        self.unseen += 1;
        if is_due(self.unseen, self.reference.entries.len()) {
            self.compare(on).map_err(at)?;
        }
        Ok(())
    }

    /// Pins a guard, and runs the script until the guard is dropped.
    fn pinned<R: Reclaim>(
        &mut self,
        on: &Access<'_, K, V, R, S>,
        (mut index, mut op): (usize, &Op<K>),
        (window, key): (Span<K>, K),
        script: &mut Script<'_, K>,
    ) -> Result<(), Difference> {
        if self.depth == 0 {
            self.history = History::since(&self.reference);
        }
        self.depth += 1;
        // A guard protects even after its reader is dropped.
        let guard = on.map.reader().pin();
        let mut held = OpenIterators::new(&guard, (&self.reference, self.history.now()), window, key);
        while let Some(next) = script.next() {
            (index, op) = next;
            let done = match op {
                Op::Shared(Shared::Walk(turns)) => held.advance_walk(&self.history, *turns),
                Op::Shared(Shared::Steps(steps)) => held.advance_cursor((&self.reference, &self.history), steps),
                _ => Ok(()),
            };
            done.map_err(|what| Difference { index, what: format!("{op:?}: {what}") })?;
            self.step(on, next, script)?;
            if matches!(op, Op::Shared(Shared::Unpin)) {
                break;
            }
        }
        let done = held.finish(&self.history);
        self.depth -= 1;
        if self.depth == 0 {
            self.history = History::none();
        }
        self.stats.shown_after_change +=
            done.map_err(|what| Difference { index, what: format!("{op:?}, the end of a guard: {what}") })?;
        Ok(())
    }

    fn operate<R: Reclaim>(&mut self, on: &Access<'_, K, V, R, S>, op: &Op<K>) -> Outcome {
        match op {
            Op::Get(_)
            | Op::AtOrAfter(_)
            | Op::AtOrBefore(_)
            | Op::Iter(_)
            | Op::Range(..)
            | Op::FindGap(_)
            | Op::Cursor(..) => {
                compare_lookup(&on.reader.pin(), &self.reference, op, &mut self.stats)?;
                compare_lookup(&*on.map.write(), &self.reference, op, &mut self.stats)
            }
            Op::Gaps(window, turns) => {
                let want = self.reference.gaps(*window);
                walk(*turns, on.map.write().gaps(*window), &want, |got, want| same("gap", &got, &want))
            }
            Op::Insert(_) | Op::Replace(_) | Op::ClearRange(_) | Op::Remove(_) => {
                let id = self.next_id();
                if id.is_multiple_of(2) {
                    return compare_store(&mut on.map.write(), &mut self.reference, id, op, &mut self.stats);
                }
                let mut writer = on.map.writer().map_err(|error| error.to_string())?;
                compare_store(&mut writer, &mut self.reference, id, op, &mut self.stats)
            }
            Op::GetMut(key) => self.modify(&mut on.map.write(), *key),
            Op::Reserve(stores) => {
                let mut writer = on.map.writer().map_err(|error| error.to_string())?;
                writer.reserve(usize::from(*stores), 0).map(drop).map_err(|error| error.to_string())
            }
            Op::Release => {
                self.reclaim(on)?;
                on.map.write().release();
                Ok(())
            }
            Op::TryClone { .. } | Op::FromSorted { .. } | Op::Rebuild | Op::Clear => self.whole(on, op),
            Op::Verb(verb) => self.verb(on, verb),
            Op::Shared(shared) => self.shared(on, shared),
            Op::IterMut(_) | Op::RangeMut(..) | Op::CursorMut(..) | Op::SplitAt(_) => self.updated(on, op),
        }
    }

    fn verb<R: Reclaim>(&mut self, on: &Access<'_, K, V, R, S>, verb: &Verb<K>) -> Outcome {
        match verb {
            Verb::InsertMerging(span, left, right) => {
                let (id, mut write) = (self.next_id(), on.map.write());
                let store =
                    |value, merges: Merges<'_, K, V>, _: Observe<'_, K, V>| write.insert_merging(*span, value, merges);
                insert_merging(store, &mut self.reference, id, *span, (*left, *right), None)
            }
            Verb::Reserved(spans) => self.reserved(on, spans),
            Verb::Ends { pop_first, pop_last } => {
                ends(&on.reader.pin(), &self.reference)?;
                let (first, last) = (self.reference.entries.first(), self.reference.entries.last());
                let popped = [first.filter(|_| *pop_first), last.filter(|_| *pop_last)].map(|entry| entry.map(|e| e.0));
                popped.into_iter().flatten().try_for_each(|span| {
                    let id = self.next_id();
                    compare_store(
                        &mut on.map.write(),
                        &mut self.reference,
                        id,
                        &Op::Remove(span.last),
                        &mut self.stats,
                    )?;
                    self.history.note(&self.reference);
                    Ok(())
                })
            }
            Verb::Cover(window, key) => cover(&on.map.write(), &self.reference, *window, *key),
            _ => self.updated(on, &Op::Verb(verb.clone())),
        }
    }

    /// What only a plain map can do, in an update of its own.
    fn updated<R: Reclaim>(&mut self, on: &Access<'_, K, V, R, S>, op: &Op<K>) -> Outcome {
        if self.take_snapshots { self.update(on, std::slice::from_ref(op), false) } else { Ok(()) }
    }

    fn shared<R: Reclaim>(&mut self, on: &Access<'_, K, V, R, S>, shared: &Shared<K>) -> Outcome {
        let which = |which: u8, kept: usize| usize::from(which).checked_rem(kept);
        match shared {
            Shared::Snapshot { by_handle } if self.take_snapshots && self.kept.len() < KEPT => {
                let snapshot = if *by_handle { on.map.write().try_snapshot() } else { on.map.try_snapshot() };
                self.kept.push((snapshot.map_err(|error| error.to_string())?, self.reference.clone()));
            }
            Shared::StoreKept(which_one, span) => {
                if let Some(which) = which(*which_one, self.kept.len()) {
                    let id = self.next_id();
                    let (snapshot, reference) = &mut self.kept[which];
                    compare_store(snapshot, reference, id, &Op::Replace(*span), &mut self.stats)?;
                    return self.compare(on);
                }
            }
            Shared::SetKept(which_one) => {
                if let Some(which) = which(*which_one, self.kept.len()) {
                    let (snapshot, reference) = self.kept.swap_remove(which);
                    on.map.write().set(snapshot).map_err(|error| error.to_string())?;
                    self.reference = reference;
                    return self.compare(on);
                }
            }
            Shared::DropKept(which_one) => {
                which(*which_one, self.kept.len()).map(|which| self.kept.swap_remove(which));
            }
            Shared::Update { ops, fails } if self.take_snapshots => return self.update(on, ops, *fails),
            // Without a pinned guard, operations that need one do nothing.
            _ => {}
        }
        Ok(())
    }

    fn modify<R: Reclaim>(&mut self, write: &mut WriteGuard<'_, K, V, R, S>, key: K) -> Outcome {
        let (id, want) = (self.next_id(), self.reference.get(key));
        let mut was = None;
        let got = write.modify(key, |value| was = Some(mem::replace(value, V::make(id))));
        same("modify", &got, &Ok(want.is_some()))?;
        match (was, want) {
            (Some(was), Some((span, number))) => {
                same("modify is given the value", &was.is(number), &true)?;
                self.reference
                    .entries
                    .iter_mut()
                    .filter(|(other, _)| *other == span)
                    .for_each(|(_, number)| *number = id);
                Ok(())
            }
            (None, None) => Ok(()),
            (was, want) => Err(format!("modify: was given {was:?}, of {want:?}")),
        }
    }

    /// A removal and the stores through a reservation, and more than reserved. A snapshot in
    /// between changes nothing.
    fn reserved<R: Reclaim>(&mut self, on: &Access<'_, K, V, R, S>, spans: &[Span<K>]) -> Outcome {
        let first = self.id + 1;
        self.id += spans.len() as u64 + 1;
        let (stores, entries) = (spans.len() + 1, self.reference.entries.len() + 2 * spans.len());
        let mut writer = on.map.writer().map_err(|error| error.to_string())?;
        let mut commit = writer.reserve(stores, entries).map_err(|error| error.to_string())?;
        let key = spans.first().map_or(K::MIN, |span| span.first);
        let got = commit.remove(key).map_err(|error| error.to_string())?;
        same_entry("a reserved removal", pair(&got), self.reference.remove(key))?;
        self.history.note(&self.reference);
        if self.take_snapshots && self.kept.len() < KEPT && first.is_multiple_of(2) {
            self.kept.push((commit.map().snapshot(), self.reference.clone()));
        }
        let mut note = |reference: &_| self.history.note(reference);
        let made = commit_all!(commit, &mut self.reference, spans, first, ReservedError::EmptyRange, note);
        same("remaining", &commit.remaining(), &(spans.len() - made))?;
        while commit.remaining() > 0 {
            same("a reserved update", &commit.update(|_| ()), &Ok(()))?;
        }
        same("one too many", &commit.insert(Span::FULL, V::make(0)), &Err(ReservedError::UsedUp))?;
        same("one removal too many", &commit.remove(key).is_err(), &true)?;
        drop(commit);
        drop(writer);
        self.compare(on)
    }

    /// Operations that replace the whole map, or empty it.
    fn whole<R: Reclaim>(&mut self, on: &Access<'_, K, V, R, S>, op: &Op<K>) -> Outcome {
        let packs = self.next_id().is_multiple_of(2);
        let mut write = on.map.write();
        let done = match op {
            Op::Rebuild if packs => write.shrink_to_fit(),
            Op::TryClone { keep_copy } => match write.try_clone() {
                Ok(copy) if *keep_copy => write.set(copy),
                copy => copy.map(drop),
            },
            Op::Rebuild => {
                let copy = RangeMap::from_sorted(write.iter().map(|(span, value)| (span, value.clone())));
                write.set(copy.map_err(|error| format!("from_sorted of the map's own entries: {error}"))?)
            }
            Op::FromSorted { spans, tidy } => {
                let spans = if *tidy { tidied(spans) } else { spans.clone() };
                let first = self.id + 1;
                self.id += spans.len() as u64;
                let items = spans.iter().zip(first..).map(|(span, id)| (*span, V::make(id)));
                match (RangeMap::from_sorted(items), ReferenceMap::from_sorted(&spans, first)) {
                    (Ok(map), Ok(reference)) => {
                        self.reference = reference;
                        write.set(map)
                    }
                    (got, want) => return same("from_sorted", &got.err(), &want.err()),
                }
            }
            _ => {
                self.reference.entries.clear();
                write.clear()
            }
        };
        drop(write);
        same("result", &done, &Ok(()))?;
        self.compare(on)
    }

    /// Operations of a plain map, as one atomic update or not at all.
    fn update<R: Reclaim>(&mut self, on: &Access<'_, K, V, R, S>, ops: &[Op<K>], fails: bool) -> Outcome {
        let before = self.reference.clone();
        let done = on.map.write().update(|inner| {
            self.run_on_plain_map(inner, ops).map_err(Stop::Wrong)?;
            if self.hold_guards {
                is_whole(&on.reader.pin(), &before).map_err(|what| Stop::Wrong(format!("within an update: {what}")))?;
            }
            if fails { Err(Stop::Asked) } else { Ok(()) }
        });
        match done {
            Err(Stop::Wrong(what)) => return Err(what),
            Err(Stop::Asked) => self.reference = before,
            Ok(()) => same("an update that fails", &fails, &false)?,
        }
        self.compare(on)
    }

    /// Runs `ops` on a plain map that holds what the reference map does.
    fn run_on_plain_map(&mut self, map: &mut RangeMap<K, V, S>, ops: &[Op<K>]) -> Outcome {
        let reference = mem::replace(&mut self.reference, ReferenceMap { entries: Vec::new() });
        let mut run = Run { map: mem::take(map), reference, id: self.id, stats: self.stats };
        let done = ops.iter().try_for_each(|op| run.step(op).map_err(|what| format!("{op:?}: {what}")));
        let checked = run.compare();
        (*map, self.reference, self.id, self.stats) = (run.map, run.reference, run.id, run.stats);
        done.and(checked)
    }

    /// Turns the shared map into a plain one, runs the operations, and shares it again.
    fn run_owned_ops<R: Reclaim>(
        &mut self,
        map: SharedRangeMap<K, V, R, S>,
        ops: &[Op<K>],
        reclaim: R,
    ) -> Result<SharedRangeMap<K, V, R, S>, String> {
        let mut inner = map.into_map();
        self.run_on_plain_map(&mut inner, ops)?;
        let map = SharedRangeMap::from_map(inner, reclaim).map_err(|error| error.to_string())?;
        self.compare(&Access::new(&map))?;
        Ok(map)
    }

    /// Frees what no guard can see; without guards that is everything.
    fn reclaim<R: Reclaim>(&mut self, on: &Access<'_, K, V, R, S>) -> Outcome {
        let left = on.map.write().reclaim();
        same("pending", &on.map.pending(), &left)?;
        // Where tests hold guards, other threads may hold some too.
        if !self.hold_guards {
            same("what waits where there are no guards", &left, &0)?;
        }
        self.counted(left)
    }

    /// Where nothing waits for reclamation and no snapshot is kept, there are as many values as
    /// entries.
    fn counted(&self, left: usize) -> Outcome {
        match V::live().zip(self.live_before) {
            Some((live, before)) if left == 0 && self.kept.is_empty() => {
                same("values", &live, &(before + self.reference.entries.len()))
            }
            _ => Ok(()),
        }
    }

    /// Compares all entries as the write guard and a reader's guard show them, and all snapshots;
    /// `check()` passes.
    fn compare<R: Reclaim>(&mut self, on: &Access<'_, K, V, R, S>) -> Outcome {
        self.unseen = 0;
        let write = on.map.write();
        same("another write guard is refused", &on.map.try_write().is_err(), &true)?;
        is_owned(&write, &self.reference)?;
        drop(write);
        same("the write guard is free again", &on.map.try_write().is_ok(), &true)?;
        is_whole(&on.reader.pin(), &self.reference)?;
        let kept = self.kept.iter().try_for_each(|(snapshot, reference)| is_owned(snapshot, reference));
        kept.map_err(|what| format!("a snapshot: {what}"))
    }

    /// Frees everything that waits, and then the map.
    fn end<R: Reclaim>(&mut self, map: SharedRangeMap<K, V, R, S>) -> Outcome {
        self.compare(&Access::new(&map))?;
        self.kept.clear();
        while map.write().reclaim() > 0 {
            thread::yield_now(); // other threads have guards
        }
        self.counted(0)?;
        let map = map.into_map();
        is_owned(&map, &self.reference)?;
        self.counted(0)
    }
}

/// Compares all entries of a map.
fn is_owned<K: TestKey, V: Value, S: Shape>(map: &RangeMap<K, V, S>, reference: &ReferenceMap<K>) -> Outcome {
    map.check().map_err(|violation| format!("check(): {violation:?}"))?;
    same("len", &map.len(), &reference.entries.len())?;
    walk(ALL, map.iter(), &reference.entries, |got, want| same_entry("entry", Some(got), Some(want)))
}

/// Compares all entries that a guard shows, from both ends.
fn is_whole<K: TestKey, V: Value, R: Reclaim, S: Shape>(
    guard: &SharedGuard<'_, K, V, R, S>,
    reference: &ReferenceMap<K>,
) -> Outcome {
    for walked in [ALL, Walk { turns: u32::MAX, ..ALL }] {
        walk(walked, guard.iter(), &reference.entries, |got, want| same_entry("shown entry", Some(got), Some(want)))?;
    }
    Ok(())
}
