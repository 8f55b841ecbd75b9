//! Does a script on a shared map and on the oracle, and compares every answer: through a guard, and
//! through the handle to write; every other store is a `SharedWriter`'s.
//!
//! What the handle has no verb for is done on a map of one owner, by `driver`, within
//! [`update`](samara::WriteGuard::update). Guards stay while the script goes on, each with
//! a walk and a cursor: `history` knows what these may show then. One thread does all of it; what
//! threads do to one another is for other tests.
//!
//! Knows the public face of the map only.

use crate::driver::{ALL, Difference, Outcome, Run, Stats, is_due, look, pair, same, same_entry, store, tidied, walk};
use crate::held::Held;
use crate::history::History;
use crate::key::TestKey;
use crate::op::{EntryStep, Op, Shared, Verb, Walk};
use crate::oracle::Naive;
use crate::value::Value;
use crate::verbs::{commit_all, cover, ends, insert_merging, merge_at, set_span};
use samara::{AllocError, RangeMap, Reclaim, Shape, SharedGuard, SharedRangeMap, SharedReader, Span, WriteGuard};
use std::cell::Cell;
use std::{mem, thread};

/// Guards that are held at once, each below the one before.
const DEEPEST: usize = 3;

/// Snapshots that are kept at once.
const KEPT: usize = 3;

/// How a shared map is driven.
#[derive(Debug)]
pub struct Sharing<R> {
    /// Makes a reclaimer.
    pub reclaim: fn() -> R,
    /// Whether guards are held over stores.
    pub holds: bool,
    /// Whether snapshots are taken, and `update` is called.
    pub shares: bool,
    /// Whether mending is now and then refused the copy of a shared neighbour, as where memory runs
    /// out: so nodes stay thin.
    pub thins: bool,
}

thread_local! { static REFUSES: Cell<bool> = const { Cell::new(false) }; }

/// Refuses mending its copies, in this thread, until it is dropped or told otherwise.
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

impl<R> Clone for Sharing<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Sharing<R> {}

/// Does `ops` on an empty shared map, compares every answer with the oracle's, and ends in
/// `check()` and a count of the values that live, where these are counted.
///
/// # Errors
/// The first difference.
pub fn run_shared<K: TestKey, V: Value + Send + Sync, R: Reclaim, S: Shape>(
    sharing: Sharing<R>,
    ops: &[Op<K>],
) -> Result<Stats, Difference> {
    let mut map = SharedRangeMap::with_reclaim((sharing.reclaim)());
    let mut beside = Beside::<K, V, S> {
        naive: Naive { entries: Vec::new() },
        id: 0,
        lived: V::live(),
        stats: Stats::default(),
        holds: sharing.holds,
        shares: sharing.shares,
        thins: sharing.thins,
        kept: Vec::new(),
        history: History::none(),
        depth: 0,
        unseen: 0,
    };
    let _refusal = Refusal;
    let mut script = ops.iter().enumerate();
    while let Some((index, op, inner)) = beside.run(&On::new(&map), &mut script)? {
        let at = |what: String| Difference { index, what: format!("{op:?}: {what}") };
        map = beside.alone(map, inner, (sharing.reclaim)()).map_err(at)?;
    }
    let at = |what| Difference { index: ops.len().saturating_sub(1), what: format!("at the end: {what}") };
    beside.end(map).map_err(at)?;
    Ok(beside.stats)
}

/// What is left of a script.
type Script<'a, K> = std::iter::Enumerate<std::slice::Iter<'a, Op<K>>>;

/// The map, and a reader's registration.
struct On<'m, K: TestKey, V, R: Reclaim, S: Shape> {
    map: &'m SharedRangeMap<K, V, R, S>,
    reader: SharedReader<'m, K, V, R, S>,
}

impl<'m, K: TestKey, V, R: Reclaim, S: Shape> On<'m, K, V, R, S> {
    fn new(map: &'m SharedRangeMap<K, V, R, S>) -> Self {
        On { map, reader: map.reader() }
    }
}

