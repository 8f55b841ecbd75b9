//! Verdicts on a space, on one screen, as JSON and as lines for flame graphs. Does not know where
//! the space comes from.

use std::collections::BTreeMap;
use std::fmt::Write;

use samara_trace::SpaceAt;
use samara_trace::event::EventKind;
use samara_trace::file::{Frame, Function, Stack, Stacks, kind_name, reason_name, reasons};
use samara_trace::summary::{Failure, Largest, Summary};
use samara_trace::survey::PatternKind;
use samara_trace::why::{Advice, Between, Holding, Part, Role, Site, Verdict, VerdictKind, Why};
use serde_json::{Value, json};

use crate::cli::Weight;
use crate::format::{bytes, count, plural, time};
use crate::output::{BOLD, DIM, clean, short, styled};
pub(crate) use crate::sentence::{sentence, word};
use crate::summary::{self, reasons_text};
use crate::{call_arguments, line};

/// What is said of areas where events were lost.
pub(crate) const INCOMPLETE: &str = "events were lost, calls were unsure, or areas changed while they were read: there may be others, and other verdicts";

/// Version of the JSON.
const FORMAT: u32 = 1;
/// Verdicts with a paragraph.
const VERDICTS: usize = 12;
/// Kinds of failures with a row.
const FAILURES: usize = 4;
/// Sites with a row.
const SITES: usize = 8;
/// A site with less than 1/100 of the areas has no row.
const SMALL_PART: u64 = 100;
/// Functions shown of a stack.
const FUNCTIONS: usize = 5;
/// Most places with memory in the JSON, those with the most areas.
const PLACES: usize = 1000;

/// The process of the reported space, and the moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'a> {
    pub(crate) pid: u32,
    pub(crate) program: &'a str,
    /// In nanoseconds since the recording began.
    pub(crate) ns: u64,
    /// Events were lost before.
    pub(crate) is_incomplete: bool,
}

impl<'a> At<'a> {
    pub(crate) fn of(space: &'a SpaceAt) -> At<'a> {
        At { pid: space.pid, program: &space.program, ns: space.ns, is_incomplete: space.is_incomplete }
    }

    pub(crate) fn largest(largest: &'a Largest) -> At<'a> {
        let Largest { pid, program, ns, is_incomplete, .. } = largest;
        At { pid: *pid, program, ns: *ns, is_incomplete: *is_incomplete }
    }
}

/// The sites of a trace, with their stacks.
#[derive(Clone, Copy)]
pub(crate) struct Sites<'a> {
    all: &'a [Site],
    stacks: &'a Stacks,
    /// Whether places in the source are whole, for programs, or short.
    whole: bool,
}

impl<'a> Sites<'a> {
    pub(crate) fn of(summary: &'a Summary) -> Self {
        Sites::new(&summary.sites, &summary.call_stacks)
    }

    pub(crate) fn at(space: &'a SpaceAt) -> Self {
        Sites::new(&space.sites, &space.stacks)
    }

    pub(crate) fn new(all: &'a [Site], stacks: &'a Stacks) -> Self {
        Sites { all, stacks, whole: false }
    }

    /// The same, with whole places in the source.
    pub(crate) fn whole(self) -> Self {
        Sites { whole: true, ..self }
    }

    pub(crate) fn all(self) -> &'a [Site] {
        self.all
    }

