//! Processes that a fault ended: where, and what had become of the memory there. Knows nothing of
//! where that is printed.

use std::path::Path;

use samara_trace::file::{Crash, Lost, MapsLine, Near, Printable, Summary, TraceReader, name_text};
use serde_json::{Value, json};

use crate::format::time;
use crate::output::{RED, clean, short, styled};
use crate::why::{self, Sites};
use crate::{json as objects, line};

/// A crash, and what was found of the memory at its address.
#[derive(Debug)]
pub(crate) struct Told {
    crash: Crash,
    lost: Option<Lost>,
}

impl Told {
    pub(crate) fn pid(&self) -> u32 {
        self.crash.pid
    }

    /// The address whose history tells most: the fault's, or, where nothing but another call
    /// explains it, that of the memory which the call replaced.
    pub(crate) fn looked_for(&self) -> u64 {
        let elsewhere = self.lost.filter(|lost| lost.near == Near::Elsewhere);
        elsewhere.map_or(self.crash.address, |lost| lost.range.0)
    }
}

/// The crashes of a summary. The trace is read again for each of them, if it is a file.
pub(crate) fn of(summary: &Summary, trace: &Path) -> Vec<Told> {
    let lost =
        |crash: &Crash| crash.before(TraceReader::new(std::fs::File::open(trace).ok()?).ok()?.map_while(Result::ok));
    let is_file = !summary.crashes.is_empty() && std::fs::metadata(trace).is_ok_and(|file| file.is_file());
    summary
        .crashes
        .iter()
        .map(|crash| Told { crash: crash.clone(), lost: is_file.then(|| lost(crash)).flatten() })
        .collect()
}

/// One crash in a few lines.
pub(crate) fn rows(told: &Told, sites: Sites<'_>) -> Vec<String> {
    let crash = &told.crash;
    let area = match &crash.area {
        Some(area) => clean(&short(&Printable(&name_text(&MapsLine(area).to_bytes())).to_string())),
        None => "nothing is mapped there".to_owned(),
    };
    let from = crash.caller.as_ref().map_or_else(String::new, |at| format!(" from {}", clean(&line::place(at))));
    let killed = format!("process {} killed by {} at {:#x}{from}", crash.pid, signal(crash.signal), crash.address);
    let mut rows = vec![format!("{}: {area}", styled(RED, killed))];
    rows.extend(told.lost.as_ref().map(|lost| format!("  {}", cause(crash, lost, sites))));
    rows
}

fn signal(number: i32) -> String {
    signal_hook::low_level::signal_name(number).map_or_else(|| format!("signal {number}"), str::to_owned)
}

/// What a call had done to the memory.
fn cause(crash: &Crash, lost: &Lost, sites: Sites<'_>) -> String {
    let site = |number: Option<u32>| number.and_then(|number| sites.site(number));
    let made = site(lost.made).map_or_else(|| "an unknown call".to_owned(), |site| why::of_site(site, sites));
    let by = site(Some(lost.by)).map_or_else(|| "an unknown call".to_owned(), |site| why::of_site(site, sites));
    let (before, (start, end)) = (time(crash.ns.saturating_sub(lost.ns)), lost.range);
    match (lost.near, lost.replaced) {
        (Near::There, true) => format!("memory mapped there by {made} was replaced by {by} {before} before"),
        (Near::There, false) => format!("memory mapped there by {made} was unmapped by {by} {before} before"),
        (Near::InArea, _) => {
            format!("in that area {start:x}-{end:x}, mapped by {made}, was replaced by {by} {before} before")
        }
        _ => format!(
            "perhaps a pointer from memory that is another one now: {start:x}-{end:x}, mapped by {made}, was replaced by {by} {before} before"
        ),
    }
}

/// The crashes as one array.
pub(crate) fn json(all: &[Told], sites: Sites<'_>) -> Value {
    let near = |lost: &Lost| match lost.near {
        Near::There => "there",
        Near::InArea => "in-area",
        _ => "elsewhere",
    };
    let call = |number: Option<u32>| number.and_then(|number| sites.site(number)).map(|site| why::of_site(site, sites));
    let lost = |lost: &Lost| {
        json!({
            "near": near(lost), "start": lost.range.0, "end": lost.range.1, "replaced": lost.replaced,
            "made_by": call(lost.made), "by": call(Some(lost.by)), "event": lost.seq, "ns": lost.ns,
        })
    };
    let one = |told: &Told| {
        let crash = &told.crash;
        json!({
            "pid": crash.pid, "signal": signal(crash.signal), "address": crash.address, "event": crash.seq, "ns": crash.ns,
            "caller": crash.caller.as_ref().map(line::place), "area": crash.area.as_ref().map(objects::area),
            "lost": told.lost.as_ref().map(lost),
        })
    };
    all.iter().map(one).collect()
}
