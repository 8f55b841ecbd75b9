//! The published values of each figure: changes of speed in percent between two designs or two
//! methods, measured on their authors' machines.

use crate::figures::design::Design;
use crate::figures::figure::Figure;

/// A change of speed that was published.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Number of areas, if the figure has several sizes.
    pub at: Option<usize>,
    /// Number of workers.
    pub workers: usize,
    /// The state before: a row and a design.
    pub before: (&'static str, Design),
    /// The state after.
    pub after: (&'static str, Design),
    /// The change of operations in the same time, in percent.
    pub percent: f64,
    /// A description.
    pub what: &'static str,
}

/// Changes of forks that duplicate, against forks that insert.
const FORKS: [(usize, f64); 11] = [
    (21, 2.19),
    (121, 8.92),
    (221, 19.88),
    (421, 34.64),
    (821, 42.37),
    (1621, 44.64),
    (3221, 48.28),
    (6421, 50.17),
    (12821, 51.68),
    (25621, 53.74),
    (51221, 52.42),
];

/// The published values of a figure.
pub fn published(figure: Figure) -> Vec<Change> {
    let between = |before, after, percent, what| Change { at: None, workers: 1, before, after, percent, what };
    let trees = |row, percent, what| between((row, Design::Rbtree), (row, Design::Maple), percent, what);
    let rows = |[before, after]: [_; 2], percent, what| {
        between((before, Design::Maple), (after, Design::Maple), percent, what)
    };
    match figure {
        Figure::RandomMaps => vec![
            trees("munmap_mmap", 100.0 * (20.0 / 56.0 - 1.0), "Linux 6.1 against 6.0: 56 s for 20 s"),
            trees("munmap_mmap", 100.0 * (20.0 / 70.0 - 1.0), "Linux 6.7 against 6.0: 70 s for 20 s"),
        ],
        Figure::Brk => vec![
            Change { workers: 2, ..trees("brk", -33.73, "two processes, v5.17-rc3 with the maple tree") },
            Change { workers: 2, ..trees("brk_threads", 119.14, "two threads, v5.17-rc3 with the maple tree") },
        ],
        Figure::Fork => FORKS
            .map(|(areas, percent)| Change {
                at: Some(areas),
                ..rows(
                    ["fork_insert", "fork_dup"],
                    percent,
                    "Linux 6.8: the tree duplicated, against areas inserted one by one",
                )
            })
            .to_vec(),
        Figure::Exit => vec![Change {
            at: Some(50),
            workers: 2,
            ..rows(["exit_each", "exit_eights"], 4.0, "execs by 20 processors, with batches of up to 8 at exit")
        }],
        Figure::ForkLinks => vec![Change {
            at: Some(50),
            workers: 2,
            ..rows(["fork_each", "fork_eights"], 7.0, "execs by 512 threads, with batches at fork: 2 to 7 %")
        }],
        Figure::Shards => vec![Change {
            workers: 2,
            ..between(
                ("rmap", Design::Maple),
                ("rmap", Design::Samara),
                400.0,
                "execl on 384 processors, tree and lock of a file in shards: more than 400 %",
            )
        }],
        Figure::ForkBrk => {
            vec![rows(["fork_insert_brk", "fork_brk"], 94.7, "brk2 by processes, with the duplicated tree")]
        }
        Figure::Threads => vec![Change {
            at: Some(1_024),
            workers: 2,
            ..between(
                ("allocate_fault_modify", Design::Maple),
                ("allocate_fault_modify", Design::RangeLockedSkiplist),
                1_200.0,
                "48 processors, range locks in a skip list against Linux 6.8: up to 13 times",
            )
        }],
        Figure::Maps | Figure::Exec | Figure::Readers | Figure::Beyond | Figure::Traces => Vec::new(),
    }
}
