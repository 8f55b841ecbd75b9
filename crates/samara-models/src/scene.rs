//! Scenes: the real map, threads that store to it and read it, and what each may see. This module
//! knows nothing of nodes: the crate's own `shadow` finds wrong accesses to them while the threads
//! run.

use crate::explore::explore;
use crate::history::{Entry, History, Look, Op, Seen, State, number};
use loom::thread;
use samara::testing::model::Run;
use samara::testing::set_refusal;
use samara::{
    AllocError, GapQuery, Quiescent, RangeMap, Reclaim, Shape, SharedRangeMap, SharedWriter, Span, WriteGuard,
    WriterUpdate,
};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

thread_local! {
    static VALUES: Cell<i64> = const { Cell::new(0) };
    /// Whether rebalancing is refused the copy of a shared neighbour, as where memory runs out.
    static REFUSES: Cell<bool> = const { Cell::new(false) };
}

/// A value: the number of the store that made it. All are counted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Value(u32);

impl Value {
    pub(crate) fn new(who: u32) -> Self {
        VALUES.set(VALUES.get() + 1);
        Value(who)
    }
}

impl Clone for Value {
    fn clone(&self) -> Self {
        Value::new(self.0)
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        VALUES.set(VALUES.get() - 1);
    }
}

/// What a thread does.
#[derive(Clone, Debug)]
pub(crate) enum Role {
    /// Stores through the write guard.
    WriteGuard(Vec<Op>),
    /// Stores through a `SharedWriter`, concurrent with others.
    Writer(Vec<Op>),
    /// Reads.
    Reader(Vec<Look>),
}

/// The stores of a role.
fn script(role: &Role) -> Option<&Vec<Op>> {
    match role {
        Role::WriteGuard(script) | Role::Writer(script) => Some(script),
        Role::Reader(_) => None,
    }
}

fn entry((span, value): (Span<u64>, &Value)) -> Entry {
    (span.first, span.last, value.0)
}

pub(crate) fn entries<S: Shape>(map: &RangeMap<u64, Value, S>) -> State {
    map.iter().map(entry).collect()
}

/// Applies a store to a plain map.
fn change<S: Shape>(map: &mut RangeMap<u64, Value, S>, op: &Op, who: u32) {
    match *op {
        Op::Insert(first, last) => map.insert(Span::new(first, last), Value::new(who)).unwrap(),
        Op::Clear(first, last) => map.clear_range(Span::new(first, last), |_| ()).unwrap(),
        Op::Remove(key) => drop(map.remove(key)),
        ref op => unimplemented!("{op:?} in an update"),
    }
}

fn store<R: Reclaim, S: Shape>(write: &mut WriteGuard<'_, u64, Value, R, S>, op: &Op, who: u32) {
    match *op {
        Op::Insert(first, last) => write.insert(Span::new(first, last), Value::new(who)).unwrap(),
        Op::Clear(first, last) => write.clear_range(Span::new(first, last), |_| ()).unwrap(),
        Op::Remove(key) => drop(write.remove(key).unwrap()),
        Op::Modify(key) => drop(write.modify(key, |value| value.0 = who).unwrap()),
        Op::Update(ref ops) => {
            let all = |map: &mut RangeMap<_, _, S>| {
                ops.iter().for_each(|op| change(map, op, who));
                Ok::<_, AllocError>(())
            };
            write.update(all).unwrap();
        }
        Op::ClearAll => write.clear().unwrap(),
        ref op => unimplemented!("{op:?} by the write guard"),
    }
}

fn store_by_writer<R: Reclaim, S: Shape>(writer: &mut SharedWriter<'_, u64, Value, R, S>, op: &Op, who: u32) {
    match *op {
        Op::Insert(first, last) => writer.insert(Span::new(first, last), Value::new(who)).unwrap(),
        Op::Clear(first, last) => writer.clear_range(Span::new(first, last), |_| ()).unwrap(),
        Op::Remove(key) => drop(writer.remove(key).unwrap()),
        Op::Modify(key) => drop(writer.modify(key, |value| value.0 = who).unwrap()),
        Op::Staged(key) => {
            let done = writer.stage(Span::new(key, key), &mut RangeMap::default(), |mut stage| {
                set(stage.copy(), key, who);
                stage.commit(|| ())
            });
            if done.unwrap() != Some(true) {
                writer.modify(key, |value| value.0 = who).unwrap();
            }
        }
        Op::PutBack(key) => {
            let mut copy = RangeMap::default();
            let kept = writer.stage(Span::new(key, key), &mut copy, |mut stage| {
                set(stage.copy(), key, who);
                stage.keep()
            });
            let kept = kept.unwrap().flatten();
            let mut reserved = writer.reserve(1, 1).unwrap();
            if !kept.is_some_and(|kept| reserved.put_back(&kept, &mut copy, || ())) {
                reserved.modify(key, |value| value.0 = who).unwrap();
            }
        }
        Op::Regroup(key) => drop(writer.regroup(Span::new(key, key)).unwrap()),
        Op::Move(key, first, last) => {
            let all = Span::new(key.min(first), key.max(last));
            let done = writer.stage(all, &mut RangeMap::default(), |mut stage| {
                stage.copy().resize(key, first..=last).unwrap();
                stage.commit(|| ())
            });
            if done.unwrap() != Some(true) {
                let moves = |map: &mut WriterUpdate<'_, _, _, S>| {
                    let (_, value) = map.remove(key).unwrap().unwrap();
                    map.insert(Span::new(first, last), value).unwrap();
                };
                writer.reserve(2, 1).unwrap().update(moves).unwrap();
            }
        }
        ref op => unimplemented!("{op:?} by a writer"),
    }
}

