//! Threads: an order is found for what they did, and none for what they did not.

use crate::op::{Op, PAGE, at, fd};
use crate::{Check, Mix, agree_threads};

#[test]
fn every_history_has_an_order() {
    if super::sides(Mix::Threads).is_none() {
        return;
    }
    let (seed, ops) = (super::setting("SAMARA_MM_SEED", 1), super::setting("SAMARA_MM_OPS", 12_000));
    let report = Check { ops, seed, mixes: vec![Mix::Threads] }.run(|_| ()).expect("a process in which to make calls");
    for divergence in &report.divergences {
        println!("{divergence}");
    }
    println!("{:?}", report.mixes);
    assert!(report.divergences.is_empty(), "no order explains what threads did: above");
    let of = &report.mixes[0];
    assert!(of.overlapped > 20, "calls met: {of:?}");
}
