//! Draws a view: pure, from data to cells. Knows neither states nor sources.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Paragraph, Wrap};

use super::view::{Column, Order, Table, View};
use crate::format::{count, sparkline};

/// From this height on there is room for more than the table and its numbers.
const TALL: u16 = 12;
/// From this height on there is room for the number of areas.
const MIDDLE: u16 = 7;
/// From this height on there is room for the names of the tables, and for keys.
const LOW: u16 = 5;
/// From this part of the limit on the number of areas is marked: nine tenths.
const NEAR: (u64, u64) = (9, 10);

pub(crate) const HELP: &str = "\
tab 1 2 3 4 5   another table
up down         another row; PgUp and PgDn by pages
enter           everything about the row: a place with its functions, a verdict with its calls
esc             back
s               sort by the next column
r               sort the other way round
space           stop the view, or go on; a program goes on in any case
ctrl-z          stop samara; what is recorded waits at its next call (not with --pid)
q               end; a program that runs is asked to end (SIGTERM), a second q kills it;
                with --pid the process is let go, and goes on
ctrl-c          the same by SIGINT
";

pub(crate) const HELP_TRACE: &str = "
Of a trace file:
space           play, or pause
+ -             twice as fast, half as fast
left right      a fiftieth of its time back, forward
, .             one event back, forward
home end        its beginning, its end
";

/// The user's choices.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) table: Table,
    pub(crate) order: Order,
    pub(crate) row: usize,
    /// A text in place of the table, with the number of its first line that is shown.
    pub(crate) text: Option<(Vec<String>, usize)>,
    /// The status, at the end of the first line.
    pub(crate) status: String,
    /// A message in place of the last line.
    pub(crate) message: Option<String>,
    pub(crate) title: String,
    pub(crate) colour: bool,
    pub(crate) keys: &'static str,
}

impl Chosen {
    fn coloured(&self, colour: Color) -> Style {
        if self.colour { Style::new().fg(colour) } else { Style::new() }
    }
}

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const MARKED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Draws all of it. Returns the number of rows of the table that have a line.
pub(crate) fn draw(frame: &mut Frame<'_>, view: &View, chosen: &Chosen) -> usize {
    let area = frame.area();
    let header = header(view, chosen, area);
    let lines = u16::try_from(header.len()).unwrap_or(1);
    let (note, keys) = (u16::from(area.height >= TALL), u16::from(area.height >= LOW));
    let [top, middle, noted, bottom] = Layout::vertical([
        Constraint::Length(lines),
        Constraint::Min(0),
        Constraint::Length(note),
        Constraint::Length(keys),
    ])
    .areas(area);
    frame.render_widget(Paragraph::new(header), top);
    let rows = match &chosen.text {
        Some((text, first)) => {
            let lines: Vec<Line<'_>> = text.iter().skip(*first).map(|line| Line::raw(&**line)).collect();
            frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }), middle);
            usize::from(middle.height)
        }
        None => table(frame, middle, view, chosen),
    };
    frame.render_widget(Paragraph::new(Line::styled(&*view.note, DIM)), noted);
    let last = match &chosen.message {
        Some(message) => Line::styled(&**message, MARKED),
        None => Line::styled(chosen.keys, DIM),
    };
    frame.render_widget(Paragraph::new(last), bottom);
    rows
}

