//! Byte-range locks of one file, as `fcntl(F_SETLK)` has them: each process locks ranges for
//! reading or for writing, changes and unlocks any part of them, and touching locks of one kind are
//! one.
#![forbid(unsafe_code)]

use samara::{RangeMap, Span, StoreError};
use std::collections::BTreeMap;
use std::error;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Read,
    Write,
}

type Process = u32;

/// The lock that is in the way, as `F_GETLK` tells it.
#[derive(Debug, PartialEq)]
struct Conflict {
    owner: Process,
    span: Span,
    kind: Kind,
}

#[derive(Debug)]
enum Refused {
    Conflict(Conflict),
    Store(StoreError),
}

/// A map for each process: locks of one never overlap, read locks of two may.
#[derive(Default)]
struct Locks(BTreeMap<Process, RangeMap<u64, Kind>>);

impl Locks {
    /// The first lock of another process that `kind` over `span` would meet.
    fn conflict(&self, process: Process, span: Span, kind: Kind) -> Option<Conflict> {
        let others = self.0.iter().filter(|(owner, _)| **owner != process);
        others
            .filter_map(|(owner, locks)| {
                let (span, held) = locks.range(span).find(|(_, held)| kind == Kind::Write || **held == Kind::Write)?;
                Some(Conflict { owner: *owner, span, kind: *held })
            })
            .min_by_key(|conflict| conflict.span.first)
    }

    /// Locks `span`, over what the process holds there. One store: it is locked as a whole or not.
    fn lock(&mut self, process: Process, span: impl Into<Span>, kind: Kind) -> Result<Span, Refused> {
        let span = span.into();
        if let Some(conflict) = self.conflict(process, span, kind) {
            return Err(Refused::Conflict(conflict));
        }
        let locks = self.0.entry(process).or_default();
        locks.insert_merging(span, kind, |left, right| left.1 == right.1).map_err(Refused::Store)
    }

    /// Unlocks `span`: a lock that reaches out of it keeps the rest, on both sides.
    fn unlock(&mut self, process: Process, span: impl Into<Span>) -> Result<(), StoreError> {
        match self.0.get_mut(&process) {
            Some(locks) => locks.clear_range(span, |_| ()),
            None => Ok(()),
        }
    }
}

fn main() -> Result<(), Box<dyn error::Error>> {
    let mut locks = Locks::default();
    let free = |done: Result<Span, Refused>| done.expect("nothing is in the way");

    // Two readers share bytes; a third process may not write there.
    free(locks.lock(1, 0..=99, Kind::Read));
    free(locks.lock(2, 50..=149, Kind::Read));
    let refused = locks.lock(3, 140..=200, Kind::Write).unwrap_err();
    let Refused::Conflict(conflict) = refused else { panic!("{refused:?}") };
    assert_eq!(conflict, Conflict { owner: 2, span: Span::new(50, 149), kind: Kind::Read });

    // A touching lock of the same kind joins; one of another kind does not.
    assert_eq!(free(locks.lock(1, 100..=119, Kind::Read)), Span::new(0, 119));
    assert_eq!(free(locks.lock(1, 0..=9, Kind::Write)), Span::new(0, 9));
    assert_eq!(locks.0[&1].len(), 2);

    // Unlocking the middle leaves two locks, and room for others.
    locks.unlock(1, 40..=59)?;
    let left: Vec<Span> = locks.0[&1].spans().collect();
    assert_eq!(left, [Span::new(0, 9), Span::new(10, 39), Span::new(60, 119)]);
    assert!(locks.lock(3, 40..=49, Kind::Write).is_ok());

    // To the end of the file, wherever that will be: the highest key is an ordinary one.
    assert_eq!(free(locks.lock(3, 150..=u64::MAX, Kind::Write)), Span::new(150, u64::MAX));
    assert!(locks.lock(1, 1 << 40..=1 << 40, Kind::Read).is_err());

    // An empty range is an error, not a panic.
    assert!(matches!(locks.lock(1, Span::new(9, 8), Kind::Read), Err(Refused::Store(StoreError::EmptyRange(_)))));

    for (process, locks) in &locks.0 {
        println!("process {process}: {locks:?}");
    }
    Ok(())
}

#[test]
fn runs() {
    main().unwrap();
}
