//! Translates addresses of a trace to addresses in the changed run. Knows neither model nor calls.
//!
//! - **MOVED-1** an address of the trace is in at most one piece. Outside of pieces, addresses are
//!   the same in both.

use samara::{AllocError, RangeMap, Span, unobserved};

use crate::space::reach::Range;

/// A piece of memory at another place than in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    /// The offset from its address in the trace to that in the changed run.
    by: u64,
    /// Its end in the trace when it was mapped, and its extra length here.
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

    /// The new address.
    pub(super) fn at(&self, address: u64) -> u64 {
        self.pieces.get(address).map_or(address, |(_, piece)| address.wrapping_add(piece.by))
    }

    /// The new ranges of a range, in the order of the trace. A part that reaches the end of its
    /// mapping includes the mapping's extra length.
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

    /// Moves a range of the trace to `at`, where the memory is longer by `more`.
    pub(super) fn put(&mut self, (start, end): Range, at: u64, more: u64) -> Result<(), AllocError> {
        if start >= end {
            return Ok(());
        }
        let piece = Piece { by: at.wrapping_sub(start), end, more };
        self.pieces.insert(Span::new(start, end - 1), piece).map_err(|_| AllocError)
    }

    /// Forgets a range of the trace.
    pub(super) fn clear(&mut self, (start, end): Range) -> Result<(), AllocError> {
        if start >= end {
            return Ok(());
        }
        self.pieces.clear_range(Span::new(start, end - 1), unobserved).map_err(|_| AllocError)
    }
}
