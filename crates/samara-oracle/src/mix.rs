//! The mixes by name, and the shapes of their sequences.

use crate::draw::{Kind, Shape};
use samara_probe::child::Scope;
use samara_probe::op::{HUGE_PAGES, PAGES};
use std::fmt::{self, Display};
use std::str::FromStr;

/// A mix of calls: around what a run turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Mix {
    /// Mapping, unmapping, protecting, advising, policies: splits and merges.
    Basic,
    /// mremap for the most part.
    Remap,
    /// Memory that was written to, moved, and inherited through forks.
    Forks,
    /// Locks and seals, and everything else among them.
    Locks,
    /// Files: private, shared, duplicated, opened again, read-only.
    Files,
    /// Registrations with a userfaultfd.
    Uffd,
    /// Arguments that are wrong.
    Errors,
    /// Areas that grow down.
    Stacks,
    /// Resource limits, with and without privileges; near the limit of how many areas there may be.
    Limits,
    /// The heap's end, and what lies in its way.
    Heap,
    /// Calls that programs make seldom: System V segments, remap_file_pages, process_madvise,
    /// pkey_mprotect, msync, mincore, prctl.
    Calls,
    /// Memory in huge pages (hugetlbfs) while none is free: areas, and calls on whole pages and
    /// on parts of them.
    Huge,
    /// Places that the kernel chooses, foretold from the whole address space.
    Free,
    /// Memory that is written to, moved, and inherited. The model sees no writes and learns from
    /// the kernel's areas.
    Unseen,
    /// Threads that change one map at the same time, while others fault: some order of the calls
    /// explains it.
    Threads,
}

impl Mix {
    /// All of them.
    pub const ALL: [Mix; 15] = [
        Mix::Basic,
        Mix::Remap,
        Mix::Forks,
        Mix::Locks,
        Mix::Files,
        Mix::Uffd,
        Mix::Errors,
        Mix::Stacks,
        Mix::Limits,
        Mix::Heap,
        Mix::Calls,
        Mix::Huge,
        Mix::Free,
        Mix::Unseen,
        Mix::Threads,
    ];

