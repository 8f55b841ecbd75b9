//! Every design runs its workloads, and leaves the same areas as samara.

use super::{areas_of_each, by_model};
use crate::figures::design::{Design, with_index};
use crate::figures::figure::Figure;
use crate::figures::model::Model;
use crate::figures::published::{Change, published};
use crate::figures::work::Work;
use crate::spaces::rwlock::Number;
use crate::suite_args::{Named, chosen};
use samara::RangeMap;
use samara_bench::workloads::{self, Case, Effort};
use samara_mm::Area;

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

/// A size of a workload beyond is a number of areas: its things do not join.
#[test]
fn sizes_beyond_are_areas() {
    for part in Figure::Beyond.parts() {
        let Work::Alone(case) = part.work else { panic!("{:?} is no workload of one space", part.work) };
        let mut model = Model::<RangeMap<u64, Area<Number>>>::new(true);
        assert!(workloads::run(case, &mut model, 400, Effort { count: 1, seed: 3 }).is_some());
        let areas = model.into_space().len();
        let of_each = areas_of_each(part.work);
        assert!((350 * of_each..450 * of_each).contains(&areas), "{}: {areas} areas of 400", case.name());
    }
}

/// Each workload belongs to a figure.
#[test]
fn each_case_is_run() {
    let run: Vec<Work> = chosen::<Figure>(&[]).flat_map(Figure::parts).map(|part| part.work).collect();
    assert!(chosen::<Work>(&[]).all(|work| run.contains(&work)));
}

/// Published values refer to existing rows.
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
