//! What a map should be: entries in a vector, and the operations of the models' threads on it.
//! Knows nothing of trees.

use std::fmt;

/// First and last key, and who stored it.
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
    /// Other bounds for the entry that holds the key.
    Move(u64, u64, u64),
    /// All at once, on a snapshot.
    Update(Vec<Op>),
    /// The whole map goes.
    ClearAll,
}

/// Takes what lies within the span out, and trims what reaches into it.
fn cut(state: &mut State, first: u64, last: u64) {
    let pieces = state.iter().flat_map(|&(from, to, who)| {
        let below = (from < first).then(|| (from, to.min(first - 1), who));
        let above = (to > last).then(|| (from.max(last + 1), to, who));
        [below, above]
    });
    *state = pieces.flatten().collect();
}

impl Op {
    /// Does it: `who` is what it stores.
    pub(crate) fn apply(&self, state: &mut State, who: u32) {
        match *self {
            Op::Insert(first, last) => {
                cut(state, first, last);
                state.push((first, last, who));
                state.sort_unstable();
            }
            Op::Clear(first, last) => cut(state, first, last),
            Op::Remove(key) => state.retain(|entry| !holds(entry, key)),
            Op::Modify(key) => state.iter_mut().filter(|entry| holds(entry, key)).for_each(|entry| entry.2 = who),
            Op::Move(key, first, last) => {
                let moved = state.iter_mut().filter(|entry| holds(entry, key));
                moved.for_each(|entry| (entry.0, entry.1) = (first, last));
            }
            Op::Update(ref ops) => ops.iter().for_each(|op| op.apply(state, who)),
            Op::ClearAll => state.clear(),
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

/// The lowest run of `len` keys up to `last` that is free in all of the states.
fn lowest_free(states: &[&State], len: u64, last: u64) -> Option<u64> {
    // It begins where the keys do, or behind an entry.
    let ends = states.iter().flat_map(|state| state.iter().map(|entry| entry.1 + 1));
    let mut starts: Vec<u64> = std::iter::once(0).chain(ends).filter(|at| at + (len - 1) <= last).collect();
    starts.sort_unstable();
    starts.into_iter().find(|&at| states.iter().all(|state| is_free(state, (at, at + len - 1))))
}

/// What a reader looks for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Look {
    Get(u64),
    /// What meets a window, ascending.
    Walk(u64, u64),
    /// The same from the back.
    WalkBack(u64, u64),
    /// The lowest run of so many free keys up to a key.
    Gap(u64, u64),
    /// A snapshot, all of it. It is then written to, which nobody else may see.
    Snapshot,
    /// The guard is dropped, and there is another one.
    Again,
}

/// What it found.
#[derive(Clone, Debug)]
pub(crate) enum Seen {
    Get(Option<Entry>),
    Walk(Vec<Entry>),
    Gap(Option<(u64, u64)>),
    Whole(State),
    Nothing,
}

/// How far each writer's script has come.
type Moment = Vec<usize>;

/// What the map was at each moment that there may have been: every number of steps of every script.
/// Scripts of different writers come to the same in any order.
pub(crate) struct History {
    moments: Vec<(Moment, State)>,
}

impl History {
    /// From a state on, by these scripts, whose stores are numbered as [`number`] says.
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

    /// What is there at the end.
    pub(crate) fn end(&self) -> &State {
        &self.moments[self.moments.len() - 1].1
    }

    /// Fails unless a reader may have seen this, one after the other, while the writers went on.
    pub(crate) fn explains(&self, looks: &[Look], seen: &[Seen]) {
        assert_eq!(looks.len(), seen.len());
        let mut may: Vec<&(Moment, State)> = self.moments.iter().collect();
        for (look, found) in looks.iter().zip(seen) {
            // Everything that may be now or come: what is no instant may be made of several.
            let states: Vec<&State> = may.iter().map(|moment| &moment.1).collect();
            let wrong = |what: &str| -> ! { panic!("{what}: {look:?} found {found:?}, of {states:?}") };
            let instant: Box<dyn Fn(&State) -> bool> = match (look, found) {
                (Look::Get(key), Seen::Get(entry)) => Box::new(move |state| get(state, *key) == *entry),
                (Look::Snapshot, Seen::Whole(whole)) => Box::new(move |state| state == whole),
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
                        // Who finds none has come to what took it, where something has taken all.
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

/// What a writer's store of this number puts into the map. Smaller numbers are of entries that were
/// there before.
pub(crate) fn number(writer: usize, store: usize) -> u32 {
    1000 * (writer as u32 + 1) + store as u32
}
