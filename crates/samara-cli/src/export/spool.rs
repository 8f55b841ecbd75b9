//! Columns that are longer than memory, in one temporary file. Does not know their content.
//!
//! - **SPOOL-1** a column is a list of chunks in the file, and a buffer of unwritten bytes. Before
//!   each chunk stand the next chunk's position and its own length. So its memory does not grow
//!   with its length.
//! - **SPOOL-2** at most [`BUFFERED`] bytes, and one piece, are in memory.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

/// Bytes of all columns in memory before they are written.
const BUFFERED: usize = 16 << 20;
/// The bytes before a chunk: the position of the next chunk, or 0 at the end, and its own length.
const HEAD: u64 = 16;

/// Columns of text, each written from its beginning to its end.
pub(super) struct Spool {
    file: File,
    /// The file's length. The file's first byte is unused, so that position 0 is no chunk.
    length: u64,
    columns: Vec<Column>,
    buffered: usize,
}

/// The number of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ColumnId(u32);

#[derive(Default)]
struct Column {
    first: u64,
    last: u64,
    buffer: Vec<u8>,
}

impl Spool {
    /// A spool in an empty file, which is read and written.
    pub(super) fn new(file: File) -> Spool {
        Spool { file, length: 1, columns: Vec::new(), buffered: 0 }
    }

    /// A new, empty column.
    pub(super) fn column(&mut self) -> ColumnId {
        self.columns.push(Column::default());
        ColumnId((self.columns.len() - 1) as u32)
    }

    /// Adds an entry to a column, with a comma before it unless it is the first one.
    pub(super) fn push(&mut self, id: ColumnId, entry: impl std::fmt::Display) -> io::Result<()> {
        let Some(column) = self.columns.get_mut(id.0 as usize) else { return Ok(()) };
        let before = column.buffer.len();
        if column.first != 0 || !column.buffer.is_empty() {
            column.buffer.push(b',');
        }
        write!(column.buffer, "{entry}")?;
        self.buffered += column.buffer.len() - before;
        if self.buffered > BUFFERED { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        for column in self.columns.iter_mut().filter(|column| !column.buffer.is_empty()) {
            let at = self.length;
            let mut head = [0; HEAD as usize];
            head[8..].copy_from_slice(&(column.buffer.len() as u64).to_le_bytes());
            self.file.write_all_at(&head, at)?;
            self.file.write_all_at(&column.buffer, at + HEAD)?;
            match column.last {
                0 => column.first = at,
                last => self.file.write_all_at(&at.to_le_bytes(), last)?,
            }
            column.last = at;
            self.length = at + HEAD + column.buffer.len() as u64;
            column.buffer = Vec::new();
        }
        self.buffered = 0;
        Ok(())
    }

    /// Writes a column.
    pub(super) fn copy(&self, id: ColumnId, out: &mut impl Write) -> io::Result<()> {
        let Some(column) = self.columns.get(id.0 as usize) else { return Ok(()) };
        let (mut at, mut piece) = (column.first, vec![0; 1 << 16]);
        while at != 0 {
            let mut head = [0; HEAD as usize];
            self.file.read_exact_at(&mut head, at)?;
            let word = |from: usize| head[from..from + 8].iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte));
            let (next, mut left, mut from) = (word(0), word(8), at + HEAD);
            while left > 0 {
                let part = left.min(piece.len() as u64) as usize;
                self.file.read_exact_at(&mut piece[..part], from)?;
                out.write_all(&piece[..part])?;
                (left, from) = (left - part as u64, from + part as u64);
            }
            at = next;
        }
        out.write_all(&column.buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns that are longer than memory come back in order.
    #[test]
    fn columns_come_back_whole() {
        let mut spool = Spool::new(tempfile::tempfile().unwrap());
        let ids: Vec<ColumnId> = (0..3).map(|_| spool.column()).collect();
        let empty = spool.column();
        let long = "x".repeat(1 << 20);
        for i in 0..70_u32 {
            let id = ids[i as usize % 3];
            spool.push(id, format_args!("{i}{long}")).unwrap();
        }
        for (first, id) in ids.iter().enumerate() {
            let mut out = Vec::new();
            spool.copy(*id, &mut out).unwrap();
            let expected: Vec<String> = (first..70).step_by(3).map(|i| format!("{i}{long}")).collect();
            assert!(out == expected.join(",").as_bytes(), "column {first}");
        }
        let mut out = Vec::new();
        spool.copy(empty, &mut out).unwrap();
        assert!(out.is_empty() && spool.buffered <= BUFFERED && spool.length > 50 << 20);
    }
}
