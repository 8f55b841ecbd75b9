//! Tests against the running kernel. `SAMARA_MM_SEED` and `SAMARA_MM_OPS` choose other runs; a
//! failure prints the seed and a short sequence.

mod areas;
mod chosen;
mod features;
mod found;
mod threads;
mod unseen;

use crate::check::Abilities;
use crate::compare::{Sides, Verdict};
use crate::{Check, Mix};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// Both sides, if this kernel has what the mix needs.
fn sides(mix: Mix) -> Option<Sides> {
    let mut sides = Sides::new().expect("memory and files");
    let abilities = Abilities::of(&mut sides).expect("a process in which to make calls");
    match abilities.shapes(mix) {
        Ok(_) => Some(sides),
        Err(why) => {
            println!("skipped: {mix}: {why}");
            None
        }
    }
}

fn explore(mix: Mix, ops: u64) {
    let (seed, ops) = (setting("SAMARA_MM_SEED", 1), setting("SAMARA_MM_OPS", ops));
    if sides(mix).is_none() {
        return;
    }
    let report = Check { ops, seed, mixes: vec![mix] }.run(|_| ()).expect("a process in which to make calls");
    for (mix, why) in &report.skipped {
        println!("skipped: {mix}: {why}");
    }
    for divergence in &report.divergences {
        println!("{divergence}");
    }
    assert!(report.divergences.is_empty(), "model and kernel differ: above");
    assert_eq!(report.ops, report.compared);
    assert_eq!(report.ops, if report.mixes.is_empty() { 0 } else { ops });
    println!("{mix}: {} operations compared, no difference", report.compared);
}

#[test]
fn chosen_sequences() {
    let Some(mut with) = sides(Mix::Basic) else { return };
    let uffd = sides(Mix::Uffd).is_some();
    for case in chosen::CASES.iter().filter(|case| uffd || !case.contains("uffd")) {
        let verdict = with.differ(Mix::Basic.scope(), &chosen::parse(case)).expect("a process");
        assert_eq!(verdict, Verdict::Agree, "{case}");
    }
}

#[test]
fn basic() {
    explore(Mix::Basic, 8_000);
}

#[test]
fn remap() {
    explore(Mix::Remap, 4_000);
}

#[test]
fn forks() {
    explore(Mix::Forks, 6_000);
}

#[test]
fn locks() {
    explore(Mix::Locks, 6_000);
}

#[test]
fn files() {
    explore(Mix::Files, 4_000);
}

#[test]
fn registrations() {
    explore(Mix::Uffd, 3_000);
}

#[test]
fn errors() {
    explore(Mix::Errors, 3_000);
}

#[test]
fn stacks() {
    explore(Mix::Stacks, 3_000);
}

#[test]
fn at_the_limit() {
    explore(Mix::Limits, 1_600);
}

#[test]
fn heap() {
    explore(Mix::Heap, 3_000);
}

#[test]
fn calls() {
    explore(Mix::Calls, 4_000);
}

#[test]
fn unseen_writes() {
    explore(Mix::Unseen, 4_000);
}

#[test]
fn huge() {
    explore(Mix::Huge, 4_000);
}
