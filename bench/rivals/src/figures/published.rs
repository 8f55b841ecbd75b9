//! What was published of each figure, as changes of speed in percent between two designs, or two
//! ways to do a thing. Belongs to their authors' machines.

use crate::figures::design::Design;
use crate::figures::figure::Figure;
use samara_bench::workloads::Case;

/// A change of speed that was published.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Of how many areas, where the figure has several sizes.
    pub at: Option<usize>,
    /// By how many workers.
    pub workers: usize,
    /// What was before.
    pub before: (Case, Design),
    /// What came after it.
    pub after: (Case, Design),
    /// The change of operations in the same time, in percent.
    pub percent: f64,
    /// What it is, in words.
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

/// What was published of a figure.
pub fn published(figure: Figure) -> Vec<Change> {
    let between = |case, at, percent, what| Change {
        at,
        workers: 1,
        before: (case, Design::Rbtree),
        after: (case, Design::Maple),
        percent,
        what,
    };
    match figure {
        Figure::RandomMaps => vec![
            between(Case::MunmapMmap, None, 100.0 * (20.0 / 56.0 - 1.0), "Linux 6.1 against 6.0: 56 s for 20 s"),
            between(Case::MunmapMmap, None, 100.0 * (20.0 / 70.0 - 1.0), "Linux 6.7 against 6.0: 70 s for 20 s"),
        ],
        Figure::Brk => vec![Change {
            workers: 2,
            ..between(Case::Brk, None, -33.73, "two processes, v5.17-rc3 with the maple tree")
        }],
        Figure::Fork => FORKS
            .map(|(areas, percent)| Change {
                at: Some(areas),
                workers: 1,
                before: (Case::ForkInsert, Design::Maple),
                after: (Case::ForkDup, Design::Maple),
                percent,
                what: "Linux 6.8: the tree duplicated, against areas inserted one by one",
            })
            .to_vec(),
        Figure::ForkBrk => vec![Change {
            at: None,
            workers: 1,
            before: (Case::ForkInsert, Design::Maple),
            after: (Case::ForkBrk, Design::Maple),
            percent: 94.7,
            what: "brk2 by processes, with the duplicated tree",
        }],
        Figure::Maps => Vec::new(),
    }
}