/// What the map shall hold, and what is kept beside it.
struct Beside<K: TestKey, V, S: Shape> {
    naive: Naive<K>,
    /// The last value's number.
    id: u64,
    /// How many values there were before, of a run that has failed.
    lived: Option<usize>,
    stats: Stats,
    holds: bool,
    shares: bool,
    thins: bool,
    /// Snapshots, and what they hold.
    kept: Vec<(RangeMap<K, V, S>, Naive<K>)>,
    /// Of the time since something was pinned, if it is.
    history: History<K>,
    /// How many guards are held.
    depth: usize,
    /// Operations since everything was compared.
    unseen: usize,
}

/// Why an update ends in an error.
enum Stop {
    Asked,
    Wrong(String),
}

impl From<AllocError> for Stop {
    fn from(error: AllocError) -> Self {
        Stop::Wrong(error.to_string())
    }
}

impl<K: TestKey, V: Value + Send + Sync, S: Shape> Beside<K, V, S> {
    fn next_id(&mut self) -> u64 {
        self.id += 1;
        self.id
    }

    /// Does operations until the script is over, or one of them needs the map alone: that one, and
    /// what it shall do.
    #[expect(clippy::type_complexity)]
    fn run<'a, R: Reclaim>(
        &mut self,
        on: &On<'_, K, V, R, S>,
        script: &mut Script<'a, K>,
    ) -> Result<Option<(usize, &'a Op<K>, &'a [Op<K>])>, Difference> {
        while let Some((index, op)) = script.next() {
            if let Op::Shared(Shared::Alone(inner)) = op {
                self.stats.count(self.naive.entries.len());
                return Ok(Some((index, op, inner)));
            }
            self.step(on, (index, op), script)?;
        }
        Ok(None)
    }

    /// Does one operation; where it pins something, all until that is let go.
    fn step<R: Reclaim>(
        &mut self,
        on: &On<'_, K, V, R, S>,
        (index, op): (usize, &Op<K>),
        script: &mut Script<'_, K>,
    ) -> Result<(), Difference> {
        let at = |what: String| Difference { index, what: format!("{op:?}: {what}") };
        // By turns, so that a node stays thin and is met again by stores that may mend it.
        Refusal::set(self.thins && index % 64 < 40);
        if let Op::Shared(Shared::Pin(window, key)) = op
            && self.holds
            && self.depth < DEEPEST
        {
            self.stats.count(self.naive.entries.len());
            return self.pinned(on, (index, op), (*window, *key), script);
        }
        self.operate(on, op).map_err(at)?;
        same("len", &on.map.len(), &self.naive.entries.len()).map_err(at)?;
        same("is_empty", &on.map.is_empty(), &self.naive.entries.is_empty()).map_err(at)?;
        self.history.note(&self.naive);
        self.stats.count(self.naive.entries.len());
        self.unseen += 1;
        if is_due(self.unseen, self.naive.entries.len()) {
            self.compare(on).map_err(at)?;
        }
        Ok(())
    }

    /// Pins, and goes on with the script until that is let go.
    fn pinned<R: Reclaim>(
        &mut self,
        on: &On<'_, K, V, R, S>,
        (mut index, mut op): (usize, &Op<K>),
        (window, key): (Span<K>, K),
        script: &mut Script<'_, K>,
    ) -> Result<(), Difference> {
        if self.depth == 0 {
            self.history = History::since(&self.naive);
        }
        self.depth += 1;
        // A guard protects whatever becomes of its registration.
        let guard = on.map.reader().pin();
        let mut held = Held::new(&guard, (&self.naive, self.history.now()), window, key);
        while let Some(next) = script.next() {
            (index, op) = next;
            let done = match op {
                Op::Shared(Shared::Walk(turns)) => held.walk_on(&self.history, *turns),
                Op::Shared(Shared::Steps(steps)) => held.step_on((&self.naive, &self.history), steps),
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
        self.stats.beside +=
            done.map_err(|what| Difference { index, what: format!("{op:?}, the end of a guard: {what}") })?;
        Ok(())
    }

    fn operate<R: Reclaim>(&mut self, on: &On<'_, K, V, R, S>, op: &Op<K>) -> Outcome {
        match op {
            Op::Get(_)
            | Op::AtOrAfter(_)
            | Op::AtOrBefore(_)
            | Op::Iter(_)
            | Op::Range(..)
            | Op::FindGap(_)
            | Op::Cursor(..) => {
                look(&on.reader.pin(), &self.naive, op, &mut self.stats)?;
                look(&*on.map.write(), &self.naive, op, &mut self.stats)
            }
            Op::Gaps(window, turns) => {
                let want = self.naive.gaps(*window);
                walk(*turns, on.map.write().gaps(*window), &want, |got, want| same("gap", &got, &want))
            }
            Op::Insert(_) | Op::Replace(_) | Op::ClearRange(_) | Op::Remove(_) | Op::SplitAt(_) => {
                let id = self.next_id();
                if id.is_multiple_of(2) {
                    return store(&mut on.map.write(), &mut self.naive, id, op, &mut self.stats);
                }
                let mut writer = on.map.writer().map_err(|error| error.to_string())?;
                store(&mut writer, &mut self.naive, id, op, &mut self.stats)
            }
            Op::GetMut(key) => self.modify(&mut on.map.write(), *key),
            Op::Reserve(stores) => {
                on.map.write().reserve(usize::from(*stores)).map(drop).map_err(|error| error.to_string())
            }
            Op::Release => {
                self.reclaim(on)?;
                on.map.write().release();
                Ok(())
            }
            Op::TryClone { .. } | Op::FromSorted { .. } | Op::Rebuild | Op::Clear => self.whole(on, op),
            Op::Verb(verb) => self.verb(on, verb),
            Op::Shared(shared) => self.shared(on, shared),
            Op::IterMut(_) | Op::RangeMut(..) | Op::CursorMut(..) => self.updated(on, op),
        }
    }

    fn verb<R: Reclaim>(&mut self, on: &On<'_, K, V, R, S>, verb: &Verb<K>) -> Outcome {
        match verb {
            Verb::InsertMerging(span, left, right) => {
                let id = self.next_id();
                insert_merging(&mut on.map.write(), &mut self.naive, id, *span, (*left, *right), &mut self.stats)
            }
            Verb::MergeAt(key, joins) => merge_at(&mut on.map.write(), &mut self.naive, *key, *joins),
            Verb::Entry(key, EntryStep::SetSpan(to)) => {
                let (mut write, held) = (on.map.write(), self.naive.get(*key).map(|(span, _)| span));
                let got = write.set_span(*key, *to);
                if let Ok(was) = got {
                    same("the range that it had", &Some(was), &held)?;
                }
                set_span(got.map(|_| ()), &mut self.naive, *key, *to)
            }
            Verb::Reserved(spans) => self.reserved(on, spans),
            Verb::Ends { pop_first, pop_last } => {
                ends(&on.reader.pin(), &self.naive)?;
                let (first, last) = (self.naive.entries.first(), self.naive.entries.last());
                let popped = [first.filter(|_| *pop_first), last.filter(|_| *pop_last)].map(|entry| entry.map(|e| e.0));
                popped.into_iter().flatten().try_for_each(|span| {
                    let id = self.next_id();
                    store(&mut on.map.write(), &mut self.naive, id, &Op::Remove(span.last), &mut self.stats)?;
                    self.history.note(&self.naive);
                    Ok(())
                })
            }
            Verb::Cover(window, key) => cover(&on.map.write(), &self.naive, *window, *key),
            _ => self.updated(on, &Op::Verb(verb.clone())),
        }
    }

    /// What only a map of one owner can do, in an update of its own.
    fn updated<R: Reclaim>(&mut self, on: &On<'_, K, V, R, S>, op: &Op<K>) -> Outcome {
        if self.shares { self.update(on, std::slice::from_ref(op), false) } else { Ok(()) }
    }

    fn shared<R: Reclaim>(&mut self, on: &On<'_, K, V, R, S>, shared: &Shared<K>) -> Outcome {
        let which = |which: u8, kept: usize| usize::from(which).checked_rem(kept);
        match shared {
            Shared::Snapshot { by_handle } if self.shares && self.kept.len() < KEPT => {
                let snapshot = if *by_handle { on.map.write().try_snapshot() } else { on.map.try_snapshot() };
                self.kept.push((snapshot.map_err(|error| error.to_string())?, self.naive.clone()));
            }
            Shared::StoreKept(which_one, span) => {
                if let Some(which) = which(*which_one, self.kept.len()) {
                    let id = self.next_id();
                    let (snapshot, naive) = &mut self.kept[which];
                    store(snapshot, naive, id, &Op::Replace(*span), &mut self.stats)?;
                    return self.compare(on);
                }
            }
            Shared::SetKept(which_one) => {
                if let Some(which) = which(*which_one, self.kept.len()) {
                    let (snapshot, naive) = self.kept.swap_remove(which);
                    on.map.write().set(snapshot).map_err(|error| error.to_string())?;
                    self.naive = naive;
                    return self.compare(on);
                }
            }
            Shared::DropKept(which_one) => {
                which(*which_one, self.kept.len()).map(|which| self.kept.swap_remove(which));
            }
            Shared::Update { ops, fails } if self.shares => return self.update(on, ops, *fails),
            // Those that need something that is pinned do without where nothing is.
            _ => {}
        }
        Ok(())
    }

    fn modify<R: Reclaim>(&mut self, write: &mut WriteGuard<'_, K, V, R, S>, key: K) -> Outcome {
        let (id, want) = (self.next_id(), self.naive.get(key));
        let mut was = None;
        let got = write.modify(key, |value| was = Some(mem::replace(value, V::make(id))));
        same("modify", &got, &Ok(want.is_some()))?;
        match (was, want) {
            (Some(was), Some((span, number))) => {
                same("it is given the value", &was.is(number), &true)?;
                self.naive.entries.iter_mut().filter(|(other, _)| *other == span).for_each(|(_, number)| *number = id);
                Ok(())
            }
            (None, None) => Ok(()),
            (was, want) => Err(format!("modify: was given {was:?}, of {want:?}")),
        }
    }

    /// A removal and the rest through a reservation, one more than reserved; a snapshot in between
    /// changes nothing.
    fn reserved<R: Reclaim>(&mut self, on: &On<'_, K, V, R, S>, spans: &[Span<K>]) -> Outcome {
        let first = self.id + 1;
        self.id += spans.len() as u64 + 1;
        let mut write = on.map.write();
        let mut commit = write.reserve(spans.len() + 1).map_err(|error| error.to_string())?;
        let key = spans.first().map_or(K::MIN, |span| span.first);
        let got = commit.remove(key).map_err(|error| error.to_string())?;
        same_entry("a reserved removal", pair(&got), self.naive.remove(key))?;
        self.history.note(&self.naive);
        if self.shares && self.kept.len() < KEPT && first.is_multiple_of(2) {
            self.kept.push((commit.map().snapshot(), self.naive.clone()));
        }
        commit_all!(commit, &mut self.naive, spans, first, |naive| self.history.note(naive));
        same("one removal too many", &commit.remove(key).is_err(), &true)?;
        drop(commit);
        drop(write);
        self.compare(on)
    }

    /// Operations that put another map in the place of all.
    fn whole<R: Reclaim>(&mut self, on: &On<'_, K, V, R, S>, op: &Op<K>) -> Outcome {
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
                match (RangeMap::from_sorted(items), Naive::from_sorted(&spans, first)) {
                    (Ok(map), Ok(naive)) => {
                        self.naive = naive;
                        write.set(map)
                    }
                    (got, want) => return same("from_sorted", &got.err(), &want.err()),
                }
            }
            _ => {
                self.naive.entries.clear();
                write.clear()
            }
        };
        drop(write);
        same("result", &done, &Ok(()))?;
        self.compare(on)
    }

    /// Operations of a map of one owner, as one instant or not at all.
    fn update<R: Reclaim>(&mut self, on: &On<'_, K, V, R, S>, ops: &[Op<K>], fails: bool) -> Outcome {
        let before = self.naive.clone();
        let done = on.map.write().update(|inner| {
            self.by_owner(inner, ops).map_err(Stop::Wrong)?;
            if self.holds {
                is_whole(&on.reader.pin(), &before).map_err(|what| Stop::Wrong(format!("within an update: {what}")))?;
            }
            if fails { Err(Stop::Asked) } else { Ok(()) }
        });
        match done {
            Err(Stop::Wrong(what)) => return Err(what),
            Err(Stop::Asked) => self.naive = before,
            Ok(()) => same("an update that fails", &fails, &false)?,
        }
        self.compare(on)
    }

    /// Does `ops` on a map of one owner that holds what the oracle does.
    fn by_owner(&mut self, map: &mut RangeMap<K, V, S>, ops: &[Op<K>]) -> Outcome {
        let naive = mem::replace(&mut self.naive, Naive { entries: Vec::new() });
        let mut run = Run { map: mem::take(map), naive, id: self.id, stats: self.stats };
        let done = ops.iter().try_for_each(|op| run.step(op).map_err(|what| format!("{op:?}: {what}")));
        let checked = run.compare();
        (*map, self.naive, self.id, self.stats) = (run.map, run.naive, run.id, run.stats);
        done.and(checked)
    }

    /// Gives the map to one owner, and shares it again.
    fn alone<R: Reclaim>(
        &mut self,
        map: SharedRangeMap<K, V, R, S>,
        ops: &[Op<K>],
        reclaim: R,
    ) -> Result<SharedRangeMap<K, V, R, S>, String> {
        let mut inner = map.into_map();
        self.by_owner(&mut inner, ops)?;
        let map = SharedRangeMap::from_map(inner, reclaim).map_err(|error| error.to_string())?;
        self.compare(&On::new(&map))?;
        Ok(map)
    }

    /// Frees what no guard sees: all, where there is none.
    fn reclaim<R: Reclaim>(&mut self, on: &On<'_, K, V, R, S>) -> Outcome {
        let left = on.map.write().reclaim();
        same("pending", &on.map.pending(), &left)?;
        // Where guards are held, those of other threads may be in the way.
        if !self.holds {
            same("what waits where there are no guards", &left, &0)?;
        }
        self.counted(left)
    }

    /// Where nothing waits and no snapshot is kept, each entry has a value and there are no others.
    fn counted(&self, left: usize) -> Outcome {
        match V::live().zip(self.lived) {
            Some((live, lived)) if left == 0 && self.kept.is_empty() => {
                same("values", &live, &(lived + self.naive.entries.len()))
            }
            _ => Ok(()),
        }
    }

    /// Compares all, as the handle shows it, as a guard does, and all snapshots; `check()` passes.
    fn compare<R: Reclaim>(&mut self, on: &On<'_, K, V, R, S>) -> Outcome {
        self.unseen = 0;
        let write = on.map.write();
        same("another handle is refused", &on.map.try_write().is_err(), &true)?;
        is_owned(&write, &self.naive)?;
        drop(write);
        same("the handle is there again", &on.map.try_write().is_ok(), &true)?;
        is_whole(&on.reader.pin(), &self.naive)?;
        let kept = self.kept.iter().try_for_each(|(snapshot, naive)| is_owned(snapshot, naive));
        kept.map_err(|what| format!("a snapshot: {what}"))
    }

    /// Frees all that waits, and then the map.
    fn end<R: Reclaim>(&mut self, map: SharedRangeMap<K, V, R, S>) -> Outcome {
        self.compare(&On::new(&map))?;
        self.kept.clear();
        while map.write().reclaim() > 0 {
            thread::yield_now(); // other threads have guards
        }
        self.counted(0)?;
        let map = map.into_map();
        is_owned(&map, &self.naive)?;
        self.counted(0)
    }
}

/// A map holds what it shall.
fn is_owned<K: TestKey, V: Value, S: Shape>(map: &RangeMap<K, V, S>, naive: &Naive<K>) -> Outcome {
    map.check().map_err(|violation| format!("check(): {violation:?}"))?;
    same("len", &map.len(), &naive.entries.len())?;
    walk(ALL, map.iter(), &naive.entries, |got, want| same_entry("entry", Some(got), Some(want)))
}

/// A guard shows what it shall, from both ends.
fn is_whole<K: TestKey, V: Value, R: Reclaim, S: Shape>(
    guard: &SharedGuard<'_, K, V, R, S>,
    naive: &Naive<K>,
) -> Outcome {
    for walked in [ALL, Walk { turns: u32::MAX, ..ALL }] {
        walk(walked, guard.iter(), &naive.entries, |got, want| same_entry("shown entry", Some(got), Some(want)))?;
    }
    Ok(())
}
