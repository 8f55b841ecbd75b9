//! The budget of processor time for readings: a share of one processor. Does not know what is read.
//!
//! Unused time is saved up, to a minute's share, so a first reading of many processes, or of a
//! large one, causes no delay. Use beyond that delays the next reading. Time that alerts use delays
//! no reading: it is paid back from half of the share, which delays only optional work.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};

/// Period for which unused time is saved up.
const SAVED: Duration = Duration::from_secs(60);

/// The balance of allowed and used time.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    /// Part of one processor.
    share: f64,
    /// Seconds of a processor that may be used now; below zero if too much was used.
    balance: f64,
    /// Seconds that alerts used and that are not paid back yet.
    debt: f64,
}

impl Budget {
    /// A full budget, of this many percent of a processor.
    pub(crate) fn new(percent: f64) -> Budget {
        let share = percent / 100.0;
        Budget { share, balance: share * SAVED.as_secs_f64(), debt: 0.0 }
    }

    fn most(&self) -> f64 {
        self.share * SAVED.as_secs_f64()
    }

    /// Time has passed.
    pub(crate) fn pass(&mut self, time: Duration) {
        let earned = self.share * time.as_secs_f64();
        let paid = self.debt.min(earned / 2.0);
        self.debt -= paid;
        self.balance = (self.balance + earned - paid).min(self.most());
    }

    /// Processor time was used.
    pub(crate) fn spend(&mut self, used: Duration) {
        self.balance -= used.as_secs_f64();
    }

    /// Processor time was used for an alert.
    pub(crate) fn owe(&mut self, used: Duration) {
        self.debt += used.as_secs_f64();
    }

    /// Whether optional work of this cost may be done now, after the debt of alerts is subtracted.
    /// Work that costs more than can be saved up may be done when the balance is full.
    pub(crate) fn affords(&self, cost: Duration) -> bool {
        self.balance - self.debt >= cost.as_secs_f64().min(self.most() * 0.99)
    }

    /// How long the next reading has to wait.
    pub(crate) fn wait(&self) -> Duration {
        // No budget is smaller than a ten-thousandth of a percent.
        Duration::try_from_secs_f64((-self.balance / self.share).max(0.0)).unwrap_or(Duration::MAX)
    }

    /// Interval between repetitions of work of this cost, if it may take half of the budget.
    pub(crate) fn pause(&self, cost: Duration) -> Duration {
        Duration::try_from_secs_f64(cost.as_secs_f64() / (self.share / 2.0)).unwrap_or(Duration::MAX)
    }
}

/// The processor time that this process has used. Its children are not part of it.
pub(crate) fn used() -> Duration {
    used_by(UsageWho::RUSAGE_SELF)
}

/// The processor time of this thread, which does all readings. Threads that answer requests are not
/// part of it.
pub(crate) fn used_here() -> Duration {
    used_by(UsageWho::RUSAGE_THREAD)
}

fn used_by(who: UsageWho) -> Duration {
    let Ok(usage) = getrusage(who) else { return Duration::ZERO };
    let time = |value: nix::sys::time::TimeVal| {
        Duration::new(value.tv_sec().unsigned_abs(), value.tv_usec().unsigned_abs() as u32 * 1000)
    };
    time(usage.user_time()) + time(usage.system_time())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_delays_the_next_reading() {
        let mut budget = Budget::new(1.0);
        let ms = Duration::from_millis;
        assert!(budget.affords(ms(590)));
        budget.spend(ms(500));
        assert_eq!(budget.wait(), Duration::ZERO, "it was saved up");
        assert!(budget.affords(ms(90)) && !budget.affords(ms(110)));
        budget.spend(ms(200));
        assert_eq!(budget.wait().as_secs_f64().round(), 10.0);
        budget.pass(Duration::from_secs(11));
        assert_eq!(budget.wait(), Duration::ZERO);
        assert_eq!(budget.pause(ms(20)).as_secs_f64().round(), 4.0);
        budget.pass(Duration::from_secs(1000));
        assert!(budget.affords(ms(599)) && budget.affords(Duration::from_secs(5)));
        budget.spend(ms(100));
        assert!(!budget.affords(Duration::from_secs(5)), "what takes long waits until all is saved up");
    }

    #[test]
    fn what_alerts_use_is_paid_back_and_delays_no_reading() {
        let mut budget = Budget::new(1.0);
        let seconds = Duration::from_secs_f64;
        budget.owe(seconds(1.5));
        assert!(budget.wait().is_zero() && !budget.affords(seconds(0.1)));
        budget.pass(seconds(150.0));
        assert!(!budget.affords(seconds(0.1)), "half of the share pays it back");
        budget.pass(seconds(151.0));
        assert!(budget.affords(seconds(0.5)));
        budget.owe(seconds(0.001));
        assert!(budget.affords(seconds(0.5)), "a moment delays nothing");
    }

    #[test]
    fn what_other_threads_use_is_not_part_of_it() {
        let before = (used_here(), used());
        let busy = || {
            while used_here() < Duration::from_millis(50) {
                std::hint::spin_loop();
            }
        };
        std::thread::spawn(busy).join().unwrap();
        let of_all = used().saturating_sub(before.1);
        let here = used_here().saturating_sub(before.0);
        assert!(of_all >= Duration::from_millis(49) && here < of_all / 2, "{here:?} of {of_all:?}");
    }

    #[test]
    fn over_any_time_the_share_holds() {
        // Readings that take 0.3 s each, as often as they may be.
        let (mut budget, mut now, mut all) = (Budget::new(2.0), 0.0, 0.0);
        for _ in 0..1000 {
            budget.spend(Duration::from_millis(300));
            all += 0.3;
            let wait = budget.wait().max(Duration::from_secs(1));
            budget.pass(wait);
            now += wait.as_secs_f64();
        }
        assert!(all <= 0.02 * now + 0.02 * 60.0 + 0.3, "{all} s in {now} s");
    }
}
