//! What Linux does, row by row: a script of calls and what they leave, which holds for the engine and, where there is one of 6.18 or so, for the running kernel. The
//! language of rows is told in `script`, the rows are in `rows`.
//!
//! What can only be asked of the engine is in `alone`.

mod alone;
mod engine;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
mod kernel;
mod machine;
mod rows;
mod script;

use script::Row;

/// Holds each row against the engine and the kernel, and tells all that differ.
fn both(rows: &[(&str, &str)]) {
    let rows: Vec<Row> = rows.iter().map(|(text, areas)| Row::parse(text, areas)).collect();
    let mut wrong = Vec::new();
    rows.iter().for_each(|row| judge("engine", row, &engine::run(row), &mut wrong));
    #[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
    on_the_kernel(&rows, &mut wrong);
    assert!(wrong.is_empty(), "{} differences\n{}", wrong.len(), wrong.join("\n"));
}

fn judge(who: &str, row: &Row, out: &machine::Outcome, wrong: &mut Vec<String>) {
    if let Some(got) = row.differs(out) {
        wrong.push(format!("the {who}: {}\n  expected {}\n  got      {got}", row.text, row.areas));
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
fn on_the_kernel(rows: &[Row], wrong: &mut Vec<String>) {
    let able = |row: &&Row| {
        let lacks = lacking().iter().find(|(needs, _)| needs(row));
        lacks.iter().for_each(|(_, what)| println!("skipped, this kernel has no {what}: {}", row.text));
        lacks.is_none()
    };
    // To fill a process with areas takes long: all such rows in one child.
    let (crowded, others): (Vec<&Row>, Vec<&Row>) = rows.iter().filter(able).partition(|row| row.has("room"));
    let children = others.iter().map(std::slice::from_ref).chain([&crowded[..]]).filter(|rows| !rows.is_empty());
    let mut played = 0;
    for rows in children {
        let outs = kernel::run(rows).unwrap_or_else(|why| panic!("{}: {why}", rows[0].text));
        for (row, out) in rows.iter().zip(&outs) {
            if out.lacks {
                println!("skipped, this kernel has no such thing, or not for this user: {}", row.text);
            } else {
                judge("kernel", row, out, wrong);
                played += 1;
            }
        }
    }
    println!("{played} of {} rows on the kernel", rows.len());
}

/// What this kernel lacks: which rows need it, and its name.
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
fn lacking() -> &'static [Lack] {
    static LACKING: std::sync::OnceLock<Vec<Lack>> = std::sync::OnceLock::new();
    LACKING.get_or_init(find_lacking)
}

#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
type Needs = fn(&Row) -> bool;
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
type Lack = (Needs, &'static str);

#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
fn find_lacking() -> Vec<Lack> {
    let all: [(Needs, _, (&str, &str)); 5] = [
        (|_| true, "PROCMAP_QUERY", ("rw 10-11", "10-11:rw")),
        (|r| r.has("mv") || r.has("mremap"), "mremap of 6.17", ("rw 10-11; r 11-12; mv 10-12 20", "20-21 21-22")),
        (|r| r.has("droppable"), "MAP_DROPPABLE", ("rw+droppable 10-11", "10-11")),
        (|r| r.has("guard-install"), "guard pages", ("rw 10-11; guard-install 10-11", "10-11")),
        (|r| r.shows("gu"), "sign of guard pages", ("rw 10-11; guard-install 10-11", "10-11{gu ac}")),
    ];
    let works = |(text, areas)| {
        let row = Row::parse(text, areas);
        kernel::run(&[&row]).is_ok_and(|out| !out[0].lacks && row.differs(&out[0]).is_none())
    };
    all.into_iter().filter(|(_, _, probe)| !works(*probe)).map(|(needs, what, _)| (needs, what)).collect()
}
