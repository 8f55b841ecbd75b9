//! Counts failed calls by kind, the most important kinds first. Knows nothing of files.

use std::cmp::Reverse;

use crate::event::Event;
use crate::file::{Place, Space};
use crate::refused::{Refused, RefusedBy};
use crate::uapi;

/// Number of kinds that are counted. There are far fewer, but a file may claim any number.
const KINDS: usize = 256;
/// The default of `vm.max_map_count`, for traces without it.
pub const MAX_MAP_COUNT: u64 = 65_530;

/// Calls of one kind that failed with one error, by one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The call's number.
    pub nr: u32,
    /// The error's number.
    pub errno: i32,
    /// Number of these failures.
    pub count: u64,
    /// The process that made the first of them.
    pub pid: u32,
    /// Number of areas of that process at that time.
    pub areas: u64,
    /// When the first was, in nanoseconds since the recording began.
    pub ns: u64,
    /// The number of the first's event.
    pub event: u64,
    /// The rule that refused the first, with its figures at that time, if the trace has it.
    pub refused: Option<Refused>,
    /// The number of the first's call stack, if it was recorded.
    pub stack: Option<u32>,
    /// The instruction that made the first, if it is known.
    pub caller: Option<Place>,
    /// `vm.max_map_count` of the recording, if the trace has it.
    pub limit: Option<u64>,
}

/// The importance of a kind's failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Weight {
    /// A limit of the process or of the machine refused them: memory, areas, tasks, addresses.
    Limit,
    /// Something else refused them.
    Other,
    /// They may have probed the kernel's abilities: huge pages that do not exist, an argument that
    /// it does not know.
    Probe,
}

impl Failure {
    /// Whether it failed with ENOMEM while the process had as many areas as this limit, or the
    /// default one, allows. Newer traces have the rule itself: [`refused`](Self::refused).
    pub fn is_at_limit(&self, limit: Option<u64>) -> bool {
        self.errno == uapi::ENOMEM && self.areas.saturating_add(1) >= limit.unwrap_or(MAX_MAP_COUNT)
    }

    /// The importance of these failures.
    pub fn weight(&self) -> Weight {
        let Some(refused) = &self.refused else {
            return match self.errno {
                _ if self.is_at_limit(self.limit) => Weight::Limit,
                uapi::EINVAL | uapi::ENOSYS | uapi::EOPNOTSUPP | uapi::ENODEV => Weight::Probe,
                _ => Weight::Other,
            };
        };
        match refused.by {
            RefusedBy::MapCount
            | RefusedBy::AddressSpace
            | RefusedBy::Data
            | RefusedBy::Locked
            | RefusedBy::OvercommitGuess
            | RefusedBy::OvercommitNever
            | RefusedBy::Window32
            | RefusedBy::NoGap
            | RefusedBy::Processes
            | RefusedBy::Pids
            | RefusedBy::Threads
            | RefusedBy::RunMapCount
            | RefusedBy::RunAddressSpace
            | RefusedBy::RunData => Weight::Limit,
            RefusedBy::HugePages | RefusedBy::Unaligned | RefusedBy::NoLength => Weight::Probe,
            _ => Weight::Other,
        }
    }

    /// The sort key of kinds.
    fn order(&self) -> (Weight, Reverse<u64>, u64) {
        (self.weight(), Reverse(self.count), self.event)
    }
}

/// Counts a failed call. `space` is the space before the call, `limit` is `vm.max_map_count`. The
/// kinds stay sorted.
pub(crate) fn count(all: &mut Vec<Failure>, event: &Event, nr: u32, space: Option<&Space>, limit: Option<u64>) {
    let Some(errno) = event.error() else { return };
    let refused = Refused::of(event);
    let kind = (nr, errno, refused.map(|refused| refused.by));
    let of = |failure: &Failure| (failure.nr, failure.errno, failure.refused.map(|refused| refused.by)) == kind;
    let mut at = match all.iter().position(of) {
        Some(at) => at,
        None if all.len() < KINDS => {
            all.push(Failure {
                nr,
                errno,
                count: 0,
                pid: event.pid,
                areas: space.map_or(0, |space| space.len() as u64),
                ns: event.exit_ns,
                event: event.seq,
                refused,
                stack: event.stack,
                caller: event.ip.zip(space).and_then(|(ip, space)| space.place(ip)),
                limit,
            });
            all.len() - 1
        }
        None => return,
    };
    all[at].count += 1;
    while at > 0 && all[at].order() < all[at - 1].order() {
        all.swap(at, at - 1);
        at -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventKind;

    /// The refusals that matter come first, however late and seldom they are.
    #[test]
    fn limits_stand_before_probes() {
        let mut all = Vec::new();
        let mut fail = |seq: u64, nr: u32, errno: i32, rule: &str| {
            let (result, text) = (-i64::from(errno), rule.to_owned());
            count(&mut all, &Event { nr: Some(nr), result, text, ..Event::new(seq, EventKind::Call) }, nr, None, None);
        };
        fail(0, 9, uapi::ENOMEM, "kernel:huge-pages");
        for seq in 1..6 {
            fail(seq, 28, uapi::EINVAL, "");
        }
        fail(6, 10, uapi::ENOMEM, "kernel:hole start=4096 end=8192");
        fail(7, 149, uapi::ENOMEM, "kernel:rlimit-memlock");
        for seq in 8..306 {
            fail(seq, 9, uapi::ENOMEM, "kernel:rlimit-as limit=268435456");
        }
        fail(306, 25, uapi::EFAULT, "kernel:hole start=4096 end=8192");
        fail(307, 25, uapi::EFAULT, "kernel:hole start=4096 end=8192");
        let told: Vec<_> = all.iter().map(|f| (f.nr, f.count, f.event, f.weight())).collect();
        let expected = [
            (9, 298, 8, Weight::Limit),
            (149, 1, 7, Weight::Limit),
            (25, 2, 306, Weight::Other),
            (10, 1, 6, Weight::Other),
            (28, 5, 1, Weight::Probe),
            (9, 1, 0, Weight::Probe),
        ];
        assert_eq!(told, expected);
    }

    /// A trace without the rule: as many areas as a process may have.
    #[test]
    fn the_limit_of_areas_without_a_rule() {
        let of = |areas: u64, errno: i32, limit: Option<u64>| {
            let mut all = Vec::new();
            let event = Event { nr: Some(9), result: -i64::from(errno), ..Event::new(0, EventKind::Call) };
            count(&mut all, &event, 9, None, limit);
            Failure { areas, ..all.remove(0) }.weight()
        };
        assert_eq!([65_529, 65_528].map(|n| of(n, uapi::ENOMEM, None)), [Weight::Limit, Weight::Other]);
        assert_eq!([99, 98].map(|n| of(n, uapi::ENOMEM, Some(100))), [Weight::Limit, Weight::Other]);
        assert_eq!(of(65_530, uapi::ENOMEM, Some(1 << 20)), Weight::Other);
        assert_eq!(of(99, uapi::ENOSYS, Some(100)), Weight::Probe);
    }
}