    pub(crate) fn stacks(self) -> &'a Stacks {
        self.stacks
    }

    pub(crate) fn site(self, number: u32) -> Option<&'a Site> {
        self.all.get(number as usize)
    }

    pub(crate) fn stack(self, site: &Site) -> Option<&'a Stack> {
        site.stack.and_then(|number| self.stacks.stack(number))
    }

    /// The frames of a site's stack, without those of the C library at its ends.
    fn frames(self, site: &Site) -> &'a [Frame] {
        let Some(stack) = self.stack(site) else { return &[] };
        self.stacks.own_frames(stack, &site.nr.map(line::name).unwrap_or_default())
    }

    /// The frames of a site's stack further in than the program's own: of the C library, or of
    /// stubs.
    pub(crate) fn before_own(self, site: &Site) -> &'a [Frame] {
        let Some(stack) = self.stack(site) else { return &[] };
        let own = self.stacks.own_range(stack, &site.nr.map(line::name).unwrap_or_default());
        &stack.frames[..own.start]
    }

    /// The functions of a site's stack by name, the innermost first, without those of the C
    /// library.
    pub(crate) fn functions(self, site: &Site) -> Vec<String> {
        let names = |frame: &Frame| self.stacks.names(frame).into_iter().rev().map(|name| clean(&name));
        self.frames(site).iter().flat_map(names).collect()
    }

    /// The function that a site is in, if it is known.
    fn function(self, site: &Site) -> Option<String> {
        self.function_of(site.stack, &site.nr.map(line::name).unwrap_or_default())
    }

    /// The function that made this call from a stack.
    pub(crate) fn function_of(self, stack: Option<u32>, call: &str) -> Option<String> {
        let stack = self.stacks.stack(stack?)?;
        let frame = self.stacks.own_frames(stack, call).first()?;
        let functions = self.stacks.own_functions(stack, call);
        let Some(function) = functions.first() else {
            return Some(short(&clean(&self.stacks.shown(frame).to_string())));
        };
        let text = |function: &Function| {
            let place = if self.whole { (&*function.place).into() } else { self.stacks.short_place(&function.place) };
            let at = if place.is_empty() { String::new() } else { format!(" at {place}") };
            format!("{}{at}", short(&function.name))
        };
        let guessed = if frame.guessed { "? " } else { "" };
        let outside = functions.iter().find(|one| !one.is_in_header()).filter(|one| *one != function);
        let called = outside.map_or_else(String::new, |one| format!(", for {}", text(one)));
        Some(clean(&format!("{guessed}{}{called}", text(function))))
    }

    /// A site's call, with the arguments of the first one, and the place of the instruction.
    pub(crate) fn text(self, site: &Site) -> String {
        let from = site.caller.as_ref().filter(|_| site.nr.is_some());
        what(site) + &from.map_or_else(String::new, |at| format!(" from {}", clean(&line::place(at))))
    }
}

/// A site's call, with the arguments that all of its calls have.
pub(crate) fn what(site: &Site) -> String {
    match (site.kind, site.nr) {
        (EventKind::Call, Some(nr)) => call_arguments::calls(&line::name(nr), &site.args, site.varies, None),
        (EventKind::Call, None) => "calls from other places, counted together".to_owned(),
        (EventKind::Exec, _) => "the start of the program".to_owned(),
        (EventKind::Fork, _) => "a fork".to_owned(),
        (EventKind::Found, _) => "there when the recording began".to_owned(),
        (EventKind::Learnt, _) => "no call (a stack that grew, for example)".to_owned(),
        (kind, _) => kind_name(kind).to_owned(),
    }
}

/// The advice, one line for each.
pub(crate) fn advice(v: &Verdict, sites: Sites<'_>) -> Vec<String> {
    let last = v.parts.iter().max_by_key(|part| (part.role, part.times));
    let call = last.and_then(|part| sites.site(part.site)).and_then(|site| site.nr).map(line::name);
    let one = |advice: &Advice| match *advice {
        Advice::GuardInstall { fewer } => Some(format!(
            "madvise(MADV_GUARD_INSTALL) instead of {} would save {} here (from Linux 6.13 on); it discards what the pages hold",
            call.as_deref().unwrap_or("these calls"),
            plural(fewer, "area")
        )),
        Advice::OneMapping { fewer } => {
            Some(format!("one mapping, cut into slices, would save {} here", plural(fewer, "area")))
        }
        Advice::RaiseLimit { to } => {
            Some(format!("these areas are there by design: sysctl vm.max_map_count={to} has room for twice as many"))
        }
        _ => None,
    };
    v.advice.iter().filter_map(one).collect()
}

/// The call behind a verdict, in a few words: the last one that changed the areas.
pub(crate) fn behind(v: &Verdict, sites: Sites<'_>) -> Option<String> {
    let part = v.parts.iter().max_by_key(|part| (part.role, part.times))?;
    let site = sites.site(part.site)?;
    let name = site.nr.map(line::name)?;
    Some(sites.function(site).map_or_else(|| short(&sites.text(site)), |function| format!("{name} in {function}")))
}

/// The most frequent call that set the attribute behind `reason`. `None`: no call sets it, or it is
/// not known.
pub(crate) fn set_by(why: &Why, reason: &str, sites: Sites<'_>) -> Option<String> {
    let gives = |reason| matches!(reason_name(reason), "flags" | "lock" | "seal" | "policy" | "name" | "uffd");
    if !reasons(reason).any(gives) {
        return None;
    }
    let mut calls: BTreeMap<u32, u64> = BTreeMap::new();
    // If neighbours differ in something else too, the last change may have been of that.
    let is_one = |one: &str| reasons(reason).any(|of| of == one);
    let is_of = |b: &&Between| !b.reason.is_empty() && reasons(&b.reason).all(is_one);
    for b in why.boundaries.iter().filter(is_of) {
        b.changers.0.into_iter().chain(b.changers.1.filter(|site| Some(*site) != b.changers.0)).for_each(|site| {
            *calls.entry(site).or_default() += b.boundaries;
        });
    }
    let (site, _) = calls.into_iter().max_by_key(|(site, times)| (*times, std::cmp::Reverse(*site)))?;
    sites.site(site).filter(|site| site.nr.is_some()).map(|site| of_site(site, sites))
}

