//! Reads the areas of the process: by PROCMAP_QUERY, or from the text of its maps file if the
//! kernel lacks that (before 6.11). Both give the same areas. Knows no op.

use super::call;
use super::process::Child;
use crate::harness::{QueriedArea, query, read};
use crate::op::PAGE;

/// Start of the kernel's own areas, which belong to no space. Only the text has them.
const GATE: u64 = 1 << 63;

/// Position of a walk over the areas.
#[derive(Debug)]
pub(super) struct Cursor {
    /// The areas that end after it come next.
    at: u64,
    /// The part of the buffer that was read and not parsed yet.
    from: usize,
    to: usize,
}

impl Child<'_> {
    /// Opens the maps file of this process, and checks for PROCMAP_QUERY.
    pub(super) fn open_maps(&mut self) {
        self.maps = self.open(c"/proc/self/maps", 3);
        // Every process has areas.
        self.queries &= query(self.maps, 0).is_some();
    }

    /// Before the first area that ends after `at`. One is used at a time.
    pub(super) fn areas_from(&self, at: u64) -> Cursor {
        if !self.queries {
            call(libc::SYS_lseek, [self.maps, 0, libc::SEEK_SET as u64, 0, 0, 0]);
        }
        Cursor { at, from: 0, to: 0 }
    }

    /// The next area.
    pub(super) fn next_area(&mut self, cursor: &mut Cursor) -> Option<QueriedArea> {
        if self.queries {
            let seen = query(self.maps, cursor.at)?;
            cursor.at = seen.end;
            return Some(seen);
        }
        loop {
            let text = self.text.get(cursor.from..cursor.to)?;
            if let Some(len) = text.iter().position(|byte| *byte == b'\n') {
                let seen = seen_in(&text[..len]).filter(|seen| seen.start < GATE)?;
                cursor.from += len + 1;
                if seen.end > cursor.at {
                    return Some(seen);
                }
                continue;
            }
            self.text.copy_within(cursor.from..cursor.to, 0);
            (cursor.from, cursor.to) = (0, cursor.to - cursor.from);
            // No more than is needed: the limit of areas may be far.
            let room = self.text.len().min(cursor.to + PAGE as usize);
            let more = read(self.maps, self.text.get_mut(cursor.to..room)?);
            if more == 0 {
                return None;
            }
            cursor.to += more;
        }
    }
}

/// An area as a line of a maps file shows it.
fn seen_in(line: &[u8]) -> Option<QueriedArea> {
    let mut words = line.split(|byte| *byte == b' ');
    let range = words.next()?;
    let dash = range.iter().position(|byte| *byte == b'-')?;
    let letters = words.next()?;
    let perm = |(letter, bit): (u8, u64)| if letters.contains(&letter) { bit } else { 0 };
    let perms = [(b'r', 1), (b'w', 2), (b'x', 4), (b's', 8)].into_iter().map(perm).sum();
    Some(QueriedArea { start: hex(&range[..dash])?, end: hex(&range[dash + 1..])?, perms, offset: hex(words.next()?)? })
}

fn hex(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |n: u64, c| Some(n << 4 | u64::from((*c as char).to_digit(16)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let line = b"7f0000000000-7f0000001000 rw-s 0000a000 00:01 7                          /x y";
        let seen = QueriedArea { start: 0x7f00_0000_0000, end: 0x7f00_0000_1000, perms: 11, offset: 0xa000 };
        assert_eq!(seen_in(line), Some(seen));
        assert_eq!(
            seen_in(b"10000-20000 ---p 00000000 00:00 0 ").map(|seen| (seen.end, seen.perms)),
            Some((0x20000, 0))
        );
        for wrong in [&b""[..], b"10000", b"10000-2000g rw-p 0", b"10000-20000", b"10000-20000 rw-p"] {
            assert_eq!(seen_in(wrong), None);
        }
    }
}
