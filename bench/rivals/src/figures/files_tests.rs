//! Each design does each workload on files and leaves the reverse maps empty; batches are as large
//! as they should be.

use super::run;
use crate::figures::design::Design;
use crate::figures::work::Work;
use crate::suite_args::chosen;
use samara_bench::workloads::Effort;
use samara_bench::workloads::files::{Case, SIZES};

const EFFORT: Effort = Effort { count: 20, seed: 7 };

#[test]
fn each_design_has_each_row() {
    for case in chosen::<Case>(&[]).filter(|case| *case != Case::Batches) {
        for design in chosen::<Design>(&[]).filter(|design| design.is_index()) {
            for workers in [1, 3] {
                let rows = run(design, case, 50, workers, EFFORT);
                assert_eq!(rows.len(), Work::Files(case).rows().len(), "{case:?} {design:?}");
                assert!(rows.iter().all(|row| *row > 0.0 && row.is_finite()), "{case:?} {design:?}: {rows:?}");
            }
        }
    }
}

/// Eight libraries of five areas, each with zeros behind it, and ten pieces of an archive.
#[test]
fn batches() {
    let rows = run(Design::Maple, Case::Batches, 50, 1, EFFORT);
    let by_way: Vec<&[f64]> = rows.chunks(SIZES.len()).collect();
    assert_eq!(by_way[0], [50.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(by_way[1], [0.0, 1.0, 0.0, 9.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(by_way[2], [0.0, 0.0, 0.0, 8.0, 1.0, 0.0, 0.0, 0.0]);
}