/// Calls that failed, a line for each kind.
pub(crate) fn failed(all: &[Failure], limit: Option<u64>, sites: Sites<'_>) -> Vec<String> {
    let mut lines: Vec<_> = all.iter().take(FAILURES).map(|one| summary::failed(one, limit, sites)).collect();
    if let Some(rest) = all.get(FAILURES..).filter(|rest| !rest.is_empty()) {
        let calls = rest.iter().map(|failure| failure.count).fold(0, u64::saturating_add);
        lines.push(format!("and {} of {}", plural(calls, "call"), plural(rest.len() as u64, "more kind")));
    }
    lines
}

/// All of it, as lines. `title` names the program; `failed` are calls that failed.
pub(crate) fn screen(title: &str, at: At<'_>, why: &Why, sites: Sites<'_>, failed: &[String]) -> String {
    let mut out = format!("{} {}\n", styled(BOLD, "samara:"), clean(title));
    let mut row = |name: &str, text: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  {} {text}", styled(DIM, format!("{name:<14}")));
    };
    if at.is_incomplete {
        row("incomplete", INCOMPLETE.to_owned());
    }
    for (i, failed) in failed.iter().enumerate() {
        row(if i == 0 { "failed" } else { "" }, failed.clone());
    }
    row("areas", format!("{}, {} mapped, after {}", count(why.areas), bytes(why.bytes), time(at.ns)));
    for verdict in why.verdicts.iter().take(VERDICTS) {
        rows_of_verdict(&mut row, verdict, sites);
    }
    if let Some(rest) = why.verdicts.get(VERDICTS..).filter(|rest| !rest.is_empty()) {
        let areas = rest.iter().map(|verdict| verdict.areas).sum();
        row("", format!("and {} on {}", plural(rest.len() as u64, "more verdict"), plural(areas, "area")));
    }
    let none = if why.verdicts.is_empty() { ": nothing stands out" } else { "" };
    row("others", format!("{} without a verdict{none}", plural(why.others, "area")));
    let large = why.holdings.iter().filter(|holding| holding.areas * SMALL_PART >= why.areas);
    for (i, holding) in large.take(SITES).enumerate() {
        if let Some(site) = sites.site(holding.site) {
            row(if i == 0 { "mapped by" } else { "" }, origin(holding, site));
            row("", format!("           {}", of_site(site, sites)));
        }
    }
    out
}

/// The word for what a verdict counts.
fn counted(v: &Verdict) -> &'static str {
    match (v.kind, v.pattern) {
        (VerdictKind::KeptApart, Some(PatternKind::GuardPages)) => "guards",
        (VerdictKind::KeptApart, Some(PatternKind::Relro)) => "parts",
        (VerdictKind::Fragmented, _) => "holes",
        (VerdictKind::Reserved, _) => "ranges",
        _ => "areas",
    }
}

/// A verdict with the calls behind it.
pub(crate) fn rows_of_verdict(row: &mut impl FnMut(&str, String), verdict: &Verdict, sites: Sites<'_>) {
    row(word(verdict.kind), styled(BOLD, sentence(verdict)));
    advice(verdict, sites).into_iter().for_each(|text| row("", format!("advice: {text}")));
    for part in &verdict.parts {
        rows_of_part(row, verdict, part, sites);
    }
    let (start, end) = verdict.first;
    row("", styled(DIM, format!("the first: {start:x}-{end:x}")));
}

