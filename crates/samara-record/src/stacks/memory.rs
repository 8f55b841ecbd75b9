//! The memory of a task for a walk: that of a stopped task, read in pieces, or a copy of its stack.

use std::sync::Arc;

use crate::os::ptrace;
use crate::os::sys::Tid;

/// Bytes of a piece: a page. A stack that is not deep takes one or two.
const PIECE: u64 = 4096;

/// Most bytes of a stack by default. Memory further away does not belong to it.
const LARGEST: usize = 8 << 20;

/// A task's registers and the upper part of its stack, as they were when it made a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Copied {
    pub(crate) ip: u64,
    pub(crate) sp: u64,
    pub(crate) bp: u64,
    /// The bottom of the stack of the process's first thread. 0: it is not known.
    pub(crate) bottom: u64,
    /// From `sp` on.
    pub(crate) stack: Box<[u8]>,
}

/// The latest copies. An equal new copy shares the memory of an old one.
#[derive(Debug, Default)]
pub(crate) struct Copies(Vec<Option<Arc<Copied>>>);

impl Copies {
    /// Number of kept copies: some calls of some threads.
    const KEPT: usize = 64;

    /// A copy of these registers and this stack.
    pub(crate) fn of(&mut self, (ip, sp, bp): (u64, u64, u64), bottom: u64, stack: &[u8]) -> Arc<Copied> {
        self.0.resize(Self::KEPT, None);
        // After a multiplication by odd numbers, the upper bits depend on all bits.
        let mixed = ip.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ sp.wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
        let new = || Arc::new(Copied { ip, sp, bp, bottom, stack: stack.into() });
        let Some(place) = self.0.get_mut((mixed >> 32) as usize % Self::KEPT) else { return new() };
        match place {
            Some(same) if (same.ip, same.sp, same.bp, same.bottom) == (ip, sp, bp, bottom) && *same.stack == *stack => {
                Arc::clone(same)
            }
            _ => Arc::clone(place.insert(new())),
        }
    }
}

/// Memory of a task.
pub(crate) struct StackMemory<'a> {
    tid: Tid,
    /// Each with its address.
    pieces: Vec<(u64, Box<[u8]>)>,
    copied: Option<&'a Copied>,
    /// A word beyond the end of the copy was requested.
    pub(crate) is_short: bool,
}

impl<'a> StackMemory<'a> {
    /// The memory of a stopped task, or a copy of a task's stack.
    pub(crate) fn new(tid: Tid, copied: Option<&'a Copied>) -> Self {
        StackMemory { tid, pieces: Vec::new(), copied, is_short: false }
    }

    /// The word at an address. `None`: it cannot be read.
    pub(crate) fn word(&mut self, at: u64) -> Option<u64> {
        if let Some(copied) = self.copied {
            let within = usize::try_from(at.checked_sub(copied.sp)?).ok()?;
            let word = copied.stack.get(within..).and_then(|rest| rest.first_chunk());
            self.is_short |= word.is_none() && within < LARGEST;
            return word.map(|word| u64::from_le_bytes(*word));
        }
        let (start, within) = (at & !(PIECE - 1), (at & (PIECE - 1)) as usize);
        let mut word = [0; 8];
        match self.piece(start)?.get(within..within + word.len()) {
            Some(bytes) => word.copy_from_slice(bytes),
            // The word is in two pieces, which does not happen in an aligned stack.
            None => ptrace::read_memory(self.tid, at, &mut word).then_some(())?,
        }
        Some(u64::from_le_bytes(word))
    }

    fn piece(&mut self, start: u64) -> Option<&[u8]> {
        let known = self.pieces.iter().position(|(piece, _)| *piece == start);
        let at = match known {
            Some(at) => at,
            None => {
                let mut bytes = vec![0; PIECE as usize].into_boxed_slice();
                if !ptrace::read_memory(self.tid, start, &mut bytes) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_copy_is_kept_once() {
        let mut copies = Copies::default();
        let first = copies.of((1, 2, 3), 4, b"stack");
        assert!(Arc::ptr_eq(&first, &copies.of((1, 2, 3), 4, b"stack")));
        for other in
            [copies.of((1, 2, 4), 4, b"stack"), copies.of((1, 2, 3), 4, b"other"), copies.of((1, 2, 3), 4, b"stac")]
        {
            assert!(!Arc::ptr_eq(&first, &other));
        }
        assert_eq!((first.ip, first.sp, first.bp, first.bottom, &*first.stack), (1, 2, 3, 4, &b"stack"[..]));
    }

    #[test]
    fn a_copy_has_what_is_above_the_stack_pointer() {
        let copied = Copied { sp: 0x1000, stack: (0..16).collect(), ..Copied::default() };
        let mut memory = StackMemory::new(0, Some(&copied));
        assert_eq!(memory.word(0x1000), Some(0x0706_0504_0302_0100));
        assert_eq!(memory.word(0x1008), Some(0x0f0e_0d0c_0b0a_0908));
        assert_eq!((memory.word(0xff8), memory.is_short), (None, false));
        assert_eq!((memory.word(1 << 40), memory.is_short), (None, false));
        assert_eq!((memory.word(0x1009), memory.is_short), (None, true));
    }
}
