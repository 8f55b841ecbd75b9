//! The time that a recording may spend on reading far into maps files, without PROCMAP_QUERY
//! (`space::put_off`). Knows no space.

/// Reading this many areas is always allowed: it takes no longer than a call's stop.
pub(crate) const NEAR: usize = 256;

/// The most time that may be saved up, in nanoseconds.
const MOST: i64 = 1_000_000_000;

/// How much time a recording may still spend on reading far into maps files.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    /// The remaining time, in nanoseconds. Negative: more was used than allowed.
    left: i64,
    /// The time at which `left` was last increased.
    added_ns: u64,
    /// The time per area of the last comparison far into a space, in nanoseconds.
    cost: u64,
    /// For tests: there is never any time.
    pub(crate) none: bool,
    /// Calls that were put off.
    put_off: u64,
    /// Those of them that were never compared.
    never: u64,
    /// Comparisons of calls that were put off.
    together: u64,
}

impl Budget {
    /// Whether the remaining time is enough to read `areas` areas.
    pub(crate) fn allows(&mut self, areas: usize, now: u64) -> bool {
        self.add(now);
        let cost = self.cost.saturating_mul(areas as u64);
        !self.none && self.left >= i64::try_from(cost).unwrap_or(MOST).min(MOST)
    }

    fn add(&mut self, now: u64) {
        // The first call only sets the start.
        let passed = if self.added_ns == 0 { 0 } else { now.saturating_sub(self.added_ns) };
        self.left = self.left.saturating_add(i64::try_from(passed).unwrap_or(MOST)).min(MOST);
        self.added_ns = now;
    }

    /// Subtracts a comparison from the remaining time: it read `areas` areas, from `began` to
    /// `now`.
    pub(crate) fn take(&mut self, areas: usize, began: u64, now: u64) {
        if areas > NEAR {
            self.add(began);
            let took = now.saturating_sub(began);
            self.left = self.left.saturating_sub(i64::try_from(took).unwrap_or(MOST));
            self.added_ns = now;
            self.cost = took / areas as u64;
        }
    }

    /// Counts a call that was put off.
    pub(crate) fn put_off(&mut self) {
        self.put_off += 1;
    }

    /// Counts a comparison of this many calls that were put off.
    pub(crate) fn compared_together(&mut self, calls: u64) {
        self.together += u64::from(calls > 0);
    }

    /// Counts calls that were put off and will never be compared.
    pub(crate) fn never_compared(&mut self, calls: u64) {
        self.never += calls;
    }

    /// The note at the end of the recording, if calls were put off.
    pub(crate) fn told(&self) -> Option<String> {
        let calls = |n: u64| format!("{n} {}", if n == 1 { "call" } else { "calls" });
        let never = match self.never {
            0 => String::new(),
            n => format!("; {} never, because their spaces ended first", calls(n)),
        };
        (self.put_off > 0).then(|| {
            let (all, times) = (calls(self.put_off), if self.together == 1 { "time" } else { "times" });
            let were = if self.put_off == 1 { "was" } else { "were" };
            format!(
                "no PROCMAP_QUERY, large spaces: {all} {were} not compared one by one, but {} {times} together, with \
                 whole spaces{never}",
                self.together
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PUT-OFF-1.
    #[test]
    fn reading_takes_as_much_time_as_all_else() {
        let mut budget = Budget::default();
        let (mut now, mut read, mut else_ns, mut made) = (1000, 0, 0, 0);
        for areas in 300..6000 {
            if budget.allows(areas, now) {
                let took = areas as u64 * 500;
                budget.take(areas, now, now + took);
                (now, read, made) = (now + took, read + took, made + 1);
            }
            (now, else_ns) = (now + 40_000, else_ns + 40_000);
        }
        assert!(made > 100, "{made} comparisons");
        let one = 6000 * 500;
        assert!(read <= else_ns + one && else_ns <= read + 2 * one, "{read} ns of reading, {else_ns} of all else");
        // At most a second is saved up.
        assert!(budget.allows(6000, now + 3_600_000_000_000));
        budget.take(6000, now, now + 2 * MOST as u64);
        assert!(!budget.allows(6000, now + 2 * MOST as u64 + 900_000_000), "a second is missing");
        // Near comparisons cost nothing.
        let mut budget = Budget::default();
        budget.take(NEAR, 5, 1_000_000);
        assert!(budget.allows(NEAR, 1_000_000) && budget.told().is_none());
    }
}
