//! The outputs of exports, pages and summaries: a file that appears under its name when it is
//! complete, or standard output. Does not know the content.

use std::fs::{File, Metadata};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use samara_trace::output::{Access, OutputFile, OutputName};

use crate::output::refuse_size_signal;

/// Whether two names are those of one regular file. This protects from typing errors only, so names
/// may change afterwards.
pub(crate) fn is_same(a: &Path, b: &Path) -> bool {
    let id = |path: &Path| path.metadata().ok().filter(Metadata::is_file).map(|file| (file.dev(), file.ino()));
    id(a).is_some_and(|a| id(b) == Some(a))
}

/// Whether writes to a name would mix with standard output: they are one file, or one terminal.
/// (Any number of outputs may go to a device such as `/dev/null`.)
pub(crate) fn is_stdout(name: &OutputName) -> bool {
    let Some(file) = name.existing() else { return false };
    let (Ok(theirs), Ok(ours)) = (file.metadata(), std::fs::metadata("/dev/fd/1")) else { return false };
    match theirs.file_type().is_char_device() {
        true => theirs.rdev() == ours.rdev() && file.is_terminal(),
        false => (theirs.dev(), theirs.ino()) == (ours.dev(), ours.ino()),
    }
}

/// An output that others read when it is complete.
pub(crate) enum Output {
    Stdout(BufWriter<io::Stdout>),
    File(BufWriter<OutputFile>),
}

impl Output {
    /// Opens an output; `-` is standard output.
    pub(crate) fn create(path: &Path, access: Access) -> io::Result<Output> {
        let name = if path == Path::new("-") { None } else { Some(OutputName::resolve(path)?) };
        Output::resolved(name, access)
    }

    /// Opens an output whose name was resolved; `None` is standard output.
    pub(crate) fn resolved(name: Option<OutputName>, access: Access) -> io::Result<Output> {
        match name {
            Some(name) => Ok(Output::of(name.whole(access)?)),
            None => Ok(Output::Stdout(BufWriter::new(io::stdout()))),
        }
    }

    /// An output to a file.
    pub(crate) fn of(file: OutputFile) -> Output {
        Output::File(BufWriter::with_capacity(1 << 16, file))
    }

    /// Whether it would go to a terminal.
    pub(crate) fn is_terminal(path: &Path) -> bool {
        path == Path::new("-") && io::stdout().is_terminal()
    }

    /// A temporary file without a name, in the directory of the output if it has one.
    pub(crate) fn scratch(&self) -> io::Result<File> {
        refuse_size_signal();
        match self {
            Output::Stdout(_) => tempfile::tempfile(),
            Output::File(out) => out.get_ref().scratch().or_else(|_| tempfile::tempfile()),
        }
    }

    /// Makes the file appear under its name.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self {
            Output::Stdout(mut out) => out.flush(),
            Output::File(out) => out.into_inner().map_err(io::IntoInnerError::into_error)?.commit(),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::Stdout(out) => {
                refuse_size_signal();
                out.write(bytes)
            }
            Output::File(out) => {
                refuse_size_signal();
                out.write(bytes)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::Stdout(out) => out.flush(),
            Output::File(out) => out.flush(),
        }
    }
}
