//! A reading as metrics, in the text format of Prometheus (version 0.0.4). Does not know where the
//! text goes.
//!
//! - **METRICS-1** a family has one HELP and one TYPE, before its samples, which stand together.
//! - **METRICS-2** there are no more series than a constant and eight for each row: processes that
//!   have no row are summed.
//!
//! A row's labels are `pid` and `name`, so a process that is started again makes new series. Names
//! have no control characters ([`clean`]); characters that the format escapes in labels are
//! escaped.

use std::fmt::{Display, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use super::reading::{Reading, Row};
use crate::output::clean;

/// The type of the text, for HTTP.
pub(crate) const TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The text of a reading.
pub(crate) fn text(reading: &Reading) -> String {
    let mut out = Text(String::new());
    let gauge = "gauge";
    let limit = reading.limit.map(|limit| limit as f64);
    let percent = |row: &Row| Some(row.areas as f64 / limit.filter(|limit| *limit > 0.0)?);
    let rows = &reading.top;
    out.one("samara_process_areas_limit", gauge, "Areas that a process may have (vm.max_map_count).", limit);
    out.rows("samara_process_areas", "Areas (VMAs) of a process. Only processes with the most areas.", rows, |row| {
        Some(row.areas as f64)
    });
    out.rows("samara_process_areas_ratio", "A process's areas as a part of the limit.", rows, percent);
    let help = "Recent growth of a process's areas, per second.";
    out.rows("samara_process_areas_per_second", help, rows, |row| row.per_second);
    let help = "Time until a process reaches the limit of areas, at this pace. Absent: it does not grow, or the limit is more than ten days away.";
    out.rows("samara_process_limit_seconds", help, rows, |row| row.left.map(|left| left.as_secs_f64()));
    out.rows("samara_process_mapped_bytes", "Mapped bytes of a process.", rows, |row| Some(row.mapped as f64));
    out.rows("samara_process_resident_bytes", "Resident bytes of a process.", rows, |row| Some(row.resident as f64));
    let help = "The largest gap between two areas of a process.";
    out.rows("samara_process_largest_gap_bytes", help, rows, |row| Some(row.largest_gap as f64));
    out.causes(rows);
    let others = &reading.others;
    for (name, help, value) in [
        ("samara_other_processes", "Processes that have no series of their own.", others.processes),
        ("samara_other_processes_areas", "Areas of these processes together.", others.areas),
        ("samara_other_processes_mapped_bytes", "Mapped bytes of these processes together.", others.mapped),
        ("samara_other_processes_resident_bytes", "Resident bytes of these processes together.", others.resident),
        ("samara_unreadable_processes", "Processes whose areas may not be read.", reading.unreadable),
    ] {
        out.one(name, gauge, help, Some(value as f64));
    }
    let own = &reading.own;
    let since = |time: SystemTime| Some(time.duration_since(UNIX_EPOCH).ok()?.as_secs_f64());
    out.one("samara_watch_reading_timestamp_seconds", gauge, "When the processes were read.", since(reading.time));
    out.one("samara_watch_start_time_seconds", gauge, "When samara began to watch.", own.began.and_then(since));
    for (name, help, value) in [
        ("samara_watch_reading_seconds", "How long this reading took.", own.took),
        ("samara_watch_interval_seconds", "Time from this reading to the next one.", own.interval),
        ("samara_watch_asked_interval_seconds", "The interval that was asked for (--every).", own.asked),
        ("samara_watch_oldest_count_seconds", "Age of the oldest number of areas in this reading.", own.oldest),
    ] {
        out.one(name, gauge, help, Some(value.as_secs_f64()));
    }
    let counter = "counter";
    let cpu = Some(own.cpu.as_secs_f64());
    out.one("samara_watch_cpu_seconds_total", counter, "Processor time that samara used.", cpu);
    for (name, help, value) in [
        ("samara_watch_counts_total", "How often the areas of a process were counted.", own.counts),
        ("samara_watch_kept_total", "Surveys that were kept.", own.kept),
        ("samara_watch_not_kept_total", "Surveys that could not be kept.", own.not_kept),
    ] {
        out.one(name, counter, help, Some(value as f64));
    }
    out.head("samara_watch_alerts_total", counter, "Alerts by reason.");
    for (reason, count) in &own.alerts {
        out.sample("samara_watch_alerts_total", &[("reason", reason)], count);
    }
    out.head("samara_watch_info", gauge, "The version of samara.");
    out.sample("samara_watch_info", &[("version", env!("CARGO_PKG_VERSION"))], 1);
    out.0
}

struct Text(String);

impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail, here and below.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (i, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{label}=\"{}\"", if i == 0 { '{' } else { ',' }, escaped(text));
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    /// A family of one sample without labels; none, if there is no value.
    fn one(&mut self, name: &str, kind: &str, help: &str, value: Option<f64>) {
        let Some(value) = value else { return };
        self.head(name, kind, help);
        self.sample(name, &[], value);
    }

    /// A family with a sample for each row that has a value.
    fn rows(&mut self, name: &str, help: &str, rows: &[Row], value: impl Fn(&Row) -> Option<f64>) {
        self.head(name, "gauge", help);
        for row in rows {
            let Some(value) = value(row) else { continue };
            self.sample(name, &[("pid", &row.pid.to_string()), ("name", &clean(&row.name))], value);
        }
    }

    fn causes(&mut self, rows: &[Row]) {
        let name = "samara_process_cause_areas";
        let help = "Areas that the first verdict of samara why explains; pattern: the shape of the areas.";
        self.head(name, "gauge", help);
        for row in rows {
            let Some(cause) = &row.cause else { continue };
            let (pid, process) = (row.pid.to_string(), clean(&row.name));
            let labels = [
                ("pid", &*pid),
                ("name", &process),
                ("verdict", cause.verdict),
                ("pattern", cause.pattern.unwrap_or_default()),
            ];
            self.sample(name, &labels, cause.areas);
        }
    }
}

/// The text of a label's value.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
#[path = "metrics_tests.rs"]
mod tests;