fn rows_of_part(row: &mut impl FnMut(&str, String), verdict: &Verdict, part: &Part, sites: Sites<'_>) {
    let Some(site) = sites.site(part.site) else { return };
    // The sentence of a leak has it already.
    let kept = part.kept.filter(|_| verdict.kind != VerdictKind::Leaked || verdict.pattern.is_some());
    // A place that mapped memory is counted in mappings; guards, holes and areas lie in them.
    let (times, rest) = kept.map_or((part.calls, String::new()), |kept| {
        let grows = if kept.grows { ", and they came up to this moment" } else { "" };
        let lie = if part.times == kept.made {
            String::new()
        } else {
            format!("; {} of the {} are in this memory", count(part.times), counted(verdict))
        };
        let still = format!("; {} of {} still mapped{grows}", count(kept.alive), plural(kept.made, "mapping"));
        (kept.made, lie + &still)
    });
    let role = match part.role {
        Role::Made => "made by",
        Role::Changed => "changed by",
        Role::Freed => "unmapped by",
        _ => part.role.name(),
    };
    // Memory from before the recording, and of a program's start, has no call.
    let often = if site.nr.is_some() { format!("{} ", plural(times, "time")) } else { String::new() };
    let others = match part.sites.saturating_sub(1) {
        0 => String::new(),
        more => format!("; {} lead there, this one most often", plural(more + 1, "stack")),
    };
    row("", format!("{role:<12}{often}{}{rest}{others}", sites.text(site)));
    let frames = sites.frames(site);
    for frame in frames.iter().take(FUNCTIONS) {
        row("", format!("{:14}{}", "", clean(&sites.stacks.shown(frame).to_string())));
    }
    if frames.len() > FUNCTIONS {
        row("", format!("{:14}{}", "", styled(DIM, format!("and {} more", frames.len() - FUNCTIONS))));
    }
}

fn origin(holding: &Holding, site: &Site) -> String {
    let made = match site.mapped.0 {
        // Part of it is another process's.
        made if made < holding.alive => String::new(),
        0 => String::new(),
        made => format!(", {} of {} still mapped", count(holding.alive), plural(made, "mapping")),
    };
    let splits = if site.splits == 0 { String::new() } else { format!(", {}", plural(site.splits, "split")) };
    let calls = match site.calls {
        0 => "by another process".to_owned(),
        _ => format!("{} in the calls", time(site.ns)),
    };
    format!("{:>13}, {}{made}{splits}, {calls}", plural(holding.areas, "area"), bytes(holding.bytes))
}

/// A site in one line: its call, and from which function.
pub(crate) fn of_site(site: &Site, sites: Sites<'_>) -> String {
    let text = sites.text(site);
    sites.function(site).map_or(text.clone(), |function| format!("{text} in {function}"))
}

/// The verdicts as one object.
pub(crate) fn json(at: At<'_>, why: &Why, sites: Sites<'_>) -> Value {
    let mut all = head(at);
    crate::survey::extend(&mut all, parts(why, sites));
    all
}

/// The same without boundaries and sites.
pub(crate) fn verdicts_json(at: At<'_>, why: &Why, sites: Sites<'_>) -> Value {
    let mut all = head(at);
    crate::survey::extend(&mut all, verdicts(why, sites));
    all
}

fn head(at: At<'_>) -> Value {
    json!({
        "format": FORMAT, "pid": at.pid, "program": at.program, "ns": at.ns, "incomplete": at.is_incomplete,
    })
}

/// The memory of each site, by its number.
pub(crate) fn held(why: &Why) -> BTreeMap<u32, &Holding> {
    why.holdings.iter().map(|holding| (holding.site, holding)).collect()
}

/// The advice: its name, the figure, and its text.
fn advised(v: &Verdict, sites: Sites<'_>) -> Value {
    let one = |(advice, text): (&Advice, String)| {
        let (fewer, to) = match *advice {
            Advice::GuardInstall { fewer } | Advice::OneMapping { fewer } => (Some(fewer), None),
            Advice::RaiseLimit { to } => (None, Some(to)),
            _ => (None, None),
        };
        json!({"advice": advice.name(), "would_go": fewer, "max_map_count": to, "text": text})
    };
    v.advice.iter().zip(advice(v, sites)).map(one).collect()
}

/// The verdicts.
fn verdicts(why: &Why, sites: Sites<'_>) -> Value {
    let verdict = |v: &Verdict| {
        json!({
            "verdict": v.kind.name(),
            "pattern": v.pattern.map(PatternKind::name),
            "reasons": reasons(&v.reason).collect::<Vec<_>>(),
            "moved": v.moved,
            "inferred": v.inferred,
            "folder": Some(&v.folder).filter(|folder| !folder.is_empty()),
            "file": Some(&v.file).filter(|file| !file.is_empty()),
            "arenas": Some(v.arenas).filter(|arenas| *arenas > 0),
            "areas": v.areas,
            "would_go": v.would_go,
            "bytes": v.bytes,
            "times": v.times,
            "common_size": v.common,
            "common_times": v.common_times,
            "smallest": v.sizes.0,
            "largest": v.sizes.1,
            "start": v.first.0,
            "end": v.first.1,
            "advice": advised(v, sites),
            "parts": v.parts.iter().map(|part| json!({
                "role": part.role.name(), "site": part.site, "times": part.times, "calls": part.calls,
                "sites": part.sites,
                "kept": part.kept.map(|kept| json!({
                    "made": kept.made, "alive": kept.alive, "bytes": kept.bytes, "grows": kept.grows,
                })),
            })).collect::<Vec<_>>(),
        })
    };
    json!({
        "areas": why.areas,
        "bytes": why.bytes,
        "others": why.others,
        "verdicts": why.verdicts.iter().map(verdict).collect::<Vec<_>>(),
    })
}

