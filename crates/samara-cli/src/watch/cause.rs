//! The cause of a process's number of areas: the verdict that `samara why` gives on the same areas.
//!
//! For a metric the lines of `/proc/PID/maps` are enough; kept areas are read from `smaps`, which
//! costs ten times as much. Does not know when either is done.

use std::fs;
use std::os::unix::ffi::OsStrExt;

use samara_record::inspect::{InspectError, Look};
use samara_trace::event::{Event, EventKind};
use samara_trace::file::name_text;
use samara_trace::summary::Tally;

/// The end of a process's addresses with four levels of page tables.
const END: u64 = 1 << 47;

/// The class of the cause of most areas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cause {
    /// The verdict, by its name in JSON.
    pub(crate) verdict: &'static str,
    /// The pattern of the areas, if the cause was found by a pattern.
    pub(crate) pattern: Option<&'static str>,
    /// Areas that it explains.
    pub(crate) areas: u64,
}

/// The areas of a process as the lines of its maps file show them, by the number of one of its
/// threads.
pub(crate) fn lines(pid: u32) -> Result<Look, InspectError> {
    let maps = fs::File::open(format!("/proc/{pid}/maps")).map_err(InspectError::Io)?;
    Look::at_text(maps)
}

/// The first event of a trace of a running process: all areas that it has.
pub(crate) fn event(pid: u32, look: Look) -> Event {
    let exe = fs::read_link(format!("/proc/{pid}/exe")).map(|path| name_text(path.as_os_str().as_bytes()));
    let threads = look.process.as_ref().map_or(1, |process| process.threads);
    let end = look.areas.last().map_or(END, |area| area.end.max(END));
    Event {
        space: 1,
        pid,
        tid: pid,
        args: [threads, 0, 0, 0, 0, 0],
        window: Some((0, end)),
        areas: look.areas,
        text: exe.unwrap_or_default(),
        ..Event::new(0, EventKind::Found)
    }
}

/// The verdict on the areas of an event. `None`: no cause explains eight areas or more.
pub(crate) fn of(event: &Event) -> Option<Cause> {
    let mut tally = Tally::default();
    tally.add(event);
    let why = tally.summary().largest?.why?;
    let first = why.verdicts.first()?;
    Some(Cause { verdict: first.kind.name(), pattern: first.pattern.map(|pattern| pattern.name()), areas: first.areas })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guards_are_the_cause() {
        let line = |at: u64, perms: &str| format!("{at:08x}-{:08x} {perms} 00000000 00:00 0 \n", at + 0x1000);
        let text: String =
            (0..100).map(|i| line(0x10_0000 + i * 0x2000, "rw-p") + &line(0x10_1000 + i * 0x2000, "---p")).collect();
        let event = event(u32::MAX, Look::at_text(text.as_bytes()).unwrap());
        let cause = of(&event).unwrap();
        assert_eq!((cause.verdict, cause.pattern), ("kept-apart", Some("guard-pages")));
        assert_eq!((cause.areas, event.areas.len()), (200, 200));
        assert!(lines(std::process::id()).unwrap().areas.len() > 4);
        assert!(lines(u32::MAX).is_err());
    }
}