    /// Its name, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Mix::Basic => "basic",
            Mix::Remap => "remap",
            Mix::Forks => "forks",
            Mix::Locks => "locks",
            Mix::Files => "files",
            Mix::Uffd => "uffd",
            Mix::Errors => "errors",
            Mix::Stacks => "stacks",
            Mix::Limits => "limits",
            Mix::Heap => "heap",
            Mix::Calls => "calls",
            Mix::Huge => "huge",
            Mix::Free => "free",
            Mix::Unseen => "unseen",
            Mix::Threads => "threads",
        }
    }

    pub(crate) fn scope(self) -> Scope {
        if self == Mix::Free { Scope::Whole } else { Scope::Window }
    }

    /// What its sequences are like, in turn.
    pub(crate) fn shapes(self) -> Vec<Shape> {
        let plain = Shape {
            kind: Kind::General,
            len: 40,
            pages: 24,
            seal: false,
            lock: false,
            lock_all: false,
            forks: false,
            odd: false,
            dontunmap: true,
            segments: false,
            merge_pages: false,
            heap: false,
            huge: false,
            uffd: false,
            fill: None,
        };
        let calls = Shape { segments: true, merge_pages: true, heap: true, ..plain };
        let locks = Shape { seal: true, lock: true, lock_all: true, ..plain };
        match self {
            Mix::Basic => {
                vec![plain, Shape { len: 60, pages: 7, ..plain }, Shape { len: 100, pages: 60, ..plain }]
            }
            Mix::Remap => {
                let few = Shape { kind: Kind::Remap, len: 60, pages: 10, ..plain };
                vec![few, Shape { len: 80, pages: 40, ..few }]
            }
            Mix::Forks => {
                let hot = Shape { kind: Kind::Hot, len: 120, pages: 8, forks: true, ..plain };
                let general = Shape { kind: Kind::General, len: 60, pages: 24, ..hot };
                let moves = Shape { kind: Kind::Moves, len: 60, pages: 30, ..hot };
                vec![hot, Shape { len: 300, pages: 16, ..hot }, general, moves]
            }
            Mix::Locks => {
                let few = Shape { kind: Kind::Locks, len: 60, pages: 12, ..locks };
                let all = Shape { kind: Kind::General, pages: 40, forks: true, odd: true, ..few };
                vec![few, Shape { pages: 40, ..few }, all]
            }
            Mix::Files => {
                let few = Shape { kind: Kind::Files, len: 80, pages: 8, forks: true, ..plain };
                vec![few, Shape { pages: 24, ..few }]
            }
            Mix::Uffd => {
                let few = Shape { kind: Kind::Uffd, len: 60, pages: 8, seal: true, lock: true, ..plain };
                vec![few, Shape { pages: 30, seal: false, lock: false, ..few }]
            }
            Mix::Errors => vec![Shape { kind: Kind::Errors, len: 80, odd: true, segments: true, ..locks }],
            Mix::Stacks => {
                let many = Shape { kind: Kind::Stacks, len: 60, pages: 900, ..plain };
                vec![many, Shape { lock: true, forks: true, pages: 500, ..many }]
            }
            Mix::Limits => {
                let near = Shape { len: 400, pages: 40, lock_all: false, fill: Some(14), ..locks };
                let limited = Shape { kind: Kind::Limited, len: 80, pages: 30, lock: true, ..calls };
                // Many of these go into the time of one of those.
                let mut shapes = [limited, Shape { lock: false, ..limited }].repeat(8);
                shapes.extend([near, Shape { fill: Some(20), ..near }]);
                shapes
            }
            Mix::Heap => {
                let few = Shape { kind: Kind::Heap, len: 60, pages: 20, forks: true, ..calls };
                vec![few, Shape { lock: true, lock_all: true, seal: true, ..few }, Shape { pages: 240, ..few }]
            }
            Mix::Calls => {
                let few = Shape { kind: Kind::Calls, len: 60, pages: 20, ..calls };
                let all = Shape { forks: true, lock: true, seal: true, odd: true, ..few };
                vec![few, all, Shape { pages: 60, len: 100, ..few }]
            }
            Mix::Huge => {
                let few = Shape { kind: Kind::Huge, len: 60, pages: 5 * HUGE_PAGES, huge: true, forks: true, ..plain };
                let all = Shape { pages: PAGES, len: 100, segments: true, ..few };
                let locks = Shape { seal: true, lock: true, lock_all: true, ..few };
                let own = Shape { forks: false, seal: true, uffd: true, ..few };
                let mut shapes = [few, locks, all, own].repeat(16);
                shapes.push(Shape { len: 300, lock_all: false, forks: false, uffd: true, fill: Some(14), ..locks });
                shapes
            }
            Mix::Free => vec![Shape { kind: Kind::Free, len: 200, segments: true, huge: true, ..plain }],
            // No locks: whether locked memory that was moved away with DONTUNMAP joins its copy
            // cannot be learnt.
            Mix::Unseen => {
                let moves = Shape { kind: Kind::Moves, len: 60, pages: 30, forks: true, ..plain };
                vec![moves, Shape { kind: Kind::Hot, pages: 8, ..moves }, Shape { kind: Kind::General, ..moves }]
            }
            // As many pages more than three as a round may have; its length is its own.
            Mix::Threads => vec![Shape { kind: Kind::Threads, pages: 8, seal: true, ..plain }],
        }
    }
}

impl Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// There is no mix of this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSuchMix(String);

impl Display for NoSuchMix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = Mix::ALL.iter().map(|mix| mix.name()).collect();
        write!(f, "there is no mix \"{}\"; there are {}", self.0, names.join(", "))
    }
}

impl std::error::Error for NoSuchMix {}

impl FromStr for Mix {
    type Err = NoSuchMix;
    fn from_str(name: &str) -> Result<Mix, NoSuchMix> {
        Mix::ALL.into_iter().find(|mix| mix.name() == name).ok_or_else(|| NoSuchMix(name.to_owned()))
    }
}
