//! The memory of a stopped task, read in pieces as the unwinder asks for it.

use crate::os::sys::{self, Tid};

/// Bytes of a piece: a page. A stack that is not deep takes one or two.
const PIECE: u64 = 4096;

/// Memory of a task.
pub(crate) struct StackMemory {
    tid: Tid,
    /// By address of the piece, the last one that was used at the end.
    pieces: Vec<(u64, Box<[u8]>)>,
}

impl StackMemory {
    pub(crate) fn new(tid: Tid) -> Self {
        StackMemory { tid, pieces: Vec::new() }
    }

    /// The word at an address. `None`: it cannot be read.
    pub(crate) fn word(&mut self, at: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        for (i, byte) in (0..).zip(&mut bytes) {
            *byte = self.byte(at.checked_add(i)?)?;
        }
        Some(u64::from_le_bytes(bytes))
    }

    fn byte(&mut self, at: u64) -> Option<u8> {
        let (start, within) = (at & !(PIECE - 1), (at & (PIECE - 1)) as usize);
        if self.pieces.last().is_none_or(|(piece, _)| *piece != start) {
            match self.pieces.iter().position(|(piece, _)| *piece == start) {
                Some(i) => {
                    let last = self.pieces.len() - 1;
                    self.pieces.swap(i, last);
                }
                None => {
                    let mut bytes = vec![0; PIECE as usize].into_boxed_slice();
                    if !sys::read_memory(self.tid, start, &mut bytes) {
                        return None;
                    }
                    self.pieces.push((start, bytes));
                }
            }
        }
        self.pieces.last()?.1.get(within).copied()
    }
}