/// Sets the value of the entry that holds `key`.
fn set<S: Shape>(map: &mut RangeMap<u64, Value, S>, key: u64, who: u32) {
    map.get_mut(key).unwrap().1.0 = who;
}

fn look<R: Reclaim + Default, S: Shape>(map: &SharedRangeMap<u64, Value, R, S>, looks: &[Look]) -> Vec<Seen> {
    let reader = map.reader();
    let mut pinned = None;
    let mut seen = Vec::new();
    for look in looks {
        if let Look::Again = look {
            pinned = None;
        }
        let guard = pinned.get_or_insert_with(|| reader.pin());
        seen.push(match *look {
            Look::Get(key) => Seen::Get(guard.get(key).map(entry)),
            Look::Walk(first, last) => Seen::Walk(guard.range(Span::new(first, last)).map(entry).collect()),
            Look::WalkBack(first, last) => Seen::Walk(guard.range(Span::new(first, last)).rev().map(entry).collect()),
            Look::Gap(len, last) => {
                let found = guard.find_gap(&GapQuery::new(len).within(Span::new(0, last)));
                Seen::Gap(found.map(|span| (span.first, span.last)))
            }
            Look::Snapshot => {
                let mut snapshot = guard.snapshot();
                let whole = entries(&snapshot);
                for (first, ..) in whole.iter().take(2) {
                    snapshot.insert(Span::new(*first, *first), Value::new(0)).unwrap();
                }
                snapshot.check().unwrap();
                Seen::Whole(whole)
            }
            Look::SecondMap => Seen::Whole(second_map(map)),
            Look::Again => Seen::Nothing,
        });
    }
    seen
}

/// Makes another map of a snapshot, stores to it, and drops it. Returns what it showed at first.
fn second_map<R: Reclaim + Default, S: Shape>(map: &SharedRangeMap<u64, Value, R, S>) -> State {
    let snapshot = map.snapshot();
    let mut shown = entries(&snapshot);
    let first_shown = shown.clone();
    let second = SharedRangeMap::<_, _, R, S>::from_map(snapshot, R::default()).unwrap();
    let reader = second.reader();
    let pinned = reader.pin();
    let cursor = first_shown.first().map(|(first, ..)| (*first, pinned.cursor(*first)));
    let mut writer = second.writer().unwrap();
    for (at, op) in [Op::Insert(11, 11), Op::Clear(11, 11)].iter().enumerate() {
        store_by_writer(&mut writer, op, 1000 + at as u32);
        op.apply(&mut shown, 1000 + at as u32);
    }
    if let Some((first, cursor)) = cursor {
        let seen = cursor.current().map(entry);
        assert_eq!(seen.map(|entry| entry.0), Some(first), "what the cursor came to stays");
    }
    drop((writer, pinned));
    assert_eq!(entries(&second.snapshot()), shown, "the second map");
    second.write().check().unwrap();
    first_shown
}

/// The map at the start, and what each thread does.
pub(crate) struct Scene<S: Shape> {
    pub(crate) before: RangeMap<u64, Value, S>,
    pub(crate) roles: Vec<Role>,
}

/// The maximum number of words of the map's atomics that the threads of a scene access.
const WORDS: usize = 160;

/// What a thread has seen.
fn act<R: Reclaim + Default, S: Shape>(
    map: &SharedRangeMap<u64, Value, R, S>,
    role: &Role,
    writer: usize,
) -> Vec<Seen> {
    match role {
        Role::WriteGuard(script) => {
            for (i, op) in script.iter().enumerate() {
                store(&mut map.write(), op, number(writer, i));
            }
        }
        Role::Writer(script) => {
            let mut own = map.writer().unwrap();
            for (i, op) in script.iter().enumerate() {
                store_by_writer(&mut own, op, number(writer, i));
            }
        }
        Role::Reader(looks) => return look(map, looks),
    }
    Vec::new()
}

