//! Compares two spaces: growth by place in the program, and by the reason that keeps areas apart.
//! Knows nothing of files.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write;

use samara_trace::SpaceAt;
use samara_trace::file::kind_name;
use samara_trace::summary::Summary;
use samara_trace::survey::{Boundary, Survey};
use samara_trace::why::{Site, Why};
use serde_json::{Value, json};

use crate::format::{bytes, count, plural, time};
use crate::line;
use crate::output::{BOLD, DIM, RED, clean, styled};
use crate::summary::reason_text;
use crate::survey::change;
use crate::why::{At, Sites, held, what};

/// Version of the JSON.
const FORMAT: u32 = 1;
/// Maximum number of places, and of reasons, with a row.
const ROWS: usize = 12;
/// Maximum number of functions shown for a place.
const FUNCTIONS: usize = 4;

/// One of the two spaces.
#[derive(Clone, Copy)]
pub(crate) struct Side<'a> {
    pub(crate) at: At<'a>,
    pub(crate) why: &'a Why,
    pub(crate) sites: Sites<'a>,
    /// Why areas that touch are not one.
    pub(crate) boundaries: &'a [Boundary],
    /// Areas that were split, and merged, up to then.
    pub(crate) splits: u64,
    pub(crate) merges: u64,
}

impl<'a> Side<'a> {
    /// The largest space of a trace. `None`: it is not known.
    pub(crate) fn largest(summary: &'a Summary) -> Option<Side<'a>> {
        let largest = summary.largest.as_ref()?;
        Some(Side {
            at: At::largest(largest),
            why: largest.why.as_ref()?,
            sites: Sites::of(summary),
            boundaries: &largest.survey.boundaries,
            splits: summary.splits,
            merges: summary.merges,
        })
    }

    /// A space at a moment; `survey` is that of its areas.
    pub(crate) fn at(space: &'a SpaceAt, survey: &'a Survey) -> Side<'a> {
        Side {
            at: At::of(space),
            why: &space.why,
            sites: Sites::at(space),
            boundaries: &survey.boundaries,
            splits: space.splits,
            merges: space.merges,
        }
    }
}

/// Counts of a place's calls and areas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    areas: u64,
    bytes: u64,
    made: u64,
    splits: u64,
}

/// One place in both spaces.
#[derive(Clone, Debug)]
struct SitePair {
    /// The call of the first of them.
    text: String,
    call: Option<String>,
    kind: &'static str,
    /// The functions, the innermost first.
    functions: Vec<String>,
    before: Sums,
    after: Sums,
}

impl SitePair {
    /// The largest difference in areas, mappings ever made, or splits.
    fn differs(&self) -> u64 {
        let (a, b) = (self.before, self.after);
        a.areas.abs_diff(b.areas).max(a.made.abs_diff(b.made)).max(a.splits.abs_diff(b.splits))
    }

    fn grown(&self) -> u64 {
        self.after.areas.saturating_sub(self.before.areas)
    }
}

/// A reason that keeps areas apart: its boundaries before and after.
struct Reason {
    name: String,
    before: u64,
    after: u64,
}

/// The differences.
pub(crate) struct Diff<'a> {
    before: Side<'a>,
    after: Side<'a>,
    /// Places that differ by more than `over`, the largest growth in areas first.
    places: Vec<SitePair>,
    reasons: Vec<Reason>,
    over: u64,
    /// Whether places are compared by call alone.
    by_call: bool,
    /// Whether calls of all processes count.
    pub(crate) of_all: bool,
}

impl<'a> Diff<'a> {
    /// Compares two spaces. Differences of at most `over` are left out. Places are the same if the
    /// functions of their stacks have the same [lasting](line::lasting) names, or, without stacks,
    /// if their arguments are the same, except addresses and callers. If only one of the two spaces
    /// has stacks, each call is one place.
    pub(crate) fn of(before: Side<'a>, after: Side<'a>, over: u64) -> Self {
        let [has_stacks, had_stacks] =
            [after, before].map(|side| side.sites.all().iter().any(|site| site.stack.is_some()));
        let by_call = has_stacks != had_stacks && !before.sites.all().is_empty() && !after.sites.all().is_empty();
        let mut places: BTreeMap<_, SitePair> = BTreeMap::new();
        for (side, is_after) in [(before, false), (after, true)] {
            let held = held(side.why);
            for (number, site) in (0..).zip(side.sites.all()) {
                let functions = if by_call { Vec::new() } else { line::lasting(side.sites.functions(site)) };
                let details = if by_call { [0; 3] } else { site.details };
                let key = (kind_name(site.kind), site.nr, details, functions.clone());
                let place = places.entry(key).or_insert_with(|| place(site, functions));
                let sums = if is_after { &mut place.after } else { &mut place.before };
                sums.made += site.mapped.0;
                sums.splits += site.splits;
                if let Some(held) = held.get(&number) {
                    sums.areas += held.areas;
                    sums.bytes = sums.bytes.saturating_add(held.bytes);
                }
            }
        }
        let mut places: Vec<SitePair> = places.into_values().filter(|place| place.differs() > over).collect();
        places.sort_by_key(|place| {
            let grows = place.after.areas as i128 - place.before.areas as i128;
            (Reverse(grows), Reverse(place.differs()))
        });
        let mut reasons: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for boundary in before.boundaries {
            reasons.entry(&boundary.reason).or_default().0 += boundary.boundaries;
        }
        for boundary in after.boundaries {
            reasons.entry(&boundary.reason).or_default().1 += boundary.boundaries;
        }
        let mut reasons: Vec<Reason> = reasons
            .into_iter()
            .filter(|(_, (before, after))| before.abs_diff(*after) > over)
            .map(|(name, (before, after))| Reason { name: name.to_owned(), before, after })
            .collect();
        reasons.sort_by_key(|reason| Reverse(reason.after as i128 - reason.before as i128));
        Diff { before, after, places, reasons, over, by_call, of_all: true }
    }

