//! The growth rate of a process's areas, and the time until the limit. Does not know where the
//! readings come from.

use std::collections::VecDeque;
use std::time::Duration;

use crate::format::{count, plural};

/// Number of latest looks that count.
const LOOKS: usize = 12;
/// Minimum growth in areas over these looks: with less, a process has no pace.
const LEAST: u64 = 8;
/// A process has many areas if it has more than 1/8 of its limit.
const MANY: u64 = 8;
/// Longer times are not reported: ten days.
const LONGEST: Duration = Duration::from_secs(10 * 24 * 3600);

/// The last looks at a process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pace(VecDeque<(Duration, u64)>);

impl Pace {
    /// Adds a look: the time since the first one, and the number of areas. Looks less than half of
    /// `every` apart replace one another, so that the kept looks reach far enough back.
    pub(crate) fn add(&mut self, elapsed: Duration, areas: u64, every: Duration) {
        let mut last = self.0.iter().rev().map(|(at, _)| *at);
        if last.next().zip(last.next()).is_some_and(|(at, before)| at.saturating_sub(before) < every / 2) {
            self.0.pop_back();
        }
        self.0.push_back((elapsed, areas));
        if self.0.len() > LOOKS {
            self.0.pop_front();
        }
    }

    /// Growth in areas per second, from the first kept look to the last one; negative if the
    /// process has fewer by now. `None`: fewer than two looks.
    pub(crate) fn per_second(&self) -> Option<f64> {
        let ((from, before), (to, now)) = (self.0.front()?, self.0.back()?);
        let time = to.checked_sub(*from).filter(|time| !time.is_zero())?;
        Some((*now as f64 - *before as f64) / time.as_secs_f64())
    }

    /// Whether the number of areas grew since the look before.
    pub(crate) fn grew(&self) -> bool {
        let mut last = self.0.iter().rev().map(|(_, areas)| areas);
        last.next().zip(last.next()).is_some_and(|(now, before)| now > before)
    }

    /// Whether the process reaches the limit within this time if it grows as between the last two
    /// looks; after the first look, as since its start. `age`: the time since its start, computed
    /// only if the process has many areas.
    pub(crate) fn is_urgent(&self, limit: u64, within: Duration, age: impl FnOnce() -> Duration) -> bool {
        let mut last = self.0.iter().rev();
        let Some((to, now)) = last.next() else { return false };
        let free = limit.saturating_sub(*now);
        let (more, time) = match last.next() {
            Some((from, before)) => (now.saturating_sub(*before), to.saturating_sub(*from)),
            None if *now > limit / MANY => (*now, age()),
            None => return false,
        };
        more >= LEAST && free > 0 && free as f64 * time.as_secs_f64() <= more as f64 * within.as_secs_f64()
    }

    /// Growth in areas per second, without the largest step between two looks: a single burst does
    /// not repeat.
    fn again_per_second(&self) -> Option<f64> {
        let ((from, before), (to, now)) = (self.0.front()?, self.0.back()?);
        let pairs = self.0.iter().zip(self.0.iter().skip(1));
        let times = pairs.map(|((from, before), (to, now))| (now.saturating_sub(*before), to.saturating_sub(*from)));
        let (most, in_time) = times.max_by_key(|(areas, _)| *areas)?;
        let areas = now.checked_sub(*before)?.checked_sub(most)?;
        let time = to.checked_sub(*from)?.checked_sub(in_time).filter(|time| !time.is_zero())?;
        Some(areas as f64 / time.as_secs_f64())
    }

    /// Time until the limit at the present pace; 0: it is reached. `None`: no growth, very slow
    /// growth, a single burst, or an unknown limit.
    pub(crate) fn left(&self, limit: Option<u64>) -> Option<Duration> {
        let ((_, before), (_, now)) = (self.0.front()?, self.0.back()?);
        let free = limit?.saturating_sub(*now);
        if free == 0 {
            return Some(Duration::ZERO);
        }
        if now.saturating_sub(*before) < LEAST {
            return None;
        }
        let left = Duration::try_from_secs_f64(free as f64 / self.again_per_second()?).ok()?;
        (left <= LONGEST).then_some(left)
    }

    /// The pace and the time left, for people.
    pub(crate) fn text(&self, limit: Option<u64>) -> Option<String> {
        let (left, per_second) = (self.left(limit).filter(|left| !left.is_zero())?, self.again_per_second()?);
        let pace = if per_second < 1.0 {
            format!("{} a minute", plural((per_second * 60.0).round() as u64, "more area"))
        } else {
            format!("{} a second", plural(per_second.round() as u64, "more area"))
        };
        Some(format!("{pace}: at this pace the limit of {} is reached in {}", count(limit?), about(left)))
    }
}

