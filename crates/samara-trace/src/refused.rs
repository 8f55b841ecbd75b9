//! Parses the rule that refused a call from the text of its event. Decides nothing: `call_refused`
//! of `samara-record` finds the kernel's rule.

use std::fmt;
use std::str::FromStr;

/// What refused a call: a rule of the kernel, or an option of `samara run`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum RefusedBy {
    /// `vm.max_map_count`: [`Refused::limit`] areas. `would_be` is the number that the space had.
    MapCount,
    /// RLIMIT_AS. `would_be`: bytes of all areas together.
    AddressSpace,
    /// RLIMIT_DATA. `would_be`: bytes of private writable memory.
    Data,
    /// RLIMIT_MEMLOCK. `would_be`: locked bytes.
    Locked,
    /// `vm.overcommit_memory` is 0. `limit`: memory and swap; `would_be`: the call; in bytes.
    OvercommitGuess,
    /// `vm.overcommit_memory` is 2. `limit`: `CommitLimit`; `would_be`: the needed one; in bytes.
    OvercommitNever,
    /// The window of MAP_32BIT has no gap so wide. `limit`: bytes of the widest one; `would_be`:
    /// bytes that were asked for.
    Window32,
    /// The address space has no gap so wide: the same figures.
    NoGap,
    /// Nothing is mapped in a part of the range: `at`.
    Hole,
    /// A mapping cannot grow where it is: `at` is the area in its way.
    NoRoom,
    /// The range reaches over the end of an area: `at` is that area.
    CrossesAreas,
    /// Too few huge pages are free. `limit`: free bytes; `would_be`: bytes that were asked for.
    HugePages,
    /// `vm.mmap_min_addr`. `limit`: the lowest address; `at`: the range that was asked for.
    MinAddress,
    /// The file is not open for reading.
    FileNotReadable,
    /// The file is not open for writing.
    FileNotWritable,
    /// The file or its mount forbids executing its memory.
    FileNotExecutable,
    /// The area `at` is sealed (`mseal`).
    Sealed,
    /// The file is sealed against writing (F_SEAL_WRITE, F_SEAL_FUTURE_WRITE).
    FileSealed,
    /// PR_SET_MDWE: memory that can be written, or was mapped so, cannot be executed. `at` is the
    /// area of an `mprotect`.
    Mdwe,
    /// `at` may not be accessed, so its pages cannot be made resident to be locked.
    NoAccess,
    /// `at` is locked in memory (`mlock`), which forbids this advice.
    IsLocked,
    /// Something is mapped in the range: the area `at`.
    Occupied,
    /// No known rule of the kernel: a seccomp filter of the program, it seems.
    Filter,
    /// The address `at.0` is no multiple of the page size.
    Unaligned,
    /// The length is 0.
    NoLength,
    /// RLIMIT_NPROC. `would_be`: processes and threads of the user, with the new one.
    Processes,
    /// `pids.max` of a control group. `would_be`: its processes and threads, with the new one.
    Pids,
    /// `kernel.threads-max`. `would_be`: all processes and threads, with the new one.
    Threads,
    /// Samara, for `--fail` or `--fail-rate`.
    RunFail,
    /// Samara, for `--max-map-count`.
    RunMapCount,
    /// Samara, for `--limit-as`.
    RunAddressSpace,
    /// Samara, for `--limit-data`.
    RunData,
}

/// Prefix of the names of samara's own rules. The event's text has only the rest.
const BY_RUN: &str = "run-";

impl RefusedBy {
    /// All rules, with their names in machine-readable output.
    pub const ALL: [(RefusedBy, &'static str); 32] = [
        (RefusedBy::MapCount, "max-map-count"),
        (RefusedBy::AddressSpace, "rlimit-as"),
        (RefusedBy::Data, "rlimit-data"),
        (RefusedBy::Locked, "rlimit-memlock"),
        (RefusedBy::OvercommitGuess, "overcommit-guess"),
        (RefusedBy::OvercommitNever, "overcommit-never"),
        (RefusedBy::Window32, "map-32bit"),
        (RefusedBy::NoGap, "no-gap"),
        (RefusedBy::Hole, "hole"),
        (RefusedBy::NoRoom, "no-room"),
        (RefusedBy::CrossesAreas, "crosses-areas"),
        (RefusedBy::HugePages, "huge-pages"),
        (RefusedBy::MinAddress, "mmap-min-addr"),
        (RefusedBy::FileNotReadable, "file-not-readable"),
        (RefusedBy::FileNotWritable, "file-not-writable"),
        (RefusedBy::FileNotExecutable, "file-not-executable"),
        (RefusedBy::Sealed, "sealed"),
        (RefusedBy::FileSealed, "file-sealed"),
        (RefusedBy::Mdwe, "mdwe"),
        (RefusedBy::NoAccess, "no-access"),
        (RefusedBy::IsLocked, "locked"),
        (RefusedBy::Occupied, "occupied"),
        (RefusedBy::Filter, "seccomp-filter"),
        (RefusedBy::Unaligned, "unaligned"),
        (RefusedBy::NoLength, "no-length"),
        (RefusedBy::Processes, "rlimit-nproc"),
        (RefusedBy::Pids, "pids-max"),
        (RefusedBy::Threads, "threads-max"),
        (RefusedBy::RunFail, "run-fault"),
        (RefusedBy::RunMapCount, "run-max-map-count"),
        (RefusedBy::RunAddressSpace, "run-limit-as"),
        (RefusedBy::RunData, "run-limit-data"),
    ];

    /// Its name in machine-readable output.
    pub fn name(self) -> &'static str {
        RefusedBy::ALL.iter().find(|(by, _)| *by == self).map_or("", |(_, name)| name)
    }
}

