//! Formats an area as a line of `/proc/PID/maps`, to the byte. Knows nothing of spaces.

use std::fmt;

use super::name_text::{Printable, name_bytes};
use super::names::perms_name;
use crate::event::AreaRecord;

/// Displays an area as its line of `/proc/PID/maps`, without the newline.
///
/// The text is for a person: the name is escaped as by [`Printable`]. The exact bytes are
/// [`to_bytes`](MapsLine::to_bytes).
///
/// ```
/// # use samara_trace::{event::AreaRecord, file::MapsLine};
/// let heap = AreaRecord {
///     start: 0x55d0c000,
///     end: 0x55d2d000,
///     perms: 0b0011,
///     offset: 0,
///     dev: (0, 0),
///     inode: 0,
///     name: "[heap]".into(),
///     apart: String::new(),
/// };
/// assert_eq!(
///     MapsLine(&heap).to_string(),
///     "55d0c000-55d2d000 rw-p 00000000 00:00 0                                  [heap]"
/// );
/// ```
#[derive(Debug)]
pub struct MapsLine<'a>(pub &'a AreaRecord);

/// The column where a name starts, counted from 0.
const NAME_COLUMN: usize = 73;

impl MapsLine<'_> {
    /// The bytes of the line as the kernel shows it, without the newline at its end.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut line = self.head().into_bytes();
        // A newline in a name is shown as `\012`, whatever the trace contains: a name must not
        // start a second line.
        for (i, part) in name_bytes(&self.0.name).split(|byte| *byte == b'\n').enumerate() {
            if i > 0 {
                line.extend_from_slice(b"\\012");
            }
            line.extend_from_slice(part);
        }
        line
    }

    /// The part before the name, padded if there is a name.
    fn head(&self) -> String {
        let a = self.0;
        let line = format!(
            "{:08x}-{:08x} {} {:08x} {:02x}:{:02x} {} ",
            a.start,
            a.end,
            perms_name(a.perms),
            a.offset,
            a.dev.0,
            a.dev.1,
            a.inode
        );
        if a.name.is_empty() { line } else { format!("{line:NAME_COLUMN$}") }
    }
}

impl fmt::Display for MapsLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.head(), Printable(&self.0.name))
    }
}