/// A time in seconds, rounded up: only 0 itself is 0.
pub(crate) fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// A time to two figures, or a little more: `3 min`, `40 s`, `5 h`.
pub(crate) fn about(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..120 => format!("{} s", seconds.max(1)),
        120..7_200 => format!("{} min", (seconds + 30) / 60),
        7_200..172_800 => format!("{} h", (seconds + 1_800) / 3_600),
        _ => format!("{} days", (seconds + 43_200) / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(looks: &[(u64, u64)]) -> Pace {
        let mut pace = Pace::default();
        looks.iter().for_each(|(seconds, areas)| pace.add(Duration::from_secs(*seconds), *areas, Duration::ZERO));
        pace
    }

    /// At and above the limit the time left is 0, even without growth.
    #[test]
    fn nothing_is_left_at_the_limit() {
        let left = |looks: &[(u64, u64)]| pace(looks).left(Some(1_000));
        let reached = [left(&[(0, 900), (1, 1_000)]), left(&[(0, 1_001), (1, 1_001)])];
        assert_eq!(reached, [Some(Duration::ZERO); 2]);
        let soon = left(&[(0, 700), (1, 800), (2, 990)]).unwrap();
        assert!(!soon.is_zero() && soon < Duration::from_secs(1));
        assert_eq!(
            (whole_seconds(soon), whole_seconds(Duration::ZERO), whole_seconds(Duration::from_secs(3))),
            (1, 0, 3)
        );
    }

    #[test]
    fn the_limit_is_reached_in_some_time() {
        let text = |looks: &[(u64, u64)]| pace(looks).text(Some(65_530));
        let three = text(&[(0, 530), (10, 3_780), (20, 7_030)]).unwrap();
        assert_eq!(three, "325 more areas a second: at this pace the limit of 65,530 is reached in 3 min");
        let slow = text(&[(0, 65_000), (60, 65_010), (120, 65_020)]).unwrap();
        assert_eq!(slow, "10 more areas a minute: at this pace the limit of 65,530 is reached in 51 min");
        let far = text(&[(0, 100), (60, 160), (120, 220)]).unwrap();
        assert!(far.ends_with("1 more area a second: at this pace the limit of 65,530 is reached in 18 h"), "{far}");
        // No forecast: one reading only, no growth or hardly any, the limit reached, or a very long
        // time.
        for looks in [&[(0, 500)][..], &[(0, 500), (1, 500)], &[(0, 500), (1, 400)], &[(0, 500), (1, 507)]] {
            assert_eq!(text(looks), None, "{looks:?}");
        }
        assert_eq!(text(&[(0, 500), (1, 65_530)]), None);
        assert_eq!(text(&[(0, 500), (1_000_000, 600), (2_000_000, 700)]), None);
        assert_eq!(text(&[(5, 500), (5, 600)]), None, "no time has passed");
        assert_eq!(pace(&[(0, 500), (1, 600), (2, 700)]).text(None), None);
    }

    #[test]
    fn looks_in_between_do_not_shorten_the_memory() {
        let mut pace = Pace::default();
        let looks = [0, 10, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 40];
        looks.iter().for_each(|at| pace.add(Duration::from_secs(*at), at * 10, Duration::from_secs(10)));
        let kept: Vec<u64> = pace.0.iter().map(|(at, _)| at.as_secs()).collect();
        assert_eq!(kept, [0, 10, 20, 25, 30, 40]);
    }

    #[test]
    fn fast_growth_is_urgent() {
        let age = || Duration::from_secs(5);
        let within = |looks: &[(u64, u64)], seconds| pace(looks).is_urgent(65_530, Duration::from_secs(seconds), age);
        assert!(within(&[(0, 20), (10, 30_000)], 12) && !within(&[(0, 20), (10, 30_000)], 11));
        assert!(!within(&[(0, 20), (10, 60_000), (11, 60_000)], 20), "it was once");
        assert!(!within(&[(0, 20), (10, 65_530)], 20) && !within(&[(0, 65_520), (10, 65_525)], 20));
        assert!(within(&[(0, 30_000)], 6) && !within(&[(0, 30_000)], 5), "since its start");
        assert!(!within(&[], 20) && !within(&[(0, 8_000)], 60) && !within(&[(0, 9), (1, 5)], 20));
    }

    /// A program that makes its areas at once, or is replaced by a larger one, stops growing.
    #[test]
    fn a_burst_is_no_growth() {
        let left = |looks: &[(u64, u64)]| pace(looks).left(Some(65_530));
        assert_eq!(left(&[(0, 20), (10, 4_024)]), None);
        assert_eq!(left(&[(0, 20), (10, 4_024), (20, 4_024), (30, 4_020)]), None);
        // Of two bursts, one counts.
        let twice = left(&[(0, 0), (10, 3_000), (20, 3_000), (30, 6_000)]).unwrap();
        assert_eq!(twice.as_secs(), (65_530 - 6_000) * 20 / 3_000);
        let grew = |looks: &[(u64, u64)]| pace(looks).grew();
        assert_eq!([grew(&[(0, 1)]), grew(&[(0, 1), (1, 2)]), grew(&[(0, 1), (1, 2), (2, 2)])], [false, true, false]);
    }

    /// Old looks do not count.
    #[test]
    fn the_last_looks_count() {
        let mut looks: Vec<(u64, u64)> = vec![(0, 40_000), (1, 10)];
        looks.extend((2..20).map(|i| (i, 10 + 100 * i)));
        assert_eq!(pace(&looks).per_second(), Some(100.0));
        assert_eq!(pace(&[(0, 200), (2, 100)]).per_second(), Some(-50.0));
    }
}
