//! The simplest index: a sorted list. Every look is a binary search, every store moves what is
//! behind it.

use samara_mm::{AllocError, Area, AreaIndex, IndexEntry, Revision, Span};

#[derive(Clone, Debug)]
pub(crate) struct SortedList<B>(Vec<(Span, Area<B>)>);

impl<B> Default for SortedList<B> {
    fn default() -> Self {
        SortedList(Vec::new())
    }
}

pub(crate) type Entries<'a, B> =
    std::iter::Map<std::slice::Iter<'a, (Span, Area<B>)>, fn(&'a (Span, Area<B>)) -> IndexEntry<'a, B>>;

impl<B> SortedList<B> {
    /// The number of entries that end before `addr`.
    fn before(&self, addr: u64) -> usize {
        self.0.partition_point(|(span, _)| span.last < addr)
    }

    fn entries(&self, from: usize, to: usize) -> Entries<'_, B> {
        self.0[from..to.max(from)].iter().map(|(span, area)| (*span, area))
    }
}

impl<B: Clone> AreaIndex<B> for SortedList<B> {
    type Iter<'a>
        = Entries<'a, B>
    where
        B: 'a;
    type Ascend<'a>
        = Entries<'a, B>
    where
        B: 'a;

    fn len(&self) -> usize {
        self.0.len()
    }

    fn range(&self, span: Span) -> Entries<'_, B> {
        self.entries(self.before(span.first), self.0.partition_point(|(own, _)| own.first <= span.last))
    }

    fn range_from(&self, addr: u64) -> Entries<'_, B> {
        self.entries(self.before(addr), self.0.len())
    }

    fn replace(&mut self, span: Span, area: Area<B>) -> Result<(), AllocError> {
        self.clear_range(span)?;
        self.0.insert(self.before(span.first), (span, area));
        Ok(())
    }

    fn clear_range(&mut self, span: Span) -> Result<(), AllocError> {
        self.split_at(span.first)?;
        if let Some(behind) = span.last.checked_add(1) {
            self.split_at(behind)?;
        }
        self.0.retain(|(own, _)| own.last < span.first || span.last < own.first);
        Ok(())
    }

    fn split_at(&mut self, at: u64) -> Result<bool, AllocError> {
        let i = self.before(at);
        let Some((span, area)) = self.0.get_mut(i).filter(|(span, _)| span.first < at) else { return Ok(false) };
        let upper = (Span::new(at, span.last), area.clone());
        span.last = at - 1;
        self.0.insert(i + 1, upper);
        Ok(true)
    }

    fn get_mut(&mut self, addr: u64) -> Option<(Span, &mut Area<B>)> {
        let i = self.before(addr);
        self.0.get_mut(i).filter(|(span, _)| span.first <= addr).map(|(span, area)| (*span, area))
    }

    fn for_each_mut(&mut self, mut change: impl FnMut(&mut Area<B>)) {
        self.0.iter_mut().for_each(|(_, area)| change(area));
    }

    fn revise(
        &mut self,
        addr: u64,
        mut decide: impl FnMut(IndexEntry<'_, B>, Option<IndexEntry<'_, B>>) -> Revision,
    ) -> Result<(), AllocError> {
        let i = self.before(addr);
        let mut from = self.range_from(addr);
        let Some(entry) = from.next() else { return Ok(()) };
        match decide(entry, from.next()) {
            Revision::Keep => {}
            Revision::Resize(span) => self.0[i].0 = span,
            Revision::Remove => drop(self.0.remove(i)),
            Revision::Punch(hole) => self.clear_range(hole)?,
        }
        Ok(())
    }

    fn reserve(&mut self, _span: Span, stores: usize) -> Result<(), AllocError> {
        self.0.try_reserve(stores).map_err(|_| AllocError)
    }

    fn duplicate(&self) -> Result<Self, AllocError> {
        Ok(self.clone())
    }

    fn from_sorted(entries: impl Iterator<Item = (Span, Area<B>)>) -> Result<Self, AllocError> {
        Ok(SortedList(entries.collect()))
    }
}
