//! Describes processes that a fault ended: the place, and the history of the memory there. Does not
//! know where it is printed.

use std::path::Path;

use samara_trace::event::EventKind;
use samara_trace::file::{MapsLine, Printable, TraceReader, name_text};
use samara_trace::summary::{Before, Crash, Forbidden, Forbids, Lost, Near, Summary};
use serde_json::{Value, json};

use crate::format::time;
use crate::output::{RED, clean, short, styled};
use crate::why::{self, Sites};
use crate::{json as objects, line};

/// A crash, and the history of the memory at its address.
#[derive(Debug)]
pub(crate) struct CrashHistory {
    crash: Crash,
    before: Before,
}

impl CrashHistory {
    pub(crate) fn pid(&self) -> u32 {
        self.crash.pid
    }

    /// The most useful address to look up: the fault's, or, if only a call elsewhere explains the
    /// crash, the address of the memory that the call replaced.
    pub(crate) fn looked_for(&self) -> u64 {
        let elsewhere = self.before.lost.filter(|lost| lost.near == Near::Elsewhere);
        elsewhere.map_or(self.crash.address, |lost| lost.range.0)
    }
}

/// The crashes of a summary. The trace is read again for each of them, if it is a file.
pub(crate) fn of(summary: &Summary, trace: &Path) -> Vec<CrashHistory> {
    let before = |crash: &Crash| {
        Some(crash.before(TraceReader::new(std::fs::File::open(trace).ok()?).ok()?.map_while(Result::ok)))
    };
    let is_file = !summary.crashes.is_empty() && std::fs::metadata(trace).is_ok_and(|file| file.is_file());
    summary
        .crashes
        .iter()
        .map(|crash| {
            let before = is_file.then(|| before(crash)).flatten().unwrap_or_default();
            CrashHistory { crash: crash.clone(), before }
        })
        .collect()
}

/// One crash in a few lines.
pub(crate) fn rows(told: &CrashHistory, sites: Sites<'_>) -> Vec<String> {
    let crash = &told.crash;
    let area = match &crash.area {
        Some(area) => clean(&short(&Printable(&name_text(&MapsLine(area).to_bytes())).to_string())),
        None => "nothing is mapped there".to_owned(),
    };
    let from = crash.caller.as_ref().map_or_else(String::new, |at| format!(" from {}", clean(&line::place(at))));
    let fault = format!("{} at {:#x}{from}", signal(crash.signal), crash.address);
    let killed = match crash.ended_by == crash.signal {
        true => format!("process {} killed by {fault}", crash.pid),
        false => format!("process {} killed by {} in its handler of {fault}", crash.pid, signal(crash.ended_by)),
    };
    let mut rows = vec![format!("{}: {area}", styled(RED, killed))];
    rows.extend(told.before.forbidden.as_ref().map(|why| format!("  {}", forbidden(crash, why, sites))));
    rows.extend(told.before.lost.as_ref().map(|lost| format!("  {}", cause(crash, lost, sites))));
    rows
}

fn signal(number: i32) -> String {
    signal_hook::low_level::signal_name(number).map_or_else(|| format!("signal {number}"), str::to_owned)
}

/// A site by its number.
fn call(number: Option<u32>, sites: Sites<'_>) -> String {
    let site = number.and_then(|number| sites.site(number));
    site.map_or_else(|| "an unknown call".to_owned(), |site| why::of_site(site, sites))
}

/// The text for a site that had mapped memory: `mapped there by mmap(...)`.
fn mapped(how: &str, number: Option<u32>, sites: Sites<'_>) -> String {
    match number.and_then(|number| sites.site(number)) {
        Some(site) if site.kind == EventKind::Found => why::of_site(site, sites),
        _ => format!("{how} by {}", call(number, sites)),
    }
}

/// What forbids the access, and the call that forbade it.
fn forbidden(crash: &Crash, why: &Forbidden, sites: Sites<'_>) -> String {
    let by = || match &why.by {
        Some(by) => format!("by {} {} before", call(Some(by.site), sites), time(crash.ns.saturating_sub(by.ns))),
        None => mapped("mapped so", why.made, sites),
    };
    match why.how {
        Forbids::NoAccess => format!("no access is allowed there, {}", by()),
        Forbids::NoWriting => format!("writing is not allowed there, {}", by()),
        Forbids::NoExecuting => format!("executing is not allowed there, {}", by()),
        Forbids::ProtectionKey => "its protection key forbids the access".to_owned(),
        Forbids::Guard => format!("a guard is there, {}", by()),
        Forbids::StackGuard => format!("the guard below the stack of a thread, {}", mapped("mapped", why.made, sites)),
        Forbids::StackEnd => "below the stack, which may not grow further (RLIMIT_STACK)".to_owned(),
        Forbids::FileEnd => {
            // A file of a memory file system faults too if memory is short.
            let in_memory = crash.area.as_ref().is_some_and(|area| area.dev.0 == 0);
            let or_full = if in_memory { ", or its file system is full" } else { "" };
            format!("beyond the end of its file{or_full}, {}", mapped("mapped", why.made, sites))
        }
        other => other.name().to_owned(),
    }
}

/// The effect of a call on the memory.
fn cause(crash: &Crash, lost: &Lost, sites: Sites<'_>) -> String {
    let by = call(Some(lost.by), sites);
    let (before, (start, end)) = (time(crash.ns.saturating_sub(lost.ns)), lost.range);
    let made = |how: &str| mapped(how, lost.made, sites);
    let gone = match lost.near {
        Near::There => format!("memory {}", made("mapped there")),
        Near::InArea => format!("in that area {start:x}-{end:x}, {},", made("mapped")),
        _ => format!("perhaps a pointer read from replaced memory: {start:x}-{end:x}, {},", made("mapped")),
    };
    let did = match (lost.replaced, lost.moved) {
        (true, _) => "replaced",
        (_, true) => "moved away",
        _ => "unmapped",
    };
    format!("{gone} was {did} by {by} {before} before")
}

/// The crashes as one array.
pub(crate) fn json(all: &[CrashHistory], sites: Sites<'_>) -> Value {
    let near = |lost: &Lost| match lost.near {
        Near::There => "there",
        Near::InArea => "in-area",
        _ => "elsewhere",
    };
    let call = |number: Option<u32>| number.and_then(|number| sites.site(number)).map(|site| why::of_site(site, sites));
    let forbids = |why: &Forbidden| {
        json!({
            "how": why.how.name(), "made_by": call(why.made), "by": call(why.by.map(|by| by.site)),
            "event": why.by.map(|by| by.seq), "ns": why.by.map(|by| by.ns),
        })
    };
    let lost = |lost: &Lost| {
        json!({
            "near": near(lost), "start": lost.range.0, "end": lost.range.1, "replaced": lost.replaced, "moved": lost.moved,
            "made_by": call(lost.made), "by": call(Some(lost.by)), "event": lost.seq, "ns": lost.ns,
        })
    };
    let one = |told: &CrashHistory| {
        let crash = &told.crash;
        json!({
            "pid": crash.pid, "signal": signal(crash.signal), "ended_by": signal(crash.ended_by), "address": crash.address, "event": crash.seq, "ns": crash.ns,
            "caller": crash.caller.as_ref().map(line::place), "area": crash.area.as_ref().map(objects::area),
            "forbidden": told.before.forbidden.as_ref().map(forbids), "lost": told.before.lost.as_ref().map(lost),
        })
    };
    all.iter().map(one).collect()
}
