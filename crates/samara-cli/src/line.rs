//! Formats an event as a line for people. Knows nothing of files.

use std::borrow::Cow;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use samara_trace::event::{Event, EventKind, Step, StepKind, UNSURE};
use samara_trace::file::{Frame, Place, Printable, Stack, StackEnd, Stacks, call_name};

use crate::call_arguments;
use crate::format::{bytes, plural, time};
use crate::output::{BOLD, CYAN, DIM, GREEN, RED, clean, styled};
use crate::refused;

/// Marks a call or a fork whose effect is not known.
const UNSURE_MARK: &str = " [unsure until the next comparison]";

/// What a line shows besides its event.
#[derive(Debug, Default)]
pub(crate) struct Beside {
    /// Number of areas of the space after the event.
    pub(crate) areas: Option<u64>,
    /// The instruction that made the call.
    pub(crate) caller: Option<Place>,
    /// When the recording began, in nanoseconds since the beginning of 1970: the line then begins
    /// with the time of day, UTC, instead of the time since the start.
    pub(crate) began_ns: Option<u64>,
}

/// Writes the line without its newline. Text that a program chose is escaped. The line is written
/// in pieces, because it may be long.
pub(crate) fn line(out: &mut dyn Write, event: &Event, beside: &Beside) -> io::Result<()> {
    let fraction = |ns: u64| format!("{:06}", ns / 1000 % 1_000_000);
    let seconds = match beside.began_ns.map(|began| began.saturating_add(event.exit_ns)) {
        Some(ns) => {
            let s = ns / 1_000_000_000;
            format!("{:02}:{:02}:{:02}.{}", s / 3600 % 24, s / 60 % 60, s % 60, fraction(ns))
        }
        None => format!("{}.{}", event.exit_ns / 1_000_000_000, fraction(event.exit_ns)),
    };
    let task = if event.pid == event.tid { event.pid.to_string() } else { format!("{}/{}", event.pid, event.tid) };
    let number = styled(DIM, format!("{:>6} {seconds:>11}", event.seq));
    write!(out, "{number}  {}  ", styled(CYAN, format!("{task:<8}")))?;
    what(out, event)?;
    for (i, one) in event.plan.iter().enumerate() {
        match i {
            0 => write!(out, " {} {}", styled(DIM, ";"), step(one))?,
            _ => write!(out, ", {}", step(one))?,
        }
    }
    let kinds = event.resident.map(|now| [(now.private_change, "private"), (now.files_change, "of files")]);
    for (i, (change, kind)) in kinds.iter().flatten().filter(|(change, _)| *change != 0).enumerate() {
        let sign = if *change < 0 { '-' } else { '+' };
        let start = if i == 0 { format!(" {} resident ", styled(DIM, ";")) } else { ", ".to_owned() };
        write!(out, "{start}{sign}{} {kind}", bytes(change.unsigned_abs()))?;
    }
    if let Some(areas) = beside.areas.filter(|_| !event.plan.is_empty()) {
        write!(out, " {}", styled(DIM, format!("({})", plural(areas, "area"))))?;
    }
    match &beside.caller {
        Some(caller) => write!(out, " {}", styled(DIM, format!("from {}", clean(&place(caller))))),
        None => Ok(()),
    }
}