/// A rule that refused a call, with its figures at that time.
///
/// As text, which is the [`text`](crate::event::Event::text) of the call's event:
///
/// ```
/// use samara_trace::{Refused, RefusedBy};
/// let text = "kernel:rlimit-as limit=268435456 would_be=268701696";
/// let refused: Refused = text.parse().unwrap();
/// assert_eq!((refused.by, refused.limit), (RefusedBy::AddressSpace, Some(256 << 20)));
/// assert_eq!(refused.to_string(), text);
/// assert!("unsure".parse::<Refused>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refused {
    /// The rule.
    pub by: RefusedBy,
    /// The amount that the rule allows, or that exists.
    pub limit: Option<u64>,
    /// The amount that the call would have reached, or asked for.
    pub would_be: Option<u64>,
    /// Addresses that the rule is about, `[start, end)`.
    pub at: Option<(u64, u64)>,
}

impl Refused {
    /// A rule without figures.
    pub fn new(by: RefusedBy) -> Refused {
        Refused { by, limit: None, would_be: None, at: None }
    }

    /// A rule with its limit, and the amount that the call would have reached.
    pub fn figures(by: RefusedBy, limit: u64, would_be: impl Into<Option<u64>>) -> Refused {
        Refused { limit: Some(limit), would_be: would_be.into(), ..Refused::new(by) }
    }

    /// A rule with the addresses that it is about.
    pub fn at(by: RefusedBy, at: (u64, u64)) -> Refused {
        Refused { at: Some(at), ..Refused::new(by) }
    }

    /// The rule that refused an event's call. `None`: the event names no rule, or is no call.
    pub fn of(event: &crate::event::Event) -> Option<Refused> {
        (event.kind == crate::event::EventKind::Call).then(|| event.text.parse().ok())?
    }
}

/// Begins the text of a [`Refused`] by a rule of the kernel.
const BY_KERNEL: &str = "kernel:";

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.by.name().strip_prefix(BY_RUN) {
            Some(option) => f.write_str(option)?,
            None => write!(f, "{BY_KERNEL}{}", self.by.name())?,
        }
        let (start, end) = self.at.unzip();
        for (name, figure) in [("limit", self.limit), ("would_be", self.would_be), ("start", start), ("end", end)] {
            if let Some(figure) = figure {
                write!(f, " {name}={figure}")?;
            }
        }
        Ok(())
    }
}

/// The text is no [`Refused`], or one of a later version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotRefused;

impl fmt::Display for NotRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the text names no rule that refused a call")
    }
}

impl std::error::Error for NotRefused {}

impl FromStr for Refused {
    type Err = NotRefused;

    fn from_str(text: &str) -> Result<Refused, NotRefused> {
        let rule = text.strip_prefix(BY_KERNEL);
        let mut words = rule.unwrap_or(text).split(' ');
        let name = words.next().unwrap_or_default();
        let is_it = |known: &str| match (rule, known.strip_prefix(BY_RUN)) {
            (Some(_), None) => known == name,
            (None, option) => option == Some(name),
            (Some(_), Some(_)) => false,
        };
        let (by, _) = RefusedBy::ALL.into_iter().find(|(_, known)| is_it(known)).ok_or(NotRefused)?;
        let (mut refused, mut start, mut end) = (Refused::new(by), None, None);
        for word in words {
            let (name, figure) = word.split_once('=').ok_or(NotRefused)?;
            let figure = Some(figure.parse().map_err(|_| NotRefused)?);
            match name {
                "limit" => refused.limit = figure,
                "would_be" => refused.would_be = figure,
                "start" => start = figure,
                "end" => end = figure,
                _ => {} // a later version's
            }
        }
        refused.at = start.zip(end);
        Ok(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_read_back() {
        for (by, name) in RefusedBy::ALL {
            assert_eq!(by.name(), name);
            let (all, none) = (Refused { at: Some((1, 2)), ..Refused::figures(by, 3, 4) }, Refused::new(by));
            for refused in [all, none, Refused::at(by, (0, u64::MAX)), Refused::figures(by, 7, None)] {
                assert_eq!(refused.to_string().parse(), Ok(refused));
            }
        }
        let later = "kernel:hole start=1 end=2 colour=3".parse::<Refused>();
        assert_eq!(later, Ok(Refused::at(RefusedBy::Hole, (1, 2))));
        for wrong in [
            "",
            "limits",
            "run-fault",
            "kernel:run-fault",
            "kernel:new-rule",
            "kernel:hole start",
            "kernel:hole start=x",
            "kernel:",
        ] {
            assert_eq!(wrong.parse::<Refused>(), Err(NotRefused), "{wrong}");
        }
    }
}
