//! The kernel's numbers of areas at the ends of a call's write sections. Knows no areas.

/// How much the number of areas grows in the sections of a call, by the kernel's counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    by: i64,
    /// Number of areas at the beginning of the open section.
    open: Option<u32>,
    /// A count is missing.
    unknown: bool,
}

impl Counted {
    pub(super) fn begin(&mut self, areas: Option<u32>) {
        self.unknown |= self.open.is_some() || areas.is_none();
        self.open = areas;
    }

    pub(super) fn end(&mut self, areas: Option<u32>) {
        match (self.open.take(), areas) {
            (Some(before), Some(after)) => self.by += i64::from(after) - i64::from(before),
            _ => self.unknown = true,
        }
    }

    /// `None`: a count is missing.
    pub(super) fn growth(self) -> Option<i64> {
        (!self.unknown && self.open.is_none()).then_some(self.by)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_add_up_and_missing_counts_do_not() {
        let growth = |sections: &[(Option<u32>, Option<u32>)]| {
            let mut counted = Counted::default();
            for (before, after) in sections {
                counted.begin(*before);
                counted.end(*after);
            }
            counted.growth()
        };
        assert_eq!(growth(&[]), Some(0));
        assert_eq!(growth(&[(Some(7), Some(9)), (Some(20), Some(17))]), Some(-1)); // another call ran in between
        assert_eq!(growth(&[(Some(7), Some(9)), (None, Some(17))]), None);
        let mut open = Counted::default();
        open.begin(Some(7));
        assert_eq!(open.growth(), None);
        open.begin(Some(7));
        open.end(Some(8));
        assert_eq!(open.growth(), None, "the end of a section is missing");
    }
}
