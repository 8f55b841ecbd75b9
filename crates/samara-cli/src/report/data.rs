//! The data of a page, as one JSON object. The book's page `reference/report-page.md` describes it.
//! Knows nothing of HTML.

use samara_trace::file::call_name;
use samara_trace::summary::{Largest, MAX_MAP_COUNT, Summary};
use samara_trace::why::Why;
use serde_json::{Value, json};

use super::cells::{self, Cell};
use super::kinds::{self, KINDS};
use super::lives::UNKNOWN;
use super::picture::Picture;
use super::slow::{Slow, lock};
use super::tree::{Texts, Tree};
use crate::output::clean;
use crate::why::{self, Sites};
use crate::{call_arguments, line, refused};

/// Version of the object.
const FORMAT: u32 = 1;
/// Spaces with separate series.
const SERIES: usize = 8;
/// Sites with arguments in the data, those with the most calls.
const TOLD: usize = 4000;

/// The data of a trace.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) file: String,
    pub(crate) program: String,
    pub(crate) title: String,
    pub(crate) began: String,
    pub(crate) damage: Option<String>,
    pub(crate) summary: Summary,
    /// The summary as `samara summary --json` prints it, without `largest_space.why`.
    pub(crate) summary_json: Value,
    pub(crate) picture: Picture,
}

impl Trace {
    /// The largest space, and why it has its areas.
    pub(crate) fn why(&self) -> Option<(&Largest, &Why)> {
        let largest = self.summary.largest.as_ref()?;
        Some((largest, largest.why.as_ref()?))
    }
}

/// All of it.
pub(crate) fn json(traces: &[Trace], diff: Option<Value>) -> Value {
    let traces: Vec<Value> = traces.iter().map(trace).collect();
    shown(json!({"format": FORMAT, "version": env!("CARGO_PKG_VERSION"), "traces": traces, "diff": diff}))
}

/// The same with harmless texts.
fn shown(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(clean(&text)),
        Value::Array(all) => Value::Array(all.into_iter().map(shown).collect()),
        Value::Object(all) => Value::Object(all.into_iter().map(|(key, value)| (key, shown(value))).collect()),
        other => other,
    }
}

fn trace(t: &Trace) -> Value {
    let sites = Sites::of(&t.summary);
    let mut texts = Texts::default();
    let (tree, of_sites) = all_sites(t, sites, &mut texts);
    let map = map(t, &mut texts);
    let mut summary = t.summary_json.clone();
    summary["failures"] = refused::failures(&t.summary.failures, sites);
    json!({
        "file": t.file, "program": t.program, "title": t.title, "began": t.began, "damage": t.damage,
        "lost": t.summary.lost, "summary": summary, "why": explained(t), "ns": t.summary.wall_ns,
        "limit": t.summary_json["max_map_count"].as_u64().unwrap_or(MAX_MAP_COUNT),
        "strings": texts.all, "tree": tree, "sites": of_sites, "kinds": kinds::NAMES,
        "processes": t.picture.processes.iter().map(|p| json!({
            "pid": p.pid, "parent": p.parent, "program": p.program, "begin_ns": p.begin_ns, "end_ns": p.end_ns,
            "areas_peak": p.areas_peak, "calls": p.calls,
        })).collect::<Vec<_>>(),
        "processes_left_out": t.picture.left_out,
        "time": times(t),
        "lives": lives(t),
        "map": map,
        "boundaries": t.why().map_or(json!([]), |(_, why)| why::boundaries(why)),
        "slowest": t.picture.calls.slowest().into_iter().map(slow).collect::<Vec<_>>(),
        "durations": t.picture.calls.durations.iter().map(|(name, counts)| {
            let last = counts.iter().rposition(|count| *count > 0).map_or(0, |at| at + 1);
            ((*name).to_owned(), json!(counts[..last]))
        }).collect::<serde_json::Map<_, _>>(),
    })
}

/// The verdicts, each with its sentence.
fn explained(t: &Trace) -> Option<Value> {
    let (largest, why) = t.why()?;
    let mut all = why::verdicts_json(why::At::largest(largest), why, Sites::of(&t.summary));
    for (told, verdict) in all["verdicts"].as_array_mut().into_iter().flatten().zip(&why.verdicts) {
        told["word"] = json!(why::word(verdict.kind));
        told["text"] = json!(why::sentence(verdict));
        told["by"] = json!(why::behind(verdict, Sites::of(&t.summary)));
    }
    Some(all)
}

