//! The memory of a stopped task, read in pieces as the unwinder asks for it.

use crate::os::sys::{self, Tid};

/// Bytes of a piece: a page. A stack that is not deep takes one or two.
const PIECE: u64 = 4096;

/// Memory of a task.
pub(crate) struct StackMemory {
    tid: Tid,
    /// Each with its address.
    pieces: Vec<(u64, Box<[u8]>)>,
}

impl StackMemory {
    pub(crate) fn new(tid: Tid) -> Self {
        StackMemory { tid, pieces: Vec::new() }
    }

    /// The word at an address. `None`: it cannot be read.
    pub(crate) fn word(&mut self, at: u64) -> Option<u64> {
        let (start, within) = (at & !(PIECE - 1), (at & (PIECE - 1)) as usize);
        let mut word = [0; 8];
        match self.piece(start)?.get(within..within + word.len()) {
            Some(bytes) => word.copy_from_slice(bytes),
            // In two pieces: no stack that is as it should be.
            None => sys::read_memory(self.tid, at, &mut word).then_some(())?,
        }
        Some(u64::from_le_bytes(word))
    }

    fn piece(&mut self, start: u64) -> Option<&[u8]> {
        let known = self.pieces.iter().position(|(piece, _)| *piece == start);
        let at = match known {
            Some(at) => at,
            None => {
                let mut bytes = vec![0; PIECE as usize].into_boxed_slice();
                if !sys::read_memory(self.tid, start, &mut bytes) {
                    return None;
                }
                self.pieces.push((start, bytes));
                self.pieces.len() - 1
            }
        };
        let (_, bytes) = self.pieces.get(at)?;
        Some(bytes)
    }
}
