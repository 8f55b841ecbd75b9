//! What the kernel tells in files, and errors that say what they befell.

use std::io;

/// An error with what it befell.
pub(crate) fn during(what: &str) -> impl Fn(io::Error) -> io::Error {
    move |e| io::Error::new(e.kind(), format!("{what}: {e}"))
}

/// The text of a file that the kernel makes.
pub(crate) fn read(path: &str) -> io::Result<String> {
    std::fs::read_to_string(path).map_err(during(path))
}
