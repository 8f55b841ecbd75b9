//! Tests: screens of surveys that the command's tests do not reach.

use super::*;
use samara_trace::event::AreaRecord;
use samara_trace::survey::Known;

fn area(start: u64, pages: u64, perms: u8) -> AreaRecord {
    AreaRecord {
        start: start << 12,
        end: (start + pages) << 12,
        perms,
        offset: 0,
        dev: (0, 0),
        inode: 0,
        name: String::new(),
        apart: String::new(),
    }
}

#[test]
fn the_limit_is_told() {
    let survey = |n: u64| Survey::of(&(0..n).map(|i| area(16 + 2 * i, 1, 3)).collect::<Vec<_>>(), Known::All);
    let row = |n, limit| anstream::adapter::strip_str(&areas(&survey(n), limit)).to_string();
    assert_eq!(row(10, None), "10, 40 KiB mapped");
    assert_eq!(row(10, Some(100)), "10, 90 more until vm.max_map_count (100), 40 KiB mapped");
    let full = "the limit is reached: every call that adds an area fails with ENOMEM";
    let last = "the limit is reached: one more map works, and calls that cut an area fail with ENOMEM";
    assert_eq!(row(100, Some(100)), format!("100, {last}, 400 KiB mapped"));
    assert_eq!(row(101, Some(100)), format!("101, {full}, 404 KiB mapped"));
}

/// Of areas that were there when the recording began, something else may keep these apart too.
#[test]
fn what_was_not_recorded_has_no_figure() {
    let apart = |at: u64, perms: u8, apart: &str| AreaRecord { apart: apart.into(), ..area(at, 1, perms) };
    let areas = [apart(16, 3, ""), apart(17, 3, "not-recorded"), apart(18, 1, "protection")];
    let rows = |known| {
        let survey = Survey::of(&areas, known);
        boundaries(&survey.boundaries, survey.known).into_iter().map(|row| row.trim().to_owned()).collect::<Vec<_>>()
    };
    let not_recorded = "1 by not-recorded (for example a memory policy, or pages that were written or moved before)";
    let late = "1 by protection; without it at most 1 area fewer; first at 12000".to_owned();
    assert_eq!(rows(Known::Late), [format!("{not_recorded}; first at 11000"), late]);
    assert_eq!(rows(Known::All)[1], "1 by protection; without it 1 area fewer; first at 12000");
}

#[test]
fn changes_are_those_of_groups() {
    let before = Survey::of(&[area(16, 1, 3), area(20, 1, 1), area(30, 1, 0)], Known::All);
    let now = Survey::of(&[area(16, 1, 3), area(20, 2, 1), area(40, 1, 3), area(50, 4, 3)], Known::All);
    assert_eq!(
        changes(&before, &now),
        ["     +2 rw-p  anonymous: +20 KiB", "     -1 ---p  anonymous: -4 KiB", "      0 r--p  anonymous: +4 KiB"]
    );
    assert!(changes(&now, &now).is_empty());
}