fn what(out: &mut dyn Write, event: &Event) -> io::Result<()> {
    let text = Printable(&event.text);
    let mapped = || bytes(event.areas.iter().map(|a| a.end - a.start).fold(0, u64::wrapping_add));
    let space = || format!("{}, {}", plural(event.areas.len() as u64, "area"), mapped());
    match event.kind {
        EventKind::Call => return call(out, event),
        EventKind::Exec => write!(out, "{} {text}: {}", styled(BOLD, "exec"), space()),
        EventKind::Found => write!(out, "{} {text}: {}", styled(BOLD, "found"), space()),
        EventKind::Fork => {
            let unsure = if event.text == UNSURE { UNSURE_MARK } else { "" };
            write!(out, "{} process {}: {}{unsure}", styled(BOLD, "fork"), event.pid, space())
        }
        EventKind::Share => write!(out, "{} process {} shares its parent's areas", styled(BOLD, "vfork"), event.pid),
        EventKind::Thread => write!(out, "{} {}", styled(BOLD, "thread"), event.tid),
        // Where the status is not known.
        EventKind::Exit if !event.text.is_empty() => write!(out, "{}: {text}", styled(BOLD, "exit")),
        EventKind::Exit => {
            let signal = |number| signal_hook::low_level::signal_name(number).unwrap_or("a signal");
            let at = event.fault().map_or_else(String::new, |address| match event.args[2] as i32 {
                other if other != 0 && i64::from(other) != event.result & 0x7f => {
                    format!(" in the handler of {} at {address:#x}", signal(other))
                }
                _ => format!(" at {address:#x}"),
            });
            write!(out, "{} {}{at}", styled(BOLD, "exit"), ended(event.result))
        }
        EventKind::Learnt => write!(out, "{} {text}", styled(BOLD, "learnt")),
        EventKind::Difference => write!(out, "{} {text}", styled(RED, "DIFFERENCE")),
        EventKind::Checked if event.result == 0 => {
            let text = if event.text.is_empty() { String::new() } else { format!(", {text}") };
            write!(out, "{} model and /proc/{}/maps are equal{text}", styled(GREEN, "checked"), event.pid)
        }
        EventKind::Checked => {
            write!(out, "{} model and /proc/{}/maps differ {text}", styled(RED, "checked"), event.pid)
        }
        _ => write!(out, "{:?} {text}", event.kind),
    }?;
    // Execs and other events can be caused by a call too.
    let Some(nr) = event.nr else { return Ok(()) };
    let lasted = time(event.exit_ns.saturating_sub(event.entry_ns));
    write!(out, " {}", styled(DIM, format!("by {} <{lasted}>", name(nr))))
}

fn call(out: &mut dyn Write, event: &Event) -> io::Result<()> {
    let name = event.nr.map_or_else(|| "call".to_owned(), name);
    let result = call_arguments::result(&name, event.result);
    let result = if call_arguments::errno(event.result).is_some() { styled(RED, result) } else { result };
    let duration = time(event.exit_ns.saturating_sub(event.entry_ns)).replace(' ', "");
    let overlapped = if event.overlapped { " ~" } else { "" };
    let duration = styled(DIM, format!("<{duration}>"));
    // The area that a map made has the name of its file.
    let made = event.areas.iter().find(|area| area.start <= event.result as u64 && (event.result as u64) < area.end);
    let file = made.filter(|area| area.inode != 0 && event.args[4] as i32 >= 0).map(|area| &*area.name);
    write!(out, "{} = {result} {duration}{overlapped}", call_arguments::call(&name, &event.args, file))?;
    match event.text.as_str() {
        "" => Ok(()),
        UNSURE => write!(out, "{UNSURE_MARK}"),
        why => match why.parse() {
            Ok(by) => write!(out, " [refused: {}]", refused::text(&by)),
            Err(_) => write!(out, " [refused: {}]", Printable(why)), // by a rule of a later version
        },
    }
}

/// Writes the frames of a stack as they were at a moment, each on a new line after a newline.
pub(crate) fn stack(out: &mut dyn Write, stacks: &Stacks, stack: &Stack, ns: u64) -> io::Result<()> {
    for frame in &stack.frames {
        write!(out, "\n{:20}{}", "", clean(&stacks.shown_at(frame, ns).to_string()))?;
    }
    match stack.end {
        StackEnd::First => Ok(()),
        StackEnd::Cut => write!(out, "\n{:20}{}", "", styled(DIM, "(more functions than are kept)")),
        StackEnd::Lost => write!(out, "\n{:20}{}", "", styled(DIM, "(its callers are not known)")),
    }
}

/// A place as `libc.so.6+0x11bb8c`, or `[anon]+0x7f...`.
pub(crate) fn place(place: &Place) -> String {
    let file = place.name.rsplit_once('/').map_or(&*place.name, |(_, file)| file);
    format!("{}+{:#x}", if file.is_empty() { "[anon]" } else { file }, place.at)
}

/// The word for missing outermost functions of a stack, if some are missing.
pub(crate) fn missing(end: StackEnd) -> Option<&'static str> {
    match end {
        StackEnd::First => None,
        StackEnd::Cut => Some("[more]"),
        StackEnd::Lost => Some("[unknown]"),
    }
}