/// The verdicts, the boundaries, and the sites that they name.
pub(crate) fn parts(why: &Why, sites: Sites<'_>) -> Value {
    let held = held(why);
    // A trace may have 65,535 places, and stacks of 512 functions.
    let (told, left_out) = why.holdings.split_at(why.holdings.len().min(PLACES));
    let mut named: Vec<u32> = why.verdicts.iter().flat_map(|v| v.parts.iter().map(|part| part.site)).collect();
    named.extend(told.iter().map(|holding| holding.site));
    let pair = |b: &Between| b.makers.map(|makers| [makers.0, makers.1]).into_iter().flatten();
    let changers = |b: &Between| b.changers.0.into_iter().chain(b.changers.1);
    named.extend(why.boundaries.iter().flat_map(|b| pair(b).chain(changers(b))));
    named.sort_unstable();
    named.dedup();
    let site = |number: &u32| {
        let site = sites.site(*number)?;
        let held = held.get(number);
        Some(json!({
            "site": number,
            "kind": kind_name(site.kind),
            "call": site.nr.map(line::name),
            "args": site.args,
            "first_event": site.first_event,
            "calls": site.calls,
            "mapped": site.mapped.0,
            "mapped_bytes": site.mapped.1,
            "splits": site.splits,
            "total_ns": site.ns,
            "populated": site.populated,
            "released": site.released,
            "caller": site.caller.as_ref().map(line::place),
            "areas": held.map_or(0, |held| held.areas),
            "bytes": held.map_or(0, |held| held.bytes),
            "alive": held.map_or(0, |held| held.alive),
            "stack": site.stack,
            "frames": sites.stack(site).map(|stack| crate::json::frames(sites.stacks, stack, u64::MAX)),
        }))
    };
    let mut all = verdicts(why, sites);
    crate::survey::extend(
        &mut all,
        json!({
            "boundaries": boundaries(why),
            "sites": named.iter().filter_map(site).collect::<Vec<_>>(),
            "sites_left_out": left_out.len(),
        }),
    );
    all
}

/// Boundaries between areas that touch: reasons and sites. -1 stands for no site, or many.
pub(crate) fn boundaries(why: &Why) -> Value {
    let number = |site: Option<u32>| site.map_or(-1, i64::from);
    let one = |b: &Between| {
        let all: Vec<_> = reasons(&b.reason).collect();
        json!({
            "would_go": if all.len() == 1 && !b.inferred { b.boundaries } else { 0 },
            "text": reasons_text(&all, ", "), "reasons": all, "count": b.boundaries, "first": b.first,
            "sites": [number(b.makers.map(|makers| makers.0)), number(b.makers.map(|makers| makers.1))],
            "changed": [number(b.changers.0), number(b.changers.1)],
        })
    };
    why.boundaries.iter().map(one).collect()
}

/// A line for each stack and call, with its weight.
pub(crate) fn folded(why: &Why, sites: Sites<'_>, weight: Weight) -> Vec<(String, u64)> {
    let held = held(why);
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for (number, site) in sites.all.iter().enumerate() {
        let held = u32::try_from(number).ok().and_then(|number| held.get(&number));
        let value = match weight {
            Weight::Areas => held.map_or(0, |held| held.areas),
            Weight::Bytes => held.map_or(0, |held| held.bytes),
            Weight::Made => site.mapped.0,
            Weight::Splits => site.splits,
            Weight::Time => site.ns,
            Weight::Populated => site.populated,
            Weight::Released => site.released,
            Weight::Calls => {
                if site.nr.is_some() {
                    site.calls
                } else {
                    0
                }
            }
        };
        if value > 0 {
            let mut line = sites.stack(site).map_or_else(String::new, |stack| line::folded(sites.stacks, stack));
            line.push_str(&match site.nr {
                Some(nr) => line::name(nr),
                None => sites.text(site).replace(';', ":"),
            });
            *lines.entry(line).or_default() += value;
        }
    }
    lines.into_iter().collect()
}

#[cfg(test)]
#[path = "why_tests.rs"]
pub(crate) mod tests;
