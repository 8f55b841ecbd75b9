//! The content of the screen, as data: the header and the rows of one table. Made from a [`State`].
//! Knows neither the terminal nor the source of events.

use std::cmp::Reverse;
use std::collections::HashMap;

use samara_trace::survey::PatternKind;
use samara_trace::why::{Verdict, VerdictKind};

use super::state::State;
use crate::format::{bytes, count, plural, time};
use crate::output::clean;
use crate::{line, survey, why};

/// Most rows of a table.
const ROWS: usize = 1000;
/// Cells of the line of areas over time.
const CELLS: usize = 256;

/// A table that can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    /// Rates by kind of call.
    Calls,
    /// The places that calls come from.
    Places,
    /// The verdicts on the largest space.
    Verdicts,
    /// The slowest recent calls.
    Slowest,
    /// Why areas that touch are apart.
    Boundaries,
}

/// A column of numbers.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) width: usize,
    pub(crate) show: fn(u64) -> String,
}

/// The subject of a row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Call(String),
    /// The number of a site.
    Place(u32),
    /// Its kind, pattern, reason and first site.
    Verdict(VerdictKind, Option<PatternKind>, String, Option<u32>),
    /// The number of an event.
    Slow(u64),
    Boundary(String),
}

/// A row of a table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) key: Key,
    /// A number for each column.
    pub(crate) values: Vec<u64>,
    /// The text at its end, with escapes.
    pub(crate) text: String,
}

/// The order of rows: by a column, the largest number first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) column: usize,
    pub(crate) reverse: bool,
}

/// The shown part of a state, except details.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// The process with the most areas, its program, and the number of other live processes.
    pub(crate) process: String,
    pub(crate) areas: u64,
    /// `vm.max_map_count`, where it is known.
    pub(crate) limit: Option<u64>,
    /// Its mapped bytes.
    pub(crate) mapped: String,
    /// Number of areas of all processes over time.
    pub(crate) over_time: Vec<u64>,
    /// The verdict on most areas.
    pub(crate) why: Option<String>,
    pub(crate) rows: Vec<Row>,
    /// The subject of the table, or why it is empty.
    pub(crate) note: String,
}

fn rate(n: u64) -> String {
    if n == 0 { "-".to_owned() } else { count(n) }
}

fn span(ns: u64) -> String {
    if ns == 0 { "-".to_owned() } else { time(ns) }
}

const fn column(name: &'static str, width: usize, show: fn(u64) -> String) -> Column {
    Column { name, width, show }
}

impl Table {
    pub(crate) const ALL: [Table; 5] =
        [Table::Calls, Table::Places, Table::Verdicts, Table::Slowest, Table::Boundaries];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Table::Calls => "calls",
            Table::Places => "places",
            Table::Verdicts => "verdicts",
            Table::Slowest => "slowest",
            Table::Boundaries => "boundaries",
        }
    }

    /// Its columns of numbers; the text follows them.
    pub(crate) fn columns(self) -> &'static [Column] {
        const CALLS: &[Column] = &[
            column("calls/s", 9, rate),
            column("time/s", 8, span),
            column("failed", 8, rate),
            column("calls", 10, count),
            column("time", 8, span),
        ];
        const PLACES: &[Column] = &[
            column("areas", 8, rate),
            column("made/s", 8, rate),
            column("splits/s", 8, rate),
            column("time/s", 8, span),
            column("made", 9, count),
        ];
        const VERDICTS: &[Column] = &[column("areas", 9, count), column("fewer", 9, rate)];
        const SLOWEST: &[Column] = &[column("took", 8, time), column("ago", 8, time)];
        const BOUNDARIES: &[Column] = &[column("boundaries", 10, count), column("alone", 9, rate)];
        match self {
            Table::Calls => CALLS,
            Table::Places => PLACES,
            Table::Verdicts => VERDICTS,
            Table::Slowest => SLOWEST,
            Table::Boundaries => BOUNDARIES,
        }
    }

    /// The name of its column of text.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Table::Calls => "call",
            Table::Places => "place",
            Table::Verdicts => "why there are so many areas",
            Table::Slowest => "process and call",
            Table::Boundaries => "why touching areas are not merged",
        }
    }

    /// The minimum width of the text: columns of numbers make room for it.
    pub(crate) fn text_width(self) -> usize {
        match self {
            Table::Calls => 16,
            Table::Places => 40,
            Table::Verdicts | Table::Slowest | Table::Boundaries => 24,
        }
    }

    /// The order in which it is first shown.
    pub(crate) fn order(self) -> Order {
        let column = if self == Table::Calls { 1 } else { 0 };
        Order { column, reverse: false }
    }
}

impl Key {
    pub(crate) fn of(v: &Verdict) -> Key {
        Key::Verdict(v.kind, v.pattern, v.reason.clone() + &v.file, v.parts.first().map(|part| part.site))
    }
}

/// Sorts rows by a column; equal ones by the other columns, the last one first.
pub(crate) fn sort(rows: &mut [Row], order: Order) {
    rows.sort_by_cached_key(|row| Reverse(ranks(&row.values, order.column)));
    if order.reverse {
        rows.reverse();
    }
}

fn ranks(values: &[u64], column: usize) -> (u64, Vec<u64>) {
    (values.get(column).copied().unwrap_or(0), values.iter().rev().copied().collect())
}