/// The functions of a frame with a name, each with its place, the outermost first; or the frame's
/// address. There is at least one.
pub(crate) fn functions<'s>(stacks: &'s Stacks, frame: &Frame) -> Vec<(Cow<'s, str>, &'s str)> {
    let named = stacks.functions(frame).iter().rev().filter(|function| !function.name.is_empty());
    let named: Vec<_> = named.map(|function| (Cow::from(&*function.name), &*function.place)).collect();
    match named.is_empty() {
        true => stacks.names(frame).into_iter().map(|address| (Cow::from(address), "")).collect(),
        false => named,
    }
}

/// The names of functions that stay the same in other runs: code without a file (of a JIT compiler)
/// lies elsewhere in each, so consecutive functions of it share one name.
pub(crate) fn lasting(names: Vec<String>) -> Vec<String> {
    const NOWHERE: &str = "[anon]";
    let is_nowhere = |name: &str| name.strip_prefix("? ").unwrap_or(name).starts_with("[anon]+0x");
    let lasts = |name: String| if is_nowhere(&name) { NOWHERE.to_owned() } else { name };
    let mut names: Vec<String> = names.into_iter().map(lasts).collect();
    names.dedup_by(|b, a| a == b && a == NOWHERE);
    names
}

/// The functions of a stack in one line, the outermost first, a `;` after each.
pub(crate) fn folded(stacks: &Stacks, stack: &Stack) -> String {
    let mut names = missing(stack.end).map_or_else(String::new, |word| format!("{word};"));
    for frame in stack.frames.iter().rev() {
        for name in stacks.names(frame) {
            names.push_str(if frame.guessed { "? " } else { "" });
            names.push_str(&clean(&name.replace(';', ":")));
            names.push(';');
        }
    }
    names
}

/// The name of a call, or its number.
pub(crate) fn name(nr: u32) -> String {
    call_name(nr).map_or_else(|| format!("call {nr}"), str::to_owned)
}

fn step(step: &Step) -> String {
    let Step { kind, start, end } = step;
    let range = || format!("{start:x}-{end:x} ({})", bytes(end.wrapping_sub(*start)));
    match kind {
        StepKind::Unmapped => format!("unmapped {}", range()),
        StepKind::Mapped => format!("mapped {}", range()),
        StepKind::Changed(_) => format!("changed {}", range()),
        StepKind::Moved => format!("moved from {}", range()),
        StepKind::Split => format!("split at {start:x}"),
        StepKind::Merged => format!("merged at {start:x}"),
        _ => format!("{kind:?} {}", range()),
    }
}

/// How a process ended, from its wait status: `with 0`, `by SIGKILL`.
pub(crate) fn ended(status: i64) -> String {
    how(ExitStatus::from_raw(status as i32))
}

/// How a process ended.
pub(crate) fn how(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("with {code}"),
        (_, Some(signal)) => {
            let name =
                signal_hook::low_level::signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_owned);
            format!("by {name}{}", if status.core_dumped() { " (core dumped)" } else { "" })
        }
        _ => "in an unknown way".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another run has unnamed code at other addresses, and in other frames.
    #[test]
    fn unnamed_code_has_one_name() {
        let names = |names: &[&str]| lasting(names.iter().map(|name| (*name).to_owned()).collect());
        let one = names(&["mmap", "[anon]+0x7f01", "? [anon]+0x7f02", "main", "main", "[anon]+0x1"]);
        assert_eq!(one, ["mmap", "[anon]", "main", "main", "[anon]"]);
        assert_eq!(one, names(&["mmap", "[anon]+0x55", "main", "main", "[anon]+0x2", "[anon]+0x3"]));
        assert_eq!(names(&["q+0x1171", "[anon]"]), ["q+0x1171", "[anon]"]);
    }

    #[test]
    fn an_unknown_status_is_not_told_as_0() {
        let line = |event: &Event| {
            let mut out = Vec::new();
            what(&mut out, event).unwrap();
            anstream::adapter::strip_bytes(&out).into_vec()
        };
        let exit = Event::new(0, EventKind::Exit);
        assert_eq!(line(&Event { result: 3 << 8, ..exit.clone() }), b"exit with 3");
        assert_eq!(
            line(&Event { text: "how it ended is not known".into(), ..exit }),
            b"exit: how it ended is not known"
        );
    }
}
