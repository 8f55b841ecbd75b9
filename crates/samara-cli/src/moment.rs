//! Parses a moment of a trace, as `--at` takes it. Knows nothing of traces.

use std::str::FromStr;
use std::time::UNIX_EPOCH;

use samara_trace::event::Event;
use samara_trace::file::Header;

/// A moment of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// After the event with this number.
    Event(u64),
    /// This number of nanoseconds after the recording began.
    Time(u64),
    /// This number of nanoseconds after the beginning of 1970, UTC. The header of the trace says
    /// when that was ([`on`](Moment::on)).
    Clock(u64),
    /// When the process had the most areas. The reader of the trace finds the event.
    Peak,
}

impl Moment {
    /// Whether the event is over at this moment.
    pub(crate) fn includes(self, event: &Event) -> bool {
        match self {
            Moment::Event(seq) => event.seq <= seq,
            Moment::Time(ns) => event.exit_ns <= ns,
            Moment::Clock(_) | Moment::Peak => true,
        }
    }

    /// The same for [`Trace::space`](samara_trace::Trace::space), of a moment that is
    /// [one of the trace](Moment::on).
    pub(crate) fn of_trace(self) -> samara_trace::Moment {
        match self {
            Moment::Event(seq) => samara_trace::Moment::Event(seq),
            Moment::Time(ns) => samara_trace::Moment::Time(ns),
            Moment::Clock(_) | Moment::Peak => samara_trace::Moment::Peak,
        }
    }

    /// The same moment of a trace, as a time since its recording began. `None`: its header does not
    /// say when that was.
    pub(crate) fn on(self, header: &Header) -> Option<Moment> {
        match self {
            Moment::Clock(ns) => Some(Moment::Time(ns.saturating_sub(began(header)?))),
            other => Some(other),
        }
    }
}

/// When a recording began, in nanoseconds since the beginning of 1970, UTC.
pub(crate) fn began(header: &Header) -> Option<u64> {
    clock(&header.start_time)
}

fn clock(text: &str) -> Option<u64> {
    let since = humantime::parse_rfc3339_weak(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}

/// A span of time, from one moment to another, both included.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct During {
    pub(crate) from: Option<Moment>,
    pub(crate) to: Option<Moment>,
}

impl During {
    /// Whether it has begun when the event is over.
    pub(crate) fn has_begun(self, event: &Event) -> bool {
        match self.from {
            Some(Moment::Event(seq)) => event.seq >= seq,
            Some(Moment::Time(ns)) => event.exit_ns >= ns,
            Some(Moment::Clock(_) | Moment::Peak) | None => true,
        }
    }

    /// Whether it has ended before the event is over.
    pub(crate) fn has_ended(self, event: &Event) -> bool {
        self.to.is_some_and(|to| !to.includes(event))
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "give an event's number (300), a time with a unit (1.5s, 20ms, 300us, 7000ns), a date and time of UTC (2026-01-31T20:15:00.5Z), or peak".to_owned()
        };
        if text == "peak" {
            return Ok(Moment::Peak);
        }
        if let Some(ns) = clock(text) {
            return Ok(Moment::Clock(ns));
        }
        if let Ok(seq) = text.parse() {
            return Ok(Moment::Event(seq));
        }
        // `ms` ends in `s`, so longer units are tried first.
        for (unit, ns) in [("ns", 1), ("us", 1_000), ("µs", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000u64)] {
            let Some(number) = text.strip_suffix(unit) else { continue };
            let (whole, part) = number.split_once('.').unwrap_or((number, ""));
            let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
            if whole.is_empty() || !digits(whole) || !digits(part) || part.len() > 9 || number.ends_with('.') {
                return Err(wrong());
            }
            let whole = whole.parse::<u64>().ok().and_then(|n| n.checked_mul(ns)).ok_or_else(wrong)?;
            // At most nine digits times at most a billion nanoseconds fit into a u64.
            let part = part.parse::<u64>().unwrap_or(0) * ns / 10u64.pow(part.len() as u32);
            return whole.checked_add(part).map(Moment::Time).ok_or_else(wrong);
        }
        Err(wrong())
    }
}

#[cfg(test)]
#[path = "moment_tests.rs"]
mod tests;
