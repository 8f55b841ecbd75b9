//! Which rows the running kernel can run, and the comparison of its outcome with the row and with
//! the model.

use crate::judge;
use crate::machine::SUMS;
use crate::script::Row;
use crate::skip::skipped;
use crate::{kernel, model};
use std::sync::OnceLock;

/// Runs the rows on the kernel, and adds those that differ to `wrong`.
pub(crate) fn run_all(rows: &[Row], wrong: &mut Vec<String>) {
    let able = |row: &&Row| {
        let lacks = lacking().iter().find(|(needs, _)| needs(row));
        lacks.iter().for_each(|(_, what)| {
            skipped(format_args!("this kernel has no {what}: rows that need it"));
            println!("not played: {}", row.text);
        });
        lacks.is_none()
    };
    // Filling a process with areas takes long: one child runs all such rows.
    let (crowded, others): (Vec<&Row>, Vec<&Row>) = rows.iter().filter(able).partition(|row| has(row, "room"));
    let children = others.iter().map(std::slice::from_ref).chain([&crowded[..]]).filter(|rows| !rows.is_empty());
    let mut played = 0;
    for rows in children {
        let outs = kernel::run(rows).unwrap_or_else(|why| panic!("{}: {why}", rows[0].text));
        for (row, out) in rows.iter().zip(&outs) {
            if out.lacks {
                skipped("rows that need what this kernel lacks, or refuses this user");
                println!("not played: {}", row.text);
            } else {
                judge("kernel", row, out, wrong);
                let predicted = model::run(row).sums;
                // The areas of `room` count too, and mlockall locks all that the process has.
                let kinds = if has(row, "mlockall") { 3 } else { 4 };
                if !has(row, "room") && predicted[..kinds] != out.sums[..kinds] {
                    let text = format!("{SUMS:?}: the model {predicted:#x?}, the kernel {:#x?}", out.sums);
                    wrong.push(format!("{}\n  {text}", row.text));
                }
                played += 1;
            }
        }
    }
    println!("{played} of {} rows on the kernel", rows.len());
}

/// What this kernel lacks: which rows need it, and its name.
fn lacking() -> &'static [Lack] {
    static LACKING: OnceLock<Vec<Lack>> = OnceLock::new();
    LACKING.get_or_init(find_lacking)
}

type Needs = fn(&Row) -> bool;
type Lack = (Needs, &'static str);

fn find_lacking() -> Vec<Lack> {
    let all: [(Needs, _, (&str, &str)); 6] = [
        (|_| true, "PROCMAP_QUERY", ("rw 10-11", "10-11:rw")),
        (|r| has(r, "mv") || has(r, "mremap"), "mremap of 6.17", ("rw 10-11; r 11-12; mv 10-12 20", "20-21 21-22")),
        (|r| has(r, "droppable"), "MAP_DROPPABLE", ("rw+droppable 10-11", "10-11")),
        (|r| has(r, "guard-install"), "guard pages", ("rw 10-11; guard-install 10-11", "10-11")),
        (
            |r| has(r, "room") && moves(r),
            "room that mremap asked for before 7.1",
            ("room 7; rw 10-12; mv 10-12 20; mv 20-22 10; rw 30-31; mv 10-12 20 !ENOMEM", "10-12 30-31"),
        ),
        (|r| shows(r, "gu"), "sign of guard pages", ("rw 10-11; guard-install 10-11", "10-11{gu ac}")),
    ];
    let works = |(text, areas)| {
        let row = Row::parse(text, areas);
        kernel::run(&[&row]).is_ok_and(|out| !out[0].lacks && row.differs(&out[0]).is_none())
    };
    all.into_iter().filter(|(_, _, probe)| !works(*probe)).map(|(needs, what, _)| (needs, what)).collect()
}

/// Whether it moves memory.
fn moves(row: &Row) -> bool {
    ["mv", "keep", "dup", "resize", "mremap"].into_iter().any(|word| has(row, word))
}

/// Whether there is such a word in the script.
fn has(row: &Row, word: &str) -> bool {
    row.text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').any(|w| w == word)
}

/// Whether the row shows this flag.
fn shows(row: &Row, letters: &str) -> bool {
    row.areas.split(|c: char| !c.is_ascii_alphabetic()).any(|w| w == letters)
}
