use super::{rows, shares};
use crate::figures::design::{Design, with_index};
use crate::spaces::rwlock::Number;
use crate::suite_args::{Named, chosen};
use samara_bench::workloads::Effort;

/// The steps sum up to the whole time, and each step of every pair takes some.
#[test]
fn shares_add_up() {
    for design in chosen::<Design>(&[]).filter(|design| design.is_index()) {
        let effort = Effort { count: 400, seed: 5 };
        let shares = with_index!(design, Number, I => shares::<I>(64, effort), Vec::new());
        let of = |name: &str| shares[rows().iter().position(|row| row == name).unwrap()];
        assert!((of("munmap") + of("mmap") - 100.0).abs() < 1e-6, "{}: {shares:?}", design.name());
        let steps: f64 = rows().iter().zip(&shares).filter(|(row, _)| row.contains(' ')).map(|(_, share)| share).sum();
        assert!((steps - 100.0).abs() < 1e-6, "{}: {shares:?}", design.name());
        // A munmap in one area finds it by the call that changes it.
        for row in ["munmap store", "munmap engine", "mmap gap", "mmap store", "mmap engine"] {
            assert!(of(row) > 0.0, "{} {row}: {shares:?}", design.name());
        }
        assert!(of("munmap gap") == 0.0, "munmap looks for no gap");
    }
}