    /// Whether all areas together, or those of a place, grew by more than `over`.
    pub(crate) fn has_grown(&self) -> bool {
        let all = self.after.why.areas.saturating_sub(self.before.why.areas);
        all > self.over || self.places.iter().any(|place| place.grown() > self.over)
    }

    /// The comparison as lines.
    pub(crate) fn screen(&self, title: &str) -> String {
        let mut out = format!("{} {}\n", styled(BOLD, "samara:"), clean(title));
        let mut row = |name: &str, text: String| {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "  {} {text}", styled(DIM, format!("{name:<10}")));
        };
        let (a, b) = (self.before, self.after);
        for (name, side) in [("before", a), ("after", b)] {
            let At { pid, program, ns, .. } = side.at;
            row(name, format!("process {pid} ({}), after {}", clean(program), time(ns)));
        }
        let both = |from: u64, to: u64, show: fn(u64) -> String| {
            format!("{} -> {} ({})", show(from), show(to), change(from, to, show))
        };
        row("areas", both(a.why.areas, b.why.areas, count));
        row("mapped", both(a.why.bytes, b.why.bytes, bytes));
        row("changes", {
            let all = if self.of_all { ", in all processes" } else { "" };
            format!("splits {}, merges {}{all}", both(a.splits, b.splits, count), both(a.merges, b.merges, count))
        });
        for (i, reason) in self.reasons.iter().take(ROWS).enumerate() {
            let name = if reason.name.is_empty() { "nothing".to_owned() } else { reason_text(&reason.name) };
            row(if i == 0 { "apart" } else { "" }, format!("{name}: {}", both(reason.before, reason.after, count)));
        }
        if self.by_call {
            row("note", "only one of the two has call stacks: places are compared by call".to_owned());
        }
        for (i, place) in self.places.iter().take(ROWS).enumerate() {
            row(if i == 0 { "mapped by" } else { "" }, sums(place));
            let name = place.call.as_ref().filter(|_| self.by_call).unwrap_or(&place.text);
            row("", format!("    {name}"));
            for function in place.functions.iter().take(FUNCTIONS) {
                row("", format!("      {function}"));
            }
        }
        if let Some(rest) = self.places.get(ROWS..).filter(|rest| !rest.is_empty()) {
            row("", format!("and {}", plural(rest.len() as u64, "more place")));
        }
        if self.places.is_empty() && self.reasons.is_empty() {
            row("", format!("nothing differs by more than {}", count(self.over)));
        }
        out
    }

    /// The comparison as one object.
    pub(crate) fn json(&self) -> Value {
        let side = |side: Side<'_>| {
            let At { pid, program, ns, .. } = side.at;
            json!({
                "pid": pid, "program": program, "ns": ns, "areas": side.why.areas, "bytes": side.why.bytes,
                "splits": side.splits, "merges": side.merges,
            })
        };
        let sums = |s: Sums| json!({"areas": s.areas, "bytes": s.bytes, "made": s.made, "splits": s.splits});
        json!({
            "format": FORMAT,
            "before": side(self.before),
            "after": side(self.after),
            "over": self.over,
            "has_grown": self.has_grown(),
            "reasons": self.reasons.iter().map(|reason| json!({
                "reason": if reason.name.is_empty() { None } else { Some(&*reason.name) },
                "text": Some(reason_text(&reason.name)).filter(|text| !text.is_empty()),
                "before": reason.before, "after": reason.after,
            })).collect::<Vec<_>>(),
            "places": self.places.iter().map(|place| json!({
                "kind": place.kind, "call": place.call, "first_call": place.text, "functions": place.functions,
                "before": sums(place.before), "after": sums(place.after),
            })).collect::<Vec<_>>(),
        })
    }
}

fn place(site: &Site, functions: Vec<String>) -> SitePair {
    let (text, call) = (what(site), site.nr.map(line::name));
    let none = Sums::default();
    SitePair { text, call, kind: kind_name(site.kind), functions, before: none, after: none }
}

/// The differences of a place, as text.
fn sums(place: &SitePair) -> String {
    let (a, b) = (place.before, place.after);
    let noun = |from: u64, to: u64, one: &str| if from.abs_diff(to) == 1 { one.to_owned() } else { format!("{one}s") };
    let (areas, noun_of) = (change(a.areas, b.areas, count), noun(a.areas, b.areas, "area"));
    let mut all = vec![format!("{areas:>8} {noun_of} ({} -> {})", count(a.areas), count(b.areas))];
    if a.bytes != b.bytes {
        all.push(change(a.bytes, b.bytes, bytes));
    }
    if a.made != b.made {
        all.push(format!("{} {} made", change(a.made, b.made, count), noun(a.made, b.made, "mapping")));
    }
    if a.splits != b.splits {
        all.push(format!("{} {}", change(a.splits, b.splits, count), noun(a.splits, b.splits, "split")));
    }
    let text = all.join(", ");
    if b.areas > a.areas { styled(RED, text) } else { text }
}

#[cfg(test)]
#[path = "diff_tests.rs"]
mod tests;
