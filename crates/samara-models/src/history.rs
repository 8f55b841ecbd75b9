//! What a map must hold and readers may see: entries in a vector, and the operations of the models'
//! threads on it. Knows nothing of trees.

use std::fmt;

/// First key, last key, and the number of the store.
pub(crate) type Entry = (u64, u64, u32);
/// All entries, ascending.
pub(crate) type State = Vec<Entry>;

/// A store.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Insert(u64, u64),
    Clear(u64, u64),
    Remove(u64),
    Modify(u64),
    /// As `Modify`, by a stage that is committed.
    Staged(u64),
    /// As `Modify`, by a stage that is kept, and put back where no store came meanwhile.
    PutBack(u64),
    /// The entries around the key come to be in one leaf. Nothing that readers can see changes.
    Regroup(u64),
    /// New bounds for the entry that holds the key.
    Move(u64, u64, u64),
    /// All at once, as an update.
    Update(Vec<Op>),
    /// Removes everything.
    ClearAll,
}

/// Removes what lies within the range, and trims entries that extend into it.
fn cut(state: &mut State, first: u64, last: u64) {
    let pieces = state.iter().flat_map(|&(from, to, who)| {
        let below = (from < first).then(|| (from, to.min(first - 1), who));
        let above = (to > last).then(|| (from.max(last + 1), to, who));
        [below, above]
    });
    *state = pieces.flatten().collect();
}

impl Op {
    /// Applies the store, of the value `who`.
    pub(crate) fn apply(&self, state: &mut State, who: u32) {
        match *self {
            Op::Insert(first, last) => {
                cut(state, first, last);
                state.push((first, last, who));
                state.sort_unstable();
            }
            Op::Clear(first, last) => cut(state, first, last),
            Op::Remove(key) => state.retain(|entry| !holds(entry, key)),
            Op::Modify(key) | Op::Staged(key) | Op::PutBack(key) => {
                state.iter_mut().filter(|entry| holds(entry, key)).for_each(|entry| entry.2 = who)
            }
            Op::Move(key, first, last) => {
                let moved = state.iter_mut().filter(|entry| holds(entry, key));
                moved.for_each(|entry| (entry.0, entry.1) = (first, last));
            }
            Op::Update(ref ops) => ops.iter().for_each(|op| op.apply(state, who)),
            Op::ClearAll => state.clear(),
            Op::Regroup(_) => {}
        }
    }
}

fn holds(entry: &Entry, key: u64) -> bool {
    entry.0 <= key && key <= entry.1
}

pub(crate) fn get(state: &State, key: u64) -> Option<Entry> {
    state.iter().copied().find(|entry| holds(entry, key))
}

fn is_free(state: &State, (first, last): (u64, u64)) -> bool {
    state.iter().all(|entry| entry.1 < first || last < entry.0)
}

/// The lowest range of `len` keys up to `last` that is free in all of the states.
fn lowest_free(states: &[&State], len: u64, last: u64) -> Option<u64> {
    // It begins at the first key, or after an entry.
    let ends = states.iter().flat_map(|state| state.iter().map(|entry| entry.1 + 1));
    let mut starts: Vec<u64> = std::iter::once(0).chain(ends).filter(|at| at + (len - 1) <= last).collect();
    starts.sort_unstable();
    starts.into_iter().find(|&at| states.iter().all(|state| is_free(state, (at, at + len - 1))))
}

/// A read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Look {
    Get(u64),
    /// The entries that overlap a window, ascending.
    Walk(u64, u64),
    /// The same from the back.
    WalkBack(u64, u64),
    /// The lowest range of this many free keys up to a key.
    Gap(u64, u64),
    /// A snapshot, as a whole. It is then written to, which no other thread may see.
    Snapshot,
    /// Another shared map, made of a snapshot, as a whole. It is then stored to beside a reader of
    /// its own, which no thread of the first map may see.
    SecondMap,
    /// Drops the guard, and pins another one.
    Again,
}

/// What a read found.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    Get(Option<Entry>),
    Walk(Vec<Entry>),
    Gap(Option<(u64, u64)>),
    Whole(State),
    Nothing,
}

/// How many steps of each writer's script are done.
type Moment = Vec<usize>;

/// The state of the map at every possible moment: each number of steps of each script. Scripts of
/// different writers commute.
pub(crate) struct History {
    moments: Vec<(Moment, State)>,
}

