//! The calls of each recording run again on the model: the plain run gives the trace's areas, and
//! rules that change nothing give the plain run.

use libtest_mimic::Failed;
use samara_record::Policy;
use samara_record::rerun::{Report, Rerun, Rule, Why};
use samara_trace::event::Event;

use crate::expect;

/// Programs with memory changes that no visible call makes (io_uring), beside visible calls.
const UNSEEN: [&str; 1] = ["unseen"];

/// Runs the calls again.
fn rerun(events: &[Event], rules: &[Rule]) -> Result<Report, Failed> {
    let mut rerun = Rerun::new(4096, rules, None)?;
    for event in events {
        rerun.apply(event)?;
    }
    Ok(rerun.report())
}

/// Each call is reproduced: holds for every recording.
pub(crate) fn reproduces(name: &str, events: &[Event]) -> Result<Report, Failed> {
    let report = rerun(events, &[Rule::Limit(1 << 30)])?;
    let all = &report.agreement;
    let others: u64 = all.others.values().sum();
    expect(&format!("every call counts once: {all:?}"), all.calls == all.agree + all.written + others)?;
    let differ = all.others.get(&Why::Differs).copied().unwrap_or(0) + all.others.get(&Why::Wide).copied().unwrap_or(0);
    expect(&format!("each call is reproduced: {all:?}"), differ == 0 || UNSEEN.contains(&name))?;
    Ok(report)
}

/// Holds for a recording unless calls that move memory overlap its forks. In that case other rules,
/// even if they change nothing, may join areas that the plain run keeps apart.
pub(crate) fn replays(name: &str, events: &[Event]) -> Result<(), Failed> {
    let report = reproduces(name, events)?;
    let all = &report.agreement;
    let Some((figures, changes)) = &report.changed else { return expect("a run by other rules", false) };
    expect(&format!("the same: {:?} {figures:?}", report.plain), *figures == report.plain)?;
    let odd = changes.succeed_now + changes.left_out + changes.not_followed;
    expect(&format!("nothing has changed: {changes:?}"), odd == 0 && changes.fail_now.is_empty())?;
    let rules =
        [Rule::NoGuardPages, Rule::SameName, Rule::Align(2 << 20), Rule::Batch(4), Rule::Policy(Policy::FirstFit)];
    for rules in rules.iter().map(std::slice::from_ref).chain([&rules[..]]) {
        let report = rerun(events, rules)?;
        expect(&format!("{rules:?}: {report:?}"), report.agreement == *all && report.changed.is_some())?;
    }
    Ok(())
}
