//! Bytes that a program chose, such as a file's name, as text: every byte is kept, and display is
//! harmless. Knows nothing of files.
//!
//! The kernel allows any bytes except zero and `/` in a name; a trace's columns hold UTF-8.
//!
//! - **TEXT-1** `name_bytes(&name_text(bytes)) == bytes` for all bytes. A byte that is not part of
//!   valid UTF-8 is stored as the private character U+10FF00 + its value (U+10FF80 to U+10FFFF). If
//!   a name contains one of these characters, each of its four bytes is stored in this way.
//! - **TEXT-2** the output of [`Printable`] has no character that controls a terminal, starts a
//!   line, hides, or changes the direction of the text around it.

use std::borrow::Cow;
use std::fmt;

/// The character that stands for byte 0x80.
const FIRST: char = '\u{10ff80}';
/// First byte of the UTF-8 of `FIRST`, and of all characters that stand for a byte.
const LEAD: u8 = 0xf4;

/// Converts bytes to text that [`name_bytes`] converts back.
///
/// Valid UTF-8 stays as it is. Any other byte becomes a character from U+10FF80 to U+10FFFF, whose
/// low eight bits are the byte.
///
/// ```
/// use samara_trace::file::{Printable, name_bytes, name_text};
/// let name = name_text(b"/tmp/\xffz\xc3\xbc");
/// assert_eq!(name, "/tmp/\u{10ffff}z\u{fc}");
/// assert_eq!(*name_bytes(&name), *b"/tmp/\xffz\xc3\xbc");
/// assert_eq!(Printable(&name).to_string(), "/tmp/\\377z\u{fc}");
/// ```
pub fn name_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let byte =
        |byte: &u8| char::from_u32(FIRST as u32 - 0x80 + u32::from(*byte)).unwrap_or(char::REPLACEMENT_CHARACTER);
    for chunk in bytes.utf8_chunks() {
        let valid = chunk.valid();
        if !valid.as_bytes().contains(&LEAD) {
            text.push_str(valid);
        } else {
            for c in valid.chars() {
                match c {
                    FIRST.. => text.extend(c.encode_utf8(&mut [0; 4]).as_bytes().iter().map(byte)),
                    c => text.push(c),
                }
            }
        }
        text.extend(chunk.invalid().iter().map(byte));
    }
    text
}

/// The bytes that a text from [`name_text`] stands for.
pub fn name_bytes(text: &str) -> Cow<'_, [u8]> {
    if !text.as_bytes().contains(&LEAD) || text.chars().all(|c| c < FIRST) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        match c {
            FIRST.. => bytes.push(c as u8),
            c => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(bytes)
}

/// Displays text for a person.
///
/// Control characters, invisible ones, and those that change the direction of writing become octal
/// escapes of their bytes (`\033`), as `/proc/PID/maps` shows a newline. So do bytes that are not
/// UTF-8 ([`name_text`]). Everything else, including the backslash, stays as it is.
#[derive(Clone, Copy, Debug)]
pub struct Printable<'a>(pub &'a str);

impl Printable<'_> {
    /// Whether this character is shown as it is.
    pub fn is_plain(c: char) -> bool {
        !c.is_control()
            && !matches!(c,
                '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e0fff}' | FIRST..)
    }
}

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some((at, c)) = rest.char_indices().find(|(_, c)| !Self::is_plain(*c)) {
            f.write_str(&rest[..at])?;
            let end = at + c.len_utf8();
            let octal = |f: &mut fmt::Formatter<'_>, byte: u8| write!(f, "\\{byte:03o}");
            match c {
                FIRST.. => octal(f, c as u8)?,
                _ => rest.as_bytes()[at..end].iter().try_for_each(|byte| octal(f, *byte))?,
            }
            rest = &rest[end..];
        }
        f.write_str(rest)
    }
}

#[cfg(test)]
#[path = "name_text_tests.rs"]
mod tests;
