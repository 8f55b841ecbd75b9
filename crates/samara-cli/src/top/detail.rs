//! All details of one row of a table, as lines. Knows neither the terminal nor the source of
//! events.

use anstream::adapter::strip_str;

use super::state::State;
use super::view::Key;
use crate::format::{bytes, count, plural, time};
use crate::output::clean;
use crate::{call_arguments, line, survey, why};

/// Places of a call that are named.
const PLACES: usize = 20;

/// The lines; `None` if the state does not have the row's subject any more.
pub(crate) fn lines(state: &State, now_ns: u64, key: &Key) -> Option<Vec<String>> {
    match key {
        Key::Call(name) => call(state, now_ns, name),
        Key::Place(number) => place(state, now_ns, *number),
        Key::Verdict(..) => verdict(state, key),
        Key::Slow(seq) => slow(state, now_ns, *seq),
        Key::Boundary(reason) => boundary(state, reason),
    }
}

fn call(state: &State, now_ns: u64, name: &str) -> Option<Vec<String>> {
    let (_, rate, all) = state.calls(now_ns).find(|(of, ..)| *of == name)?;
    let mut lines = vec![
        name.to_owned(),
        String::new(),
        format!("per second, lately  {}, {} in them", plural(rate.count, "call"), time(rate.total_ns)),
        format!("in all              {}, {} in them", plural(all.count, "call"), time(all.total_ns)),
    ];
    let failures = state.totals().failures.iter().filter(|failure| line::name(failure.nr) == name);
    for failure in failures {
        let (error, text) = call_arguments::errno(-i64::from(failure.errno)).unwrap_or_default();
        lines.push(format!(
            "failed              {} with {error} ({text}), first by process {} with {}, after {}",
            plural(failure.count, "time"),
            failure.pid,
            plural(failure.areas, "area"),
            time(failure.ns)
        ));
    }
    let sites = state.sites();
    let mut from: Vec<_> = sites.all().iter().filter(|site| site.nr.is_some_and(|nr| line::name(nr) == name)).collect();
    from.sort_by_key(|site| std::cmp::Reverse(site.ns));
    lines.extend([
        String::new(),
        format!("from {}, those that took longest first:", plural(from.len() as u64, "place")),
    ]);
    for site in from.into_iter().take(PLACES) {
        lines.push(format!("  {:>9} times, {:>8}  {}", count(site.calls), time(site.ns), why::of_site(site, sites)));
    }
    Some(lines)
}

fn place(state: &State, now_ns: u64, number: u32) -> Option<Vec<String>> {
    let sites = state.sites();
    let site = sites.site(number)?;
    let made = state.made(now_ns).nth(number as usize).unwrap_or_default();
    let why = state.largest().and_then(|(largest, _)| largest.why.as_ref());
    let held = why.and_then(|why| why.holdings.iter().find(|holding| holding.site == number));
    let mut lines = vec![why::of_site(site, sites), String::new()];
    if let Some(held) = held {
        let alive = plural(held.alive, "mapping");
        lines.push(format!("holds               {}, {}, {alive}", plural(held.areas, "area"), bytes(held.bytes)));
    }
    lines.push(format!(
        "per second, lately  {} made, {}, {} in calls",
        plural(made.mapped, "mapping"),
        plural(made.splits, "split"),
        time(made.ns)
    ));
    lines.push(format!(
        "in all              {}, {} made ({}), {}, {} in calls",
        plural(site.calls, "call"),
        plural(site.mapped.0, "mapping"),
        bytes(site.mapped.1),
        plural(site.splits, "split"),
        time(site.ns)
    ));
    lines.push(format!("first               event {}", site.first_event));
    lines.push(String::new());
    match sites.stack(site) {
        Some(stack) => lines.extend(frames(sites, stack)),
        None => lines.push("no call stack: samara trace or top with --stacks records them".to_owned()),
    }
    Some(lines)
}

/// A stack as lines, the innermost function first.
fn frames(sites: why::Sites<'_>, stack: &samara_trace::file::Stack) -> Vec<String> {
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    let _ = line::stack(&mut text, sites.stacks(), stack, u64::MAX);
    let text = String::from_utf8_lossy(&text);
    let plain = strip_str(&text).to_string();
    plain.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

fn verdict(state: &State, key: &Key) -> Option<Vec<String>> {
    let why = state.largest()?.0.why.as_ref()?;
    let verdict = why.verdicts.iter().find(|verdict| Key::of(verdict) == *key)?;
    let mut lines = Vec::new();
    let mut row = |name: &str, text: String| {
        let text = strip_str(&text).to_string();
        lines.push(if name.is_empty() { format!("  {text}") } else { format!("{name}: {text}") });
    };
    why::rows_of_verdict(&mut row, verdict, state.sites());
    Some(lines)
}

fn slow(state: &State, now_ns: u64, seq: u64) -> Option<Vec<String>> {
    let slow = state.slow(now_ns).find(|slow| slow.event.seq == seq)?;
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    let _ = line::line(&mut text, &slow.event, &line::Beside::default());
    let text = String::from_utf8_lossy(&text);
    let mut lines = vec![strip_str(&text).to_string().trim().to_owned(), String::new()];
    let sites = state.sites();
    match slow.event.stack.and_then(|number| sites.stacks().stack(number)) {
        Some(stack) => lines.extend(frames(sites, stack)),
        None => lines.push("no call stack: samara trace or top with --stacks records them".to_owned()),
    }
    Some(lines)
}

fn boundary(state: &State, reason: &str) -> Option<Vec<String>> {
    let largest = state.largest()?.0;
    let boundary = largest.survey.boundaries.iter().find(|boundary| boundary.reason == reason)?;
    let mut lines = vec![survey::reason(boundary), String::new()];
    lines.push(clean(&strip_str(&survey::boundary(boundary, largest.survey.known)).to_string()).trim().to_owned());
    lines.extend(
        largest.why.as_ref().and_then(|why| why::set_by(why, reason, state.sites())).map(|by| format!("set by {by}")),
    );
    lines.push(String::new());
    lines.push("samara show FILE --reasons (after samara top -o FILE) shows each of them".to_owned());
    Some(lines)
}