impl<S: Shape + Send + Sync + 'static> Scene<S> {
    /// Runs the scene in all interleavings with at most this many preemptions. Returns their
    /// number.
    pub(crate) fn play<R: Reclaim + Default + Send + Sync + 'static>(self, preemptions: Option<usize>) -> usize
    where
        R::Stamp: Send,
    {
        let Scene { before, roles } = self;
        let scripts: Vec<Vec<Op>> = roles.iter().filter_map(script).cloned().collect();
        let history = History::new(&entries(&before), &scripts);
        // The scripts commute: in reverse order they have the same result.
        let mut backwards = entries(&before);
        for (writer, script) in scripts.iter().enumerate().rev() {
            script.iter().enumerate().for_each(|(i, op)| op.apply(&mut backwards, number(writer, i)));
        }
        assert_eq!(&backwards, history.end(), "scripts that do not commute");
        // Which writer each role is.
        let roles: Arc<Vec<(Role, usize)>> = Arc::new(
            roles
                .iter()
                .enumerate()
                .map(|(i, role)| (role.clone(), roles[..i].iter().filter_map(script).count()))
                .collect(),
        );
        explore(preemptions, move || {
            let values = VALUES.get();
            let run = Run::begin();
            // A copy node by node, which keeps thin nodes thin.
            let map: SharedRangeMap<u64, Value, R, S> = SharedRangeMap::from_map(before.clone(), R::default()).unwrap();
            let map = Arc::new(map);
            run.threads(WORDS);
            let others: Vec<_> = (1..roles.len())
                .map(|i| {
                    let (map, roles) = (map.clone(), roles.clone());
                    thread::spawn(move || act(&map, &roles[i].0, roles[i].1))
                })
                .collect();
            let mut seen = vec![act(&map, &roles[0].0, roles[0].1)];
            seen.extend(others.into_iter().map(|thread| thread.join().unwrap()));
            run.alone();
            for ((role, _), seen) in roles.iter().zip(&seen) {
                if let Role::Reader(looks) = role {
                    history.explains(looks, seen);
                }
            }
            let mut write = map.write();
            write.check().unwrap();
            assert_eq!(&entries(&write), history.end(), "at the end");
            if R::default().batch() == 1 {
                assert_eq!(write.reclaim(), 0, "without readers, something waits to be freed");
            }
            drop(write);
            drop(map);
            drop(run);
            assert_eq!(VALUES.get(), values, "values that are not dropped, or dropped twice");
        })
    }
}

/// Plays a scene, and says which one it was if it fails.
pub(crate) fn naming(what: &str, play: impl FnOnce() -> usize) -> usize {
    catch_unwind(AssertUnwindSafe(play)).unwrap_or_else(|panic| {
        eprintln!("{what}");
        resume_unwind(panic)
    })
}

/// A map of this many entries, each of five keys in ten.
pub(crate) fn full<S: Shape>(entries: u64) -> RangeMap<u64, Value, S> {
    RangeMap::from_sorted((0..entries).map(|i| (Span::new(10 * i, 10 * i + 4), Value::new(i as u32)))).unwrap()
}

/// Runs `thin`, during which leaves that become thin stay so.
fn thinning<T>(thin: impl FnOnce() -> T) -> T {
    set_refusal(|| REFUSES.get());
    REFUSES.set(true);
    let thinned = thin();
    REFUSES.set(false);
    thinned
}

/// Removes all entries but those that are kept, one by one, each while a snapshot is alive.
/// Rebalancing does not touch neighbours.
pub(crate) fn thin_by_snapshots<S: Shape>(map: &mut RangeMap<u64, Value, S>, keep: impl Fn(u64) -> bool) {
    let all = entries(map);
    thinning(|| {
        for (first, ..) in all.into_iter().filter(|entry| !keep(entry.0 / 10)) {
            let before = map.snapshot();
            map.remove(first);
            drop(before);
        }
    });
    map.check().unwrap();
}

/// The same by updates of a shared map.
pub(crate) fn thin_by_updates<S: Shape>(
    map: RangeMap<u64, Value, S>,
    keep: impl Fn(u64) -> bool,
) -> RangeMap<u64, Value, S> {
    let all = entries(&map);
    // SAFETY: one thread, and no guards.
    let shared = SharedRangeMap::from_map(map, unsafe { Quiescent::new() }).unwrap();
    thinning(|| {
        for (first, ..) in all.into_iter().filter(|entry| !keep(entry.0 / 10)) {
            shared.write().update(|map| Ok::<_, AllocError>(map.remove(first))).unwrap();
        }
    });
    let map = shared.into_map();
    map.check().unwrap();
    map
}
