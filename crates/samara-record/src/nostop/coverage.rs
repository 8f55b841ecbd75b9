//! Counts of what a recording without stops saw and missed.

use std::collections::BTreeMap;
use std::fmt;

/// Counts of what a recording without stops saw and missed.
///
/// Its text is one line: `1,234 calls, order exact, 0 events lost, ...`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coverage {
    /// Calls that returned and can change areas.
    pub calls: u64,
    /// Records of the followed processes that the kernel delivered.
    pub received: u64,
    /// Records of other processes, which were dropped. Only if events are open for all tasks.
    pub strangers: u64,
    /// Records that the kernel lost, by processor: exact (`PERF_FORMAT_LOST`, Linux 6.0), or as far
    /// as the kernel reported.
    pub lost: BTreeMap<u32, u64>,
    /// Those of `lost` that may belong to other processes: records of rare calls, such as `clone`
    /// and `shmat`. Perf events of rare calls are open for all tasks.
    pub lost_seldom: u64,
    /// Write sections: each is one hold of an address space's lock for writing.
    pub sections: u64,
    /// Sections, or records, in an order that the kernel's lock rules out. Their spaces are unsure
    /// until they are read again.
    pub disordered: u64,
    /// Sections that began with another number of areas than the section before had left (by BPF).
    /// Their spaces are unsure until they are read again.
    pub uncounted: u64,
    /// Whether the kernel reports its order (`mmap_lock` tracepoints, Linux 5.11).
    pub ordered: bool,
    /// Calls that overlapped, if the kernel does not report its order.
    pub unordered_calls: u64,
    /// Sections without a known cause, although no records were lost.
    pub unexplained: u64,
    /// Readings of areas that no section overlapped.
    pub readings: u64,
    /// Readings that a section overlapped, and that were used outside the changed ranges.
    pub partial_readings: u64,
    /// All readings that a section overlapped, used or not.
    pub dirty_readings: u64,
    /// Spaces that were unsure when they ended, or at the end of the recording.
    pub unsure: u64,
    /// Descriptors of events.
    pub descriptors: u64,
    /// Whether calls and write sections came by BPF, instead of perf events.
    pub by_bpf: bool,
    /// Why the BPF programs run at all calls, if they do. Each call of every process then costs
    /// more than with programs at the recorded calls only.
    pub at_all_calls: Option<String>,
    /// Why BPF was not possible, if it was tried.
    pub no_bpf: Option<String>,
}

impl Coverage {
    /// How many records were lost on all processors.
    pub fn lost_in_all(&self) -> u64 {
        self.lost.values().sum()
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} calls, ", Grouped(self.calls))?;
        match (self.ordered, self.disordered) {
            (true, 0) => write!(f, "order exact, ")?,
            (true, n) => write!(f, "order exact but for {}, ", Grouped(n))?,
            (false, _) => write!(
                f,
                "order not known where calls overlapped ({}; this kernel has no mmap_lock tracepoints), ",
                Grouped(self.unordered_calls)
            )?,
        }
        write!(f, "{} events lost", Grouped(self.lost_in_all()))?;
        for (i, (cpu, lost)) in self.lost.iter().enumerate() {
            let (before, after) =
                (if i == 0 { " (CPU " } else { ", " }, if i + 1 == self.lost.len() { ")" } else { "" });
            write!(f, "{before}{cpu}: {}{after}", Grouped(*lost))?;
        }
        let counted = |n: u64, one: &str, many: &str| format!(", {} {}", Grouped(n), if n == 1 { one } else { many });
        let changes = counted(self.unexplained, "unexplained change", "unexplained changes");
        let readings = counted(self.readings + self.partial_readings, "reading", "readings");
        let partial = match self.partial_readings {
            0 => String::new(),
            n => format!(" ({} but for what changed meanwhile)", Grouped(n)),
        };
        let unsure = counted(self.unsure, "space unsure", "spaces unsure");
        let uncounted = match self.uncounted {
            0 => String::new(),
            n => counted(n, "count of areas without a cause", "counts of areas without a cause"),
        };
        write!(f, "{changes}{uncounted}{readings}{partial}{unsure}")?;
        match (&self.no_bpf, self.by_bpf) {
            (_, true) => match &self.at_all_calls {
                None => write!(f, ", by BPF"),
                Some(why) => write!(f, ", by BPF at all calls ({why})"),
            },
            (Some(why), false) => write!(f, ", by perf events (no BPF: {why})"),
            (None, false) => write!(f, ", by perf events"),
        }
    }
}

/// A number with a comma between thousands.
struct Grouped(u64);

impl fmt::Display for Grouped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (i, digit) in digits.char_indices() {
            let comma = i > 0 && (digits.len() - i).is_multiple_of(3);
            write!(f, "{}{digit}", if comma { "," } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_says_what_is_known() {
        let mut seen = Coverage { calls: 1_234_567, ordered: true, readings: 3, ..Coverage::default() };
        let line = "1,234,567 calls, order exact, 0 events lost, 0 unexplained changes, 3 readings, 0 spaces unsure, by \
                    perf events";
        assert_eq!(seen.to_string(), line);
        (seen.lost, seen.unsure, seen.calls) = ([(0, 12), (3, 1_000)].into(), 2, 7);
        (seen.readings, seen.partial_readings) = (0, 1);
        let line = "7 calls, order exact, 1,012 events lost (CPU 0: 12, 3: 1,000), 0 unexplained changes, 1 \
                    reading (1 but for what changed meanwhile), 2 spaces unsure, by perf events (no BPF: CAP_BPF is missing)";
        seen.no_bpf = Some("CAP_BPF is missing".into());
        assert_eq!(seen.to_string(), line);
        (seen.by_bpf, seen.uncounted) = (true, 1);
        assert!(
            seen.to_string().contains("unexplained changes, 1 count of areas without a cause, 1 reading"),
            "{seen}"
        );
        assert!(seen.to_string().ends_with("2 spaces unsure, by BPF"));
        seen.at_all_calls = Some("tracefs cannot be read".into());
        assert!(seen.to_string().ends_with(", by BPF at all calls (tracefs cannot be read)"));
    }
}