fn header<'a>(view: &'a View, chosen: &'a Chosen, area: Rect) -> Vec<Line<'a>> {
    let mut lines = vec![Line::from(vec![
        Span::styled("samara top: ", chosen.coloured(Color::Cyan).patch(BOLD)),
        Span::styled(&*chosen.status, BOLD),
        Span::raw(": "),
        Span::raw(&*chosen.title),
    ])];
    let (limit, is_near) = match view.limit.filter(|limit| *limit > 0) {
        Some(limit) => {
            let part = u128::from(view.areas) * 100 / u128::from(limit);
            (format!(" of {} ({part} %)", count(limit)), view.areas / NEAR.0 >= limit / NEAR.1)
        }
        None => (String::new(), false),
    };
    let areas = if is_near { chosen.coloured(Color::Red).patch(BOLD) } else { BOLD };
    let mut numbers = Vec::new();
    if view.areas > 0 {
        numbers.push(Span::styled(format!("{} areas", count(view.areas)), areas));
        numbers.push(Span::raw(format!("{limit}, {}; ", view.mapped)));
    }
    numbers.push(Span::raw(&*view.process));
    if area.height >= MIDDLE {
        lines.push(Line::from(numbers));
    }
    if area.height >= TALL {
        let cells = bars(&view.over_time, usize::from(area.width).saturating_sub(10));
        lines.push(Line::from(vec![
            Span::styled("over time ", DIM),
            Span::styled(cells, chosen.coloured(Color::Green)),
        ]));
        lines.push(Line::from(vec![
            Span::styled("why       ", DIM),
            Span::raw(view.why.as_deref().unwrap_or("nothing stands out")),
        ]));
    }
    let mut tabs = Vec::new();
    for (number, table) in (1..).zip(Table::ALL) {
        let style = if table == chosen.table { chosen.coloured(Color::Cyan).patch(MARKED) } else { Style::new() };
        tabs.push(Span::styled(format!(" {number} {} ", table.name()), style));
    }
    if area.height >= LOW {
        lines.push(Line::from(tabs));
    }
    lines
}

/// The largest of the values in each of at most `most` columns, as bars.
fn bars(values: &[u64], most: usize) -> String {
    let count = most.min(values.len());
    let part = |i: usize| i * values.len() / count.max(1);
    let columns: Vec<u64> =
        (0..count).filter_map(|i| values.get(part(i)..part(i + 1))?.iter().copied().max()).collect();
    sparkline(&columns)
}

/// The columns that leave room for the text. The sorting column is always there.
fn columns(table: Table, order: Order, width: usize) -> Vec<(usize, &'static Column)> {
    let mut shown: Vec<_> = table.columns().iter().enumerate().collect();
    let taken = |shown: &[(usize, &Column)]| shown.iter().map(|(_, column)| column.width + 1).sum::<usize>();
    while taken(&shown) + table.text_width() > width
        && let Some(last) = shown.iter().rposition(|(i, _)| *i != order.column)
    {
        shown.remove(last);
    }
    shown
}

fn table(frame: &mut Frame<'_>, area: Rect, view: &View, chosen: &Chosen) -> usize {
    let columns = columns(chosen.table, chosen.order, usize::from(area.width));
    let mut head = Vec::new();
    for (i, column) in &columns {
        let is_sorted = *i == chosen.order.column;
        let style = if is_sorted { BOLD.add_modifier(Modifier::UNDERLINED) } else { DIM };
        head.push(Span::raw(" ".repeat(column.width.saturating_sub(column.name.len()))));
        head.push(Span::styled(column.name, style));
        // Sorted the other way round.
        head.push(Span::raw(if is_sorted && chosen.order.reverse { "^" } else { " " }));
    }
    head.push(Span::styled(chosen.table.text(), DIM));
    let mut lines = vec![Line::from(head)];
    let room = usize::from(area.height).saturating_sub(1);
    // The chosen row stays in sight.
    let first = chosen.row.saturating_sub(room.saturating_sub(1));
    for (number, row) in view.rows.iter().enumerate().skip(first).take(room) {
        let mut text = String::new();
        for (i, column) in &columns {
            let value = row.values.get(*i).map_or_else(String::new, |value| (column.show)(*value));
            text.push_str(&format!("{value:>width$} ", width = column.width));
        }
        text.push_str(&row.text);
        let style = if number == chosen.row { MARKED } else { Style::new() };
        lines.push(Line::styled(text, style));
    }
    if view.rows.is_empty() {
        lines.push(Line::styled("nothing yet", DIM));
    }
    frame.render_widget(Paragraph::new(lines), area);
    room
}

#[cfg(test)]
#[path = "draw_tests.rs"]
mod tests;
