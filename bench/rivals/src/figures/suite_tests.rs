//! Every design does every workload that it has, and leaves the areas that samara leaves.

use super::by_model;
use crate::figures::design::{Design, with_index};
use crate::figures::figure::Figure;
use crate::figures::published::{Change, published};
use crate::figures::work::Work;
use crate::spaces::rwlock::Number;
use crate::suite_args::{Named, chosen};
use samara_bench::workloads::{Case, Effort};

/// The bounds of all areas, and how they are shown.
fn left_by(design: Design, case: Case, n: usize, effort: Effort) -> Option<String> {
    with_index!(design, Number, I => {
        by_model::<I>(design, case, n, effort).ok().map(|(nanos, space)| {
            assert!(nanos > 0.0, "{} took no time", case.name());
            space.check().unwrap();
            space.to_string()
        })
    }, None)
}

#[test]
fn all_leave_the_same() {
    for case in chosen::<Case>(&[]) {
        for n in [1, 2, 40, 700] {
            let effort = Effort { count: 300, seed: n as u64 };
            let expected = left_by(Design::Samara, case, n, effort).expect("samara does everything");
            for design in chosen::<Design>(&[]).filter(|design| design.is_index() && *design != Design::Samara) {
                match left_by(design, case, n, effort) {
                    Some(left) => assert_eq!(left, expected, "{} {n} {}", case.name(), design.name()),
                    None => assert_eq!(case, Case::ForkSnapshot, "{} does not do {}", design.name(), case.name()),
                }
            }
        }
    }
}

/// Each workload belongs to a figure.
#[test]
fn each_case_is_run() {
    let run: Vec<Work> = chosen::<Figure>(&[]).flat_map(Figure::parts).map(|part| part.work).collect();
    assert!(chosen::<Work>(&[]).all(|work| run.contains(&work)));
}

/// What was published is compared with rows that there are.
#[test]
fn what_was_published_is_measured() {
    for figure in chosen::<Figure>(&[]) {
        let parts = figure.parts();
        let has = |row: &str, change: &Change| {
            parts.iter().any(|part| {
                let at = change.at.is_none_or(|at| part.sizes.contains(&at));
                let by = part.workers.numbers().contains(&change.workers);
                at && by && part.work.rows().iter().any(|own| own.case == row)
            })
        };
        for change in published(figure) {
            let in_figure =
                has(change.after.0, &change) && (has(change.before.0, &change) || figure == Figure::ForkBrk);
            assert!(in_figure, "{change:?}");
        }
    }
}
