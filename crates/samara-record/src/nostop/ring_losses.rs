//! Counts what one ring has lost. Knows no rings and no events.
//!
//! The kernel counts lost records at once (Linux 6.0). The ring reports them with the next record
//! that has room, which may come much later, or never.
//!
//! - **NOSTOP-LOSS-1** each lost record counts once, whether the kernel's count or the ring's
//!   record comes first. The loss begins at the ring's last record before it, or at `settled` where
//!   that is later. It ends when it is counted or reported.

use super::record::Record;

/// The losses of one ring.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Losses {
    /// The ring had no room for another record when it was drained.
    pub(super) is_full: bool,
    /// The time of its last record.
    pub(super) last: u64,
    /// Lost records that were counted already.
    known: u64,
    /// Lost records that the ring's records reported.
    reported: u64,
}

impl Losses {
    /// A record of this time reports `count` lost records. Returns the loss, unless it is known
    /// already. `settled`: records up to this time were returned.
    pub(super) fn report(&mut self, count: u64, time: u64, settled: u64) -> Option<[Record; 2]> {
        self.reported = self.reported.saturating_add(count);
        self.count(Some(self.reported), time, settled)
    }

    /// The full ring has lost `lost` records in total by this time. `None`: the kernel does not
    /// count them, so some may be lost. Returns the loss, unless it is known already.
    pub(super) fn count(&mut self, lost: Option<u64>, time: u64, settled: u64) -> Option<[Record; 2]> {
        if let Some(lost) = lost {
            if lost <= self.known {
                return None;
            }
            self.known = lost;
        }
        Some(Record::loss(self.last.max(settled).min(time), time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NOSTOP-LOSS-1.
    #[test]
    fn a_lost_record_counts_once() {
        let loss = |from, until| Some(Record::loss(from, until));
        let mut losses = Losses { last: 3, ..Losses::default() };
        assert_eq!(losses.count(Some(0), 5, 1), None);
        assert_eq!(losses.count(Some(5), 5, 1), loss(3, 5));
        assert_eq!(losses.count(Some(5), 6, 1), None);
        assert_eq!([losses.report(3, 7, 1), losses.report(2, 8, 1)], [None, None]);
        assert_eq!(losses.report(4, 9, 1), loss(3, 9));
        assert_eq!(losses.report(u64::MAX, 10, 8), loss(8, 10), "records up to 8 were handed out");
        assert_eq!(losses.count(None, 11, 1), loss(3, 11), "this kernel does not count");
    }
}
