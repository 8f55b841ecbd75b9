//! Where the memory of a trace lies in the changed run. Knows neither model nor calls.
//!
//! - **MOVED-1** an address of the trace is in at most one piece. Addresses in none lie where they
//!   are in the trace.

use samara::{AllocError, RangeMap, Span, unobserved};

use crate::space::reach::Range;

/// A piece of memory that lies elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    /// What is to be added to its addresses.
    by: u64,
    /// Where it ended in the trace when it was mapped, and how much longer it is.
    end: u64,
    more: u64,
}

#[derive(Debug, Default)]
pub(super) struct Moved {
    pieces: RangeMap<u64, Piece>,
}

impl Moved {
    /// A copy for a child.
    pub(super) fn copy(&self) -> Moved {
        Moved { pieces: self.pieces.clone() }
    }

    pub(super) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Where an address lies.
    pub(super) fn at(&self, address: u64) -> u64 {
        self.pieces.get(address).map_or(address, |(_, piece)| address.wrapping_add(piece.by))
    }

    /// Where the memory of a range lies: its parts, in the order of the trace. A part that reaches
    /// the end of what was mapped is as much longer as that is.
    pub(super) fn parts(&self, (start, end): Range) -> Vec<Range> {
        let mut parts: Vec<Range> = Vec::new();
        let mut add = |start: u64, end: u64| match parts.last_mut() {
            _ if start >= end => {}
            Some(last) if last.1 == start => last.1 = end,
            _ => parts.push((start, end)),
        };
        let mut at = start;
        if start >= end {
            return vec![(self.at(start), self.at(start))];
        }
        for (span, piece) in self.pieces.range(Span::new(start, end - 1)) {
            let (from, to) = (span.first.max(start), span.last.saturating_add(1).min(end));
            add(at, from);
            let more = if to == piece.end { piece.more } else { 0 };
            add(from.wrapping_add(piece.by), to.wrapping_add(piece.by).saturating_add(more));
            at = to;
        }
        add(at, end);
        parts
    }

    /// The memory of a range of the trace lies at `at`, and is so much longer.
    pub(super) fn put(&mut self, (start, end): Range, at: u64, more: u64) -> Result<(), AllocError> {
        if start >= end {
            return Ok(());
        }
        let piece = Piece { by: at.wrapping_sub(start), end, more };
        self.pieces.insert(Span::new(start, end - 1), piece).map_err(|_| AllocError)
    }

    /// Nothing of the trace is there any more.
    pub(super) fn clear(&mut self, (start, end): Range) -> Result<(), AllocError> {
        if start >= end {
            return Ok(());
        }
        self.pieces.clear_range(Span::new(start, end - 1), unobserved).map_err(|_| AllocError)
    }
}
