//! The result of one reading of all processes. Does not know how it was made.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use crate::pace;
use serde_json::{Value, json};

use super::cause::Cause;

/// Version of the JSON.
const FORMAT: u32 = 1;

/// A process with separate values.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) pid: u32,
    pub(crate) name: String,
    pub(crate) areas: u64,
    /// Its recent growth in areas per second; `None`: it was read once.
    pub(crate) per_second: Option<f64>,
    /// The time until the limit of areas, at this pace; `None`: it grows too slowly, or not.
    pub(crate) left: Option<Duration>,
    /// It has more areas than at the look before.
    pub(crate) grew: bool,
    pub(crate) mapped: u64,
    pub(crate) resident: u64,
    pub(crate) largest_gap: u64,
    pub(crate) cause: Option<Cause>,
}

/// The processes that have no row, together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Others {
    pub(crate) processes: u64,
    pub(crate) areas: u64,
    pub(crate) mapped: u64,
    pub(crate) resident: u64,
}

/// Figures of the watcher itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Own {
    /// When it began to watch.
    pub(crate) began: Option<SystemTime>,
    /// How long the reading took.
    pub(crate) took: Duration,
    /// The time to the next reading, and the one that was asked for.
    pub(crate) interval: Duration,
    pub(crate) asked: Duration,
    /// Processor time since the start.
    pub(crate) cpu: Duration,
    /// How often areas were counted since the start.
    pub(crate) counts: u64,
    /// The age of the oldest number of areas.
    pub(crate) oldest: Duration,
    /// Number of alerts since the start, for each reason that there can be; 0 before the first one.
    pub(crate) alerts: BTreeMap<String, u64>,
    /// Number of times that areas were kept since the start, and of failures.
    pub(crate) kept: u64,
    pub(crate) not_kept: u64,
}

/// One reading of all processes.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    pub(crate) time: SystemTime,
    /// `vm.max_map_count`, if it can be read.
    pub(crate) limit: Option<u64>,
    /// The processes with the most areas, these first.
    pub(crate) top: Vec<Row>,
    pub(crate) others: Others,
    /// Processes whose areas may not be read. They are in no other figure.
    pub(crate) unreadable: u64,
    pub(crate) own: Own,
}

impl Reading {
    /// The reading as one object.
    pub(crate) fn json(&self) -> Value {
        let seconds = |time: Duration| time.as_secs_f64();
        let row = |row: &Row| {
            json!({
                "pid": row.pid,
                "name": row.name,
                "areas": row.areas,
                "headroom": self.limit.map(|limit| limit.saturating_sub(row.areas)),
                "areas_per_second": row.per_second,
                "limit_in_seconds": row.left.map(pace::whole_seconds),
                "mapped_bytes": row.mapped,
                "resident_bytes": row.resident,
                "largest_gap": row.largest_gap,
                "verdict": row.cause.as_ref().map(|cause| cause.verdict),
                "pattern": row.cause.as_ref().and_then(|cause| cause.pattern),
                // Looked for later than the areas were counted.
                "explained": row.cause.as_ref().map(|cause| cause.areas.min(row.areas)),
            })
        };
        json!({
            "format": FORMAT,
            "time": humantime::format_rfc3339_millis(self.time).to_string(),
            "limit": self.limit,
            "top": self.top.iter().map(row).collect::<Vec<_>>(),
            "others": {
                "processes": self.others.processes,
                "areas": self.others.areas,
                "mapped_bytes": self.others.mapped,
                "resident_bytes": self.others.resident,
            },
            "unreadable": self.unreadable,
            "watch": {
                "reading_seconds": seconds(self.own.took),
                "interval_seconds": seconds(self.own.interval),
                "asked_interval_seconds": seconds(self.own.asked),
                "cpu_seconds": seconds(self.own.cpu),
                "counts": self.own.counts,
                "oldest_count_seconds": seconds(self.own.oldest),
                "alerts": self.own.alerts.iter().filter(|(_, count)| **count > 0).collect::<BTreeMap<_, _>>(),
                "kept": self.own.kept,
                "not_kept": self.own.not_kept,
            },
        })
    }
}