/// The tree of functions, and the sites in columns.
fn all_sites(t: &Trace, sites: Sites<'_>, texts: &mut Texts) -> (Value, Value) {
    let held = t.why().map(|(_, why)| why::held(why)).unwrap_or_default();
    let mut most: Vec<(std::cmp::Reverse<u64>, usize)> =
        sites.all().iter().enumerate().map(|(number, site)| (std::cmp::Reverse(site.calls), number)).collect();
    most.sort_unstable();
    let least = most.get(TOLD).copied();
    let mut tree = Tree::default();
    let (mut node, mut inner, mut call, mut text) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (number, site) in sites.all().iter().enumerate() {
        let is_told = least.is_none_or(|least| (std::cmp::Reverse(site.calls), number) < least);
        let innermost = sites.stack(site).and_then(|stack| tree.of(sites.stacks(), stack, texts));
        node.push(innermost.map_or(-1, i64::from));
        inner.push(
            sites.before_own(site).iter().map(|frame| line::functions(sites.stacks(), frame).len()).sum::<usize>(),
        );
        let name = site.nr.map_or_else(|| samara_trace::file::kind_name(site.kind).to_owned(), line::name);
        text.push(texts.number(&if is_told { sites.text(site) } else { name.clone() }));
        call.push(texts.number(&name));
    }
    let held: Vec<_> = (0..sites.all().len() as u32).map(|number| held.get(&number)).collect();
    let of = |value: fn(&samara_trace::why::Site) -> u64| sites.all().iter().map(value).collect::<Vec<u64>>();
    let of_sites = json!({
        "node": node, "inner": inner, "call": call, "text": text,
        "calls": of(|site| site.calls),
        "areas": held.iter().map(|held| held.map_or(0, |held| held.areas)).collect::<Vec<_>>(),
        "bytes": held.iter().map(|held| held.map_or(0, |held| held.bytes)).collect::<Vec<_>>(),
        "made": of(|site| site.mapped.0), "splits": of(|site| site.splits), "ns": of(|site| site.ns),
        "populated": of(|site| site.populated), "released": of(|site| site.released),
    });
    let tree = json!({
        "parent": tree.nodes.iter().map(|node| node.parent.map_or(-1, i64::from)).collect::<Vec<_>>(),
        "name": tree.nodes.iter().map(|node| node.name).collect::<Vec<_>>(),
        "place": tree.nodes.iter().map(|node| node.place).collect::<Vec<_>>(),
        "guessed": tree.nodes.iter().map(|node| u8::from(node.guessed)).collect::<Vec<_>>(),
    });
    (tree, of_sites)
}

fn times(t: &Trace) -> Value {
    let times = &t.picture.times;
    let spaces = &t.picture.seen.spaces;
    let mut largest: Vec<_> = times.spaces.iter().collect();
    largest.sort_by_key(|(number, series)| (std::cmp::Reverse(series.most()), **number));
    largest.truncate(SERIES);
    let one = |number: Option<u64>, series: &super::series::Series| {
        let (areas, bytes): (Vec<_>, Vec<_>) = (0..KINDS).map(|kind| series.of(kind)).unzip();
        let kib = |bytes: Vec<u64>| bytes.into_iter().map(|bytes| bytes / 1024).collect::<Vec<_>>();
        json!({
            "pid": number.and_then(|number| spaces.get(&number)).map(|space| space.pid),
            "space": number.and_then(|number| position(spaces, number)),
            "areas": areas, "bytes": bytes.into_iter().map(kib).collect::<Vec<_>>(),
        })
    };
    let mut series = vec![one(None, &times.all)];
    series.extend(largest.into_iter().map(|(number, of)| one(Some(*number), of)));
    json!({"bin_ns": times.bin_ns, "bins": times.bins(), "series": series, "calls": times.calls})
}

/// The position of a space among those that are listed.
fn position<T>(spaces: &std::collections::BTreeMap<u64, T>, number: u64) -> Option<usize> {
    spaces.contains_key(&number).then(|| spaces.range(..number).count())
}

fn site(number: u32) -> i64 {
    if number == UNKNOWN { -1 } else { i64::from(number) }
}

fn lives(t: &Trace) -> Value {
    let cells = &t.picture.seen.cells;
    let all = cells.sorted();
    let of = |value: fn(&Cell) -> i64| all.iter().map(|(cell, _)| value(cell)).collect::<Vec<i64>>();
    json!({
        "bin_ns": cells.bin_ns,
        "site": of(|cell| site(cell.site)), "kind": of(|cell| cell.kind as i64), "born": of(|cell| i64::from(cell.born)),
        "gone": of(|cell| if cell.gone == cells::ALIVE { -1 } else { i64::from(cell.gone) }),
        "areas": all.iter().map(|(_, (areas, _))| *areas).collect::<Vec<_>>(),
        "kib": all.iter().map(|(_, (_, bytes))| bytes / 1024).collect::<Vec<_>>(),
    })
}

fn map(t: &Trace, texts: &mut Texts) -> Value {
    let names: Vec<u32> = t.picture.lives.names.all.iter().map(|name| texts.number(name)).collect();
    let (rects, spaces) = (&t.picture.seen.rects, &t.picture.seen.spaces);
    let of = |value: fn(&super::rects::Rect) -> u64| rects.all.iter().map(value).collect::<Vec<u64>>();
    let mut at = (None, 0);
    let space = |number: u64| {
        if at.0 != Some(number) {
            at = (Some(number), position(spaces, number).unwrap_or(0));
        }
        at.1
    };
    json!({
        "exact": rects.close == (0, 0), "ns": rects.close.0, "pages": rects.close.1,
        "spaces": spaces.values().map(|s| json!({
            "pid": s.pid, "program": s.program, "begin_ns": s.begin_ns, "end_ns": s.end_ns,
        })).collect::<Vec<_>>(),
        "space": rects.all.iter().map(|rect| rect.space).map(space).collect::<Vec<_>>(),
        "start": of(|rect| rect.pages.0), "end": of(|rect| rect.pages.1),
        "from": of(|rect| rect.ns.0), "to": of(|rect| rect.ns.1), "kind": of(|rect| rect.kind as u64),
        "name": rects.all.iter().map(|rect| names[rect.name as usize]).collect::<Vec<_>>(),
        "site": rects.all.iter().map(|rect| site(rect.site)).collect::<Vec<_>>(), "event": of(|rect| rect.event), "areas": of(|rect| rect.areas),
    })
}

fn slow(s: &Slow) -> Value {
    let name = line::name(s.nr);
    let known = call_name(s.nr).unwrap_or_default();
    json!({
        "event": s.event.0, "pid": s.pid, "tid": s.tid, "begin_ns": s.begin_ns, "ns": s.ns,
        "call": format!("{} = {}", call_arguments::call(&name, &s.args, None), call_arguments::result(&name, s.result)),
        "site": site(s.site), "overlapped": s.overlapped, "lock": lock(known, &s.args),
    })
}
