//! What a caller asks of the engine that is put in charge of a program, and what it did:
//! [`Engine`], [`Fault`], [`Decisions`]. No behaviour but reading a fault from text, and counting.

pub(crate) mod decide;
pub(crate) mod random_place;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::arch;
use crate::file::call_name;

/// The engine in charge: the model decides what memory calls get, and the kernel carries that out.
///
/// A place that a call leaves open is the engine's choice; the call is made at exactly that place.
/// A call that a limit or a fault of this structure refuses is not made at all. A call that Linux's
/// rules refuse is made, so that the kernel confirms it. What the kernel answers otherwise than the
/// engine said is a [`Difference`](crate::event::EventKind::Difference).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Engine {
    /// Areas that one space may have, as `vm.max_map_count`; `None`: as many as the kernel's own
    /// setting. More than that is not possible.
    pub max_map_count: Option<usize>,
    /// RLIMIT_AS of the program, soft and hard, in bytes.
    pub limit_as: Option<u64>,
    /// RLIMIT_DATA of the program, soft and hard, in bytes.
    pub limit_data: Option<u64>,
    /// Who chooses places.
    pub policy: Policy,
    /// The program is loaded where nothing is random, and what is chosen, and which calls fail by
    /// [`fail_rate`](Engine::fail_rate), follows from this number.
    pub seed: Option<u64>,
    /// What the running kernel does that others do not; `None`: what its release number says.
    pub features: Option<samara_mm::Features>,
    /// Calls that fail; where several fit a call, the first.
    pub faults: Vec<Fault>,
    /// How likely a fault is whose [`When`] is `Rate`, from 0 to 1 (`None`: 1). Where no such fault
    /// is given: mmap, mremap and brk with ENOMEM.
    pub fail_rate: Option<f64>,
}

/// Who chooses a place that a call leaves open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// As Linux does: from the top down.
    #[default]
    Linux,
    /// As Linux does for programs in the old layout (ADDR_COMPAT_LAYOUT, `vm.legacy_va_layout`):
    /// from the bottom up.
    BottomUp,
    /// The lowest place.
    FirstFit,
    /// The narrowest gap that is wide enough.
    BestFit,
    /// Anywhere.
    Random,
}

impl Policy {
    /// All, with the names that [`FromStr`] reads.
    pub const ALL: [(&'static str, Policy); 5] = [
        ("linux", Policy::Linux),
        ("bottom-up", Policy::BottomUp),
        ("first-fit", Policy::FirstFit),
        ("best-fit", Policy::BestFit),
        ("random", Policy::Random),
    ];
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Policy, String> {
        let names = || Policy::ALL.map(|(name, _)| name).join(", ");
        let found = Policy::ALL.iter().find(|(name, _)| *name == text).map(|(_, policy)| *policy);
        found.ok_or_else(|| format!("no such policy: one of {}", names()))
    }
}

/// Which of the calls of one kind fail. They are counted from 1, over all processes of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Each, as likely as [`Engine::fail_rate`] says.
    Rate,
    /// This one.
    At(u64),
    /// This one and all after it.
    From(u64),
}

/// A call that fails: as text `CALL:ERRNO`, `CALL:ERRNO@N` (the N-th) or `CALL:ERRNO@N+` (from the
/// N-th on).
///
/// ```
/// use samara_trace::{Fault, When};
/// let fault: Fault = "mmap:ENOMEM@17".parse().unwrap();
/// assert_eq!((fault.nr, fault.errno, fault.when), (9, 12, When::At(17)));
/// let wrong = "mmap:ENOMEN@17".parse::<Fault>().unwrap_err();
/// assert_eq!(wrong.to_string(), "ENOMEN is no error's name: ENOMEM, EAGAIN, EACCES, ...");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// The call's number on x86-64.
    pub nr: u32,
    /// What it fails with; `brk`, which knows no errors, stays where it is.
    pub errno: i32,
    /// Which of them.
    pub when: When,
}

/// A text is no [`Fault`]: what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadFault(String);

impl fmt::Display for BadFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadFault {}

impl FromStr for Fault {
    type Err = BadFault;