impl History {
    /// The history from a state on, by these scripts, whose stores [`number`] numbers.
    pub(crate) fn new(before: &State, scripts: &[Vec<Op>]) -> Self {
        let mut moments = vec![(Vec::new(), before.clone())];
        for (writer, script) in scripts.iter().enumerate() {
            let mut more = Vec::new();
            for (moment, state) in moments {
                let mut state = state;
                for done in 0..=script.len() {
                    if done > 0 {
                        script[done - 1].apply(&mut state, number(writer, done - 1));
                    }
                    more.push(([&moment[..], &[done]].concat(), state.clone()));
                }
            }
            moments = more;
        }
        History { moments }
    }

    /// The state at the end.
    pub(crate) fn end(&self) -> &State {
        &self.moments[self.moments.len() - 1].1
    }

    /// Panics unless a reader can have seen this, in this order, while the writers continued.
    pub(crate) fn explains(&self, looks: &[Look], seen: &[Seen]) {
        assert_eq!(looks.len(), seen.len());
        let mut may: Vec<&(Moment, State)> = self.moments.iter().collect();
        for (look, found) in looks.iter().zip(seen) {
            // All states from now on: a read that is not atomic may combine several.
            let states: Vec<&State> = may.iter().map(|moment| &moment.1).collect();
            let wrong = |what: &str| -> ! { panic!("{what}: {look:?} found {found:?}, of {states:?}") };
            let instant: Box<dyn Fn(&State) -> bool> = match (look, found) {
                (Look::Get(key), Seen::Get(entry)) => Box::new(move |state| get(state, *key) == *entry),
                (Look::Snapshot | Look::SecondMap, Seen::Whole(whole)) => Box::new(move |state| state == whole),
                (Look::Walk(first, last) | Look::WalkBack(first, last), Seen::Walk(shown)) => {
                    let mut shown = shown.clone();
                    if matches!(look, Look::WalkBack(..)) {
                        shown.reverse();
                    }
                    if !shown.is_sorted_by(|a, b| a.1 < b.0) {
                        wrong("entries overlap, or do not ascend");
                    }
                    let meets = |entry: &Entry| entry.1 >= *first && entry.0 <= *last;
                    if !shown.iter().all(|entry| meets(entry) && states.iter().any(|state| state.contains(entry))) {
                        wrong("an entry that never was");
                    }
                    let throughout = states[0].iter().filter(|entry| states.iter().all(|state| state.contains(entry)));
                    if !throughout.filter(|entry| meets(entry)).all(|entry| shown.contains(entry)) {
                        wrong("an entry is missed");
                    }
                    Box::new(|_| true)
                }
                (Look::Gap(len, last), Seen::Gap(gap)) => {
                    let nearest = lowest_free(&states, *len, *last);
                    match *gap {
                        None if nearest.is_some() => wrong("a gap is missed"),
                        Some(gap) if !states.iter().any(|state| is_free(state, gap)) => wrong("never free"),
                        Some(gap) if nearest.is_some_and(|nearest| gap.0 > nearest) => wrong("a nearer gap is missed"),
                        // A search that finds no gap has seen the store that took the last one.
                        None if states.iter().any(|state| lowest_free(&[state], *len, *last).is_none()) => {
                            Box::new(|state| lowest_free(&[state], *len, *last).is_none())
                        }
                        _ => Box::new(|_| true),
                    }
                }
                (Look::Again, Seen::Nothing) => Box::new(|_| true),
                _ => wrong("another answer than was asked for"),
            };
            let now: Vec<&Moment> = may.iter().filter(|moment| instant(&moment.1)).map(|moment| &moment.0).collect();
            if now.is_empty() {
                wrong("no instant");
            }
            let later = |moment: &Moment| now.iter().any(|now| now.iter().zip(moment).all(|(now, then)| now <= then));
            may = may.iter().copied().filter(|moment| later(&moment.0)).collect();
        }
    }
}

impl fmt::Debug for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.moments.iter()).finish()
    }
}

/// The value that this store of this writer puts into the map. Smaller numbers are values of
/// entries that were there at the start.
pub(crate) fn number(writer: usize, store: usize) -> u32 {
    1000 * (writer as u32 + 1) + store as u32
}
