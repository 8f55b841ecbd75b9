//! Standard output and messages. A reader that goes away (`| head`) is no error.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const RED: Style = AnsiColor::Red.on_default().bold();
pub(crate) const GREEN: Style = AnsiColor::Green.on_default();
pub(crate) const CYAN: Style = AnsiColor::Cyan.on_default();

/// A style around a text.
pub(crate) fn styled(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Says on standard error what went wrong.
pub(crate) fn error(text: impl Display) {
    // Where standard error is closed there is nobody to tell.
    let _ = writeln!(anstream::stderr(), "{}{}", styled(RED, "samara: "), clean(&text.to_string()));
}

/// Runs `print` on standard output, buffered, to the byte; whether all could be written. An output that was closed counts
/// as success: whoever read it has what he wanted.
pub(crate) fn stdout(print: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    write_to(io::stdout().lock(), print)
}

/// The same for text with styles, which stay only on a terminal.
pub(crate) fn styled_stdout(print: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    write_to(anstream::AutoStream::auto(io::stdout()), print)
}

fn write_to(out: impl Write, print: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = io::BufWriter::with_capacity(1 << 16, out);
    match print(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            // What is left in the buffer must not be tried again when it is dropped.
            drop(out.into_parts());
            Ok(())
        }
        other => other,
    }
}

/// Whether standard output is a terminal, which text from a file must not command.
pub(crate) fn to_terminal() -> bool {
    io::stdout().is_terminal()
}

/// The text, cut where it is long.
pub(crate) fn short(text: &str) -> String {
    match text.char_indices().nth(70) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The text with control characters as octal escapes, as `/proc/PID/maps` shows newlines.
pub(crate) fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            out.push_str(&format!("\\{:03o}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}
