//! Decides when a process raises an alert: at parts of the limit, and when it will soon reach the
//! limit. Does not know what an alert does.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A part of the limit can raise an alert again after the areas fell below this fraction of it.
const AGAIN: (u64, u64) = (15, 16);
/// Number of readings that must say that the limit is near. Only readings after growth count, and a
/// reading that says that the limit is far sets the number back to 0.
const READINGS: u32 = 2;

/// The conditions of alerts.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Percent of the limit, ascending.
    pub(crate) parts: Vec<u8>,
    /// The limit will be reached within this time.
    pub(crate) ahead: Duration,
}

impl Limits {
    /// The largest part of the limit that this number of areas reaches.
    pub(crate) fn part(&self, areas: u64, limit: u64) -> Option<u8> {
        self.parts.iter().copied().rfind(|part| is_at(areas, limit, *part))
    }
}

fn is_at(areas: u64, limit: u64, part: u8) -> bool {
    u128::from(areas) * 100 >= u128::from(limit) * u128::from(part)
}

/// Why a process raises an alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It has this percentage of the areas that it may have.
    At(u8),
    /// It will soon have all of them.
    Growth,
}

impl fmt::Display for Reason {
    /// `at80` or `growth`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::At(part) => write!(f, "at{part}"),
            Reason::Growth => f.write_str("growth"),
        }
    }
}

/// The alerts that a process has raised.
#[derive(Clone, Debug, Default)]
pub(crate) struct Raised {
    /// The largest part of the limit.
    part: Option<u8>,
    growth: bool,
    /// Readings that say that the limit is near.
    soon: u32,
    /// The reason why its areas should have been kept, if they were not.
    pub(crate) not_kept: Option<Reason>,
}

impl Raised {
    /// Adds a reading of the process: its areas, the time left until the limit, whether it grew
    /// since the last reading, and whether over all kept ones. Returns the alerts that it raises
    /// now.
    pub(crate) fn read(
        &mut self,
        limits: &Limits,
        (areas, limit): (u64, u64),
        left: Option<Duration>,
        (grew, grows): (bool, bool),
    ) -> Vec<Reason> {
        let mut reasons = Vec::new();
        let part = limits.part(areas, limit);
        if part > self.part {
            self.part = part;
            reasons.extend(part.map(Reason::At));
        } else if let Some(told) = self.part
            && !is_at(areas.saturating_mul(AGAIN.1) / AGAIN.0, limit, told)
        {
            self.part = part;
        }
        let is_soon = |within: Duration| left.is_some_and(|left| left <= within);
        // A process that grows in steps has no forecast between them.
        match (is_soon(limits.ahead), left) {
            (true, _) => self.soon = self.soon.saturating_add(u32::from(grew)),
            (false, None) if grows => {}
            _ => self.soon = 0,
        }
        if self.soon >= READINGS && !self.growth {
            self.growth = true;
            reasons.push(Reason::Growth);
        }
        let is_between_steps = left.is_none() && grows;
        self.growth &= is_between_steps || is_soon(limits.ahead.saturating_mul(2));
        reasons
    }
}

/// An alert of a process.
#[derive(Clone, Debug)]
pub(crate) struct Alert {
    pub(crate) reason: Reason,
    pub(crate) pid: u32,
    pub(crate) name: String,
    pub(crate) areas: u64,
    pub(crate) limit: u64,
    pub(crate) per_second: Option<f64>,
    pub(crate) left: Option<Duration>,
    /// Its areas as they were, if they were kept.
    pub(crate) file: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits { parts: vec![80, 95], ahead: Duration::from_secs(600) }
    }

    #[test]
    fn each_part_is_told_once() {
        let mut told = Raised::default();
        let mut at = |areas| told.read(&limits(), (areas, 1000), None, (false, false));
        assert_eq!(at(799), []);
        assert_eq!(at(800), [Reason::At(80)]);
        assert_eq!((at(850), at(790), at(801)), (vec![], vec![], vec![]), "not whenever it moves a little");
        assert_eq!(at(950), [Reason::At(95)]);
        assert_eq!((at(880), at(1001)), (vec![], vec![Reason::At(95)]), "it was well below it");
        assert_eq!((at(100), at(999)), (vec![], vec![Reason::At(95)]), "only the largest");
    }

    #[test]
    fn growth_is_told_when_two_readings_say_so() {
        let mut told = Raised::default();
        let mut grew = |seconds: Option<u64>, grew| {
            told.read(&limits(), (10, 1000), seconds.map(Duration::from_secs), (grew, grew))
        };
        assert_eq!((grew(Some(60), true), grew(Some(60), false)), (vec![], vec![]), "it has stopped");
        assert_eq!((grew(None, false), grew(Some(60), true)), (vec![], vec![]));
        // In steps: each counts, and nothing in between.
        assert_eq!((grew(None, true), grew(Some(60), true)), (vec![], vec![Reason::Growth]));
        assert_eq!((grew(None, true), grew(Some(60), true)), (vec![], vec![]), "once");
        let mut left = |seconds: Option<u64>| grew(seconds, seconds.is_some());
        assert_eq!(left(None), []);
        assert_eq!((left(Some(60)), left(None)), (vec![], vec![]));
        assert_eq!((left(Some(600)), left(Some(601))), (vec![], vec![]));
        assert_eq!((left(Some(500)), left(Some(400))), (vec![], vec![Reason::Growth]));
        assert_eq!((left(Some(300)), left(Some(700)), left(Some(300))), (vec![], vec![], vec![]));
        assert_eq!((left(Some(2000)), left(Some(300)), left(Some(300))), (vec![], vec![], vec![Reason::Growth]));
    }

    #[test]
    fn a_part_is_of_the_limit() {
        assert_eq!(limits().part(52_423, 65_530), None);
        assert_eq!(limits().part(52_424, 65_530), Some(80));
        assert_eq!(limits().part(u64::MAX, u64::MAX), Some(95));
        assert_eq!((Reason::At(80).to_string(), Reason::Growth.to_string()), ("at80".into(), "growth".into()));
    }
}