    fn from_str(text: &str) -> Result<Fault, BadFault> {
        let wrong = |what: String| Err(BadFault(what));
        let Some((call, rest)) = text.split_once(':') else {
            return wrong(format!("{text:?}: give a call and an error, as in mmap:ENOMEM or mmap:ENOMEM@17"));
        };
        let (errno, which) = rest.split_once('@').map_or((rest, None), |(errno, which)| (errno, Some(which)));
        let Some(nr) = arch::FAILING.iter().find(|nr| call_name(**nr) == Some(call)) else {
            let names: Vec<_> = arch::FAILING.iter().filter_map(|nr| call_name(*nr)).collect();
            let names = names.join(", ");
            return wrong(format!("{call:?} is no call that can be made to fail: one of {names}"));
        };
        // The names of all errors that Linux has.
        let errno = match errno {
            "EWOULDBLOCK" => "EAGAIN",
            "ENOTSUP" => "EOPNOTSUPP",
            "EDEADLOCK" => "EDEADLK",
            other => other,
        };
        let named = |n: &i32| errno.starts_with('E') && format!("{:?}", nix::errno::Errno::from_raw(*n)) == errno;
        let Some(errno) = (1..134).find(named) else {
            return wrong(format!("{errno} is no error's name: ENOMEM, EAGAIN, EACCES, ..."));
        };
        let number = |text: &str| match text.parse::<u64>() {
            Ok(n) if n > 0 => Ok(n),
            _ => Err(BadFault(format!(
                "{text:?} is not which call fails: a number from 1 on, or one with a + behind it"
            ))),
        };
        let when = match which {
            None => When::Rate,
            Some(which) => match which.strip_suffix('+') {
                Some(first) => When::From(number(first)?),
                None => When::At(number(which)?),
            },
        };
        Ok(Fault { nr: *nr, errno, when })
    }
}

/// Why the engine refused a call that Linux's rules would have let the program have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// A [`Fault`], or [`Engine::fail_rate`]. The call was not made.
    Fault,
    /// [`Engine::max_map_count`]. The call was not made.
    MapCount,
    /// [`Engine::limit_as`]; the kernel refused it too.
    LimitAs,
    /// [`Engine::limit_data`]; the kernel refused it too.
    LimitData,
}

impl Cause {
    /// The word that an event's [`text`](crate::event::Event::text) has for it: `fault`,
    /// `max-map-count`, `limit-as`, `limit-data`.
    pub fn word(self) -> &'static str {
        match self {
            Cause::Fault => "fault",
            Cause::MapCount => "max-map-count",
            Cause::LimitAs => "limit-as",
            Cause::LimitData => "limit-data",
        }
    }
}

/// A call that the engine refused for a limit or a fault of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The process whose call it was.
    pub pid: u32,
    /// The call's number on x86-64.
    pub nr: u32,
    /// Which of these calls it was, counted from 1 over all processes, as [`When::At`] counts.
    pub count: u64,
    /// What it failed with; of `brk`, which knows no errors, what it would be.
    pub errno: i32,
    /// Why.
    pub cause: Cause,
}

/// So many refusals are kept one by one.
const KEPT: usize = 100;

/// What the engine did while it was in charge, over all processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decisions {
    /// Calls that it decided: each was answered by the kernel as it said, or counts below.
    pub decided: u64,
    /// Places that it chose.
    pub placed: u64,
    /// Calls that Linux's rules refuse, by the errno's name; the kernel refused them too.
    pub refused: BTreeMap<String, u64>,
    /// Calls that [`Engine::max_map_count`] refused: they were not made.
    pub limited: u64,
    /// Calls that a [`Fault`] refused: they were not made.
    pub failed: u64,
    /// Calls that [`Engine::limit_as`] or [`Engine::limit_data`] refused; the kernel refused them
    /// too, so that they count in `refused` as well.
    pub over_limit: u64,
    /// The first hundred of `limited`, `failed` and `over_limit`, in the order in which they came.
    pub refusals: Vec<Refusal>,
    /// Calls that the engine granted and that something it does not know of refused, or did in
    /// part: the driver of a file that was to be mapped, pages that could not be read in to be
    /// locked, filled or collapsed, a security module.
    pub beyond: u64,
    /// Calls that were in the kernel beside others, or were about another process, and got another
    /// answer: which came first nobody can say.
    pub unsure: u64,
    /// Calls that the engine does not decide, by their names: the kernel did, as without it.
    pub left: BTreeMap<&'static str, u64>,
}

impl Decisions {
    /// Counts a refusal.
    pub(crate) fn refuse(&mut self, refusal: Refusal) {
        *match refusal.cause {
            Cause::Fault => &mut self.failed,
            Cause::MapCount => &mut self.limited,
            Cause::LimitAs | Cause::LimitData => &mut self.over_limit,
        } += 1;
        if self.refusals.len() < KEPT {
            self.refusals.push(refusal);
        }
    }
}

#[cfg(test)]
mod tests;
