//! Standard output and messages. A closed pipe (`| head`) is no error.

use std::ffi::OsStr;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once, mpsc};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use nix::errno::Errno;
use samara_trace::file::{Printable, name_text};

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const RED: Style = AnsiColor::Red.on_default().bold();
pub(crate) const GREEN: Style = AnsiColor::Green.on_default();
pub(crate) const CYAN: Style = AnsiColor::Cyan.on_default();

/// How long a FIFO may block before a message says that it waits.
const PATIENCE: Duration = Duration::from_millis(500);

/// Whether standard output was closed when the program was started. Writes are then lost without an
/// error, because `/dev/null` is open in its place.
static WAS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Sets, before anything is printed, whether standard output was closed.
pub(crate) fn set_closed(was_closed: bool) {
    WAS_CLOSED.store(was_closed, Ordering::Relaxed);
}

/// An error if standard output was closed when the program was started.
pub(crate) fn check_stdout() -> io::Result<()> {
    match WAS_CLOSED.load(Ordering::Relaxed) {
        true => Err(Errno::EBADF.into()),
        false => Ok(()),
    }
}

/// A text in a style.
pub(crate) fn styled(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Prints an error message to standard error.
pub(crate) fn error(text: impl Display) {
    // A closed standard error cannot show the message.
    let _ = writeln!(anstream::stderr(), "{}{}", styled(RED, "samara: "), clean(&text.to_string()));
}

/// Runs `print` on buffered standard output. An error if not all could be written; a closed pipe
/// counts as success, because its reader has what it wanted.
pub(crate) fn stdout(print: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    write_to(io::stdout().lock(), print)
}

/// Like [`stdout`], for text with styles, which are kept only on a terminal.
pub(crate) fn styled_stdout(print: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    write_to(anstream::AutoStream::auto(io::stdout()), print)
}

/// Makes writes past the limit of file sizes (`ulimit -f`) ordinary errors: by default their signal
/// ends this process. Called late, before the first write: programs that are started earlier
/// inherit the original disposition.
pub(crate) fn refuse_size_signal() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    });
}

fn write_to(out: impl Write, print: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    check_stdout()?;
    refuse_size_signal();
    let mut out = io::BufWriter::with_capacity(1 << 16, out);
    match print(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            // The rest of the buffer must not be written when the buffer is dropped.
            drop(out.into_parts());
            Ok(())
        }
        other => other,
    }
}

/// Whether standard output is a terminal, which text from a file must not control.
pub(crate) fn to_terminal() -> bool {
    io::stdout().is_terminal()
}

/// The text, cut if it is long.
pub(crate) fn short(text: &str) -> String {
    match text.char_indices().nth(70) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// The text with escapes: harmless on a terminal, even if a traced program chose it.
pub(crate) fn clean(text: &str) -> String {
    Printable(text).to_string()
}

/// The name of a file, or another string of the system, with escapes, also for bytes that are not
/// UTF-8.
pub(crate) fn shown(name: impl AsRef<OsStr>) -> String {
    clean(&name_text(name.as_ref().as_bytes()))
}

/// JSON in which the characters that [`clean`] escapes are escaped as JSON does. It means the same,
/// and does no harm on a terminal.
pub(crate) fn clean_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        // Between strings JSON has only spaces and newlines; within strings it has no newlines and
        // no other ASCII control characters.
        if c.is_ascii() && c != '\x7f' || Printable::is_plain(c) {
            out.push(c);
        } else {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
    }
    out
}

/// Opens a file. Prints a message if a FIFO blocks for long, because its other end is not open.
pub(crate) fn waiting<T>(path: &Path, other: &str, open: impl FnOnce() -> T) -> T {
    if !path.metadata().is_ok_and(|meta| meta.file_type().is_fifo()) {
        return open();
    }
    said_late(PATIENCE, || format!("{}: waiting for {other} of this FIFO", shown(path)), open)
}

/// Runs `act`. If it takes longer than `after`, prints `text`.
pub(crate) fn said_late<T>(after: Duration, text: impl FnOnce() -> String + Send, act: impl FnOnce() -> T) -> T {
    let (done, watch) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        // Without a thread nothing is printed.
        let _ = std::thread::Builder::new().spawn_scoped(scope, move || {
            if watch.recv_timeout(after) == Err(mpsc::RecvTimeoutError::Timeout) {
                error(text());
            }
        });
        let did = act();
        drop(done);
        did
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_told() {
        let (tells, told) = mpsc::channel();
        let text = move || {
            tells.send(()).unwrap();
            "this takes long, as a test wants".to_owned()
        };
        assert_eq!(said_late(Duration::ZERO, text, || told.recv()), Ok(()));
        assert_eq!(said_late(Duration::MAX, || unreachable!(), || 7), 7);
    }
}
