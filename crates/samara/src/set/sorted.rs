//! Builds a set from ranges in ascending order, and joins those that touch (SET-1).

use crate::map::construct::Sorted;
use crate::node::shape::Shape;
use crate::set::RangeSet;
use crate::types::error::BuildError;
use crate::types::key::Key;
use crate::types::span::Span;

/// The ranges so far. The last one is open: the next range may touch it.
pub(crate) struct Joined<K: Key, S: Shape> {
    sorted: Sorted<K, (), S>,
    open: Option<Span<K>>,
    index: usize,
}

impl<K: Key, S: Shape> Joined<K, S> {
    pub(crate) fn new() -> Self {
        Joined { sorted: Sorted::new(), open: None, index: 0 }
    }

    /// Appends a range behind all others.
    pub(crate) fn push(&mut self, span: Span<K>) -> Result<(), BuildError<K>> {
        let index = self.index;
        if span.is_empty() {
            return Err(BuildError::EmptyRange { index, span });
        }
        self.open = match self.open {
            Some(open) if open.last >= span.first => return Err(BuildError::NotAscending { index, span }),
            Some(open) if open.last.succ() == Some(span.first) => Some(Span::new(open.first, span.last)),
            Some(open) => {
                self.sorted.push(open, ())?;
                Some(span)
            }
            None => Some(span),
        };
        self.index += 1;
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<RangeSet<K, S>, BuildError<K>> {
        if let Some(open) = self.open {
            self.sorted.push(open, ())?;
        }
        Ok(RangeSet { map: self.sorted.finish()? })
    }
}