/// The view of a state at a moment. `limit`: `vm.max_map_count`.
pub(crate) fn view(state: &mut State, now_ns: u64, limit: Option<u64>, table: Table, order: Order) -> View {
    state.tick(now_ns);
    state.look(limit);
    let state = &*state;
    let mut view = View { limit, ..View::default() };
    header(&mut view, state);
    view.rows = match table {
        Table::Calls => calls(state, now_ns),
        Table::Places => places(state, now_ns, order),
        Table::Verdicts => verdicts(state),
        Table::Slowest => slowest(state, now_ns),
        Table::Boundaries => boundaries(state),
    };
    sort(&mut view.rows, order);
    view.rows.truncate(ROWS);
    view.note = note(state, table);
    view
}

fn header(view: &mut View, state: &State) {
    match (state.focus(), state.largest()) {
        (Some(focus), _) => {
            let others = match focus.live {
                0 | 1 => String::new(),
                n => format!(", the largest of {}", plural(n, "process")),
            };
            view.process = format!("process {} ({}){others}", focus.pid, name(focus.program));
            view.areas = focus.space.len() as u64;
            view.mapped = bytes(focus.space.bytes());
        }
        (None, Some((largest, _))) => {
            view.process = format!("process {} ({}), near its peak", largest.pid, name(&largest.program));
            view.areas = largest.survey.areas;
            view.mapped = bytes(largest.survey.bytes);
        }
        (None, None) => view.process = "no process yet".to_owned(),
    }
    view.over_time = state.totals().timeline.columns(CELLS);
    let why = state.largest().and_then(|(largest, _)| largest.why.as_ref());
    view.why = why.and_then(|why| why.verdicts.first()).map(verdict);
}

/// The name of a program, without its directory.
fn name(program: &str) -> String {
    clean(program.rsplit_once('/').map_or(program, |(_, name)| name))
}

fn verdict(v: &Verdict) -> String {
    format!("{}: {}", why::word(v.kind), why::sentence(v))
}

/// The note on a table besides its rows.
fn note(state: &State, table: Table) -> String {
    if let Some(lost) = &state.totals().lost {
        return format!("the areas cannot be followed any further: {}", clean(lost));
    }
    let about = |what: &str| match state.largest() {
        Some((largest, true)) => format!("{what} of process {}", largest.pid),
        Some((largest, false)) => format!("{what} of process {}, close to its peak", largest.pid),
        None => format!("{what}: no process has areas yet"),
    };
    match table {
        Table::Calls => "times include the stops of recording".to_owned(),
        Table::Places => about("areas are those"),
        Table::Verdicts => {
            let why = state.largest().and_then(|(largest, _)| largest.why.as_ref());
            let others = why.map_or_else(String::new, |why| format!("; {} in none", plural(why.others, "area")));
            about("verdicts on the areas") + &others
        }
        Table::Slowest => "calls that returned in the last 10 seconds".to_owned(),
        Table::Boundaries => about("boundaries"),
    }
}

fn calls(state: &State, now_ns: u64) -> Vec<Row> {
    let row = |(name, rate, all): (&str, samara_trace::summary::CallTotals, samara_trace::summary::CallTotals)| Row {
        key: Key::Call(name.to_owned()),
        values: vec![rate.count, rate.total_ns, all.failed, all.count, all.total_ns],
        text: name.to_owned(),
    };
    state.calls(now_ns).map(row).collect()
}

fn places(state: &State, now_ns: u64, order: Order) -> Vec<Row> {
    let sites = state.sites();
    let held = state.largest().and_then(|(largest, _)| largest.why.as_ref()).map_or(&[][..], |why| &why.holdings);
    let held: HashMap<u32, u64> = held.iter().map(|holding| (holding.site, holding.areas)).collect();
    let mut rows: Vec<Row> = (0..)
        .zip(state.made(now_ns))
        .filter_map(|(number, made)| {
            let site = sites.site(number).filter(|site| site.calls > 0)?;
            let areas = held.get(&number).copied().unwrap_or(0);
            let values = vec![areas, made.mapped, made.splits, made.ns, site.mapped.0];
            Some(Row { key: Key::Place(number), values, text: String::new() })
        })
        .collect();
    // A text is made only for those that are shown.
    sort(&mut rows, order);
    rows.truncate(ROWS);
    for row in &mut rows {
        if let Key::Place(number) = row.key
            && let Some(site) = sites.site(number)
        {
            row.text = why::of_site(site, sites);
        }
    }
    rows
}

fn verdicts(state: &State) -> Vec<Row> {
    let why = state.largest().and_then(|(largest, _)| largest.why.as_ref());
    let row = |v: &Verdict| Row { key: Key::of(v), values: vec![v.areas, v.would_go], text: verdict(v) };
    why.map_or_else(Vec::new, |why| why.verdicts.iter().map(row).collect())
}

fn slowest(state: &State, now_ns: u64) -> Vec<Row> {
    let row = |slow: &super::state::Slow| {
        let event = &slow.event;
        let name = event.nr.map_or_else(|| "call".to_owned(), line::name);
        let call = crate::call_arguments::call(&name, &event.args, None);
        let result = crate::call_arguments::result(&name, event.result);
        Row {
            key: Key::Slow(event.seq),
            values: vec![slow.ns, now_ns.saturating_sub(event.exit_ns)],
            text: format!("{} {call} = {result}", event.pid),
        }
    };
    state.slow(now_ns).map(row).collect()
}

fn boundaries(state: &State) -> Vec<Row> {
    let all = state.largest().map_or(&[][..], |(largest, _)| &largest.survey.boundaries);
    let row = |b: &samara_trace::survey::Boundary| Row {
        key: Key::Boundary(b.reason.clone()),
        values: vec![b.boundaries, b.alone],
        text: survey::reason(b),
    };
    all.iter().map(row).collect()
}
