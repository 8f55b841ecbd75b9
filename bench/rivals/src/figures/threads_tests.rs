//! Each design does each workload of threads, asserts its answers and gives each row.

use super::run;
use crate::figures::design::Design;
use crate::suite_args::chosen;
use samara_bench::workloads::Effort;
use samara_bench::workloads::threads::Case;

#[test]
fn each_design_has_each_row() {
    for case in chosen::<Case>(&[]) {
        for design in chosen::<Design>(&[]) {
            for threads in [1, 3] {
                let rows = run(design, case, 40, threads, Effort { count: 300, seed: 7 });
                assert_eq!(rows.is_none(), design == Design::Kernel);
                let rows = rows.unwrap_or_else(|| vec![1.0; case.rows().len()]);
                assert_eq!(rows.len(), case.rows().len(), "{case:?} {design:?}");
                assert!(rows.iter().all(|row| *row > 0.0 && row.is_finite()), "{case:?} {design:?}: {rows:?}");
            }
        }
    }
}
