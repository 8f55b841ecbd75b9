//! The engine's interface types: the settings of the engine in charge of a program ([`Engine`],
//! [`Fault`]), and its results ([`Decisions`]). Parses faults and counts refusals; no other
//! behaviour.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use samara_trace::calls;

/// The engine in charge: the model decides the results of memory calls, and the kernel carries them
/// out.
///
/// If a call leaves the place open, the engine chooses it, and the call is made at exactly that
/// place. A call that a limit or a fault of this structure refuses is not made, except for
/// [`limit_as`](Engine::limit_as) and [`limit_data`](Engine::limit_data), which the kernel
/// enforces. A call that Linux's rules refuse is made, so that the kernel confirms it. If the
/// kernel answers otherwise than the engine said, that is a
/// [`Difference`](samara_trace::event::EventKind::Difference).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Engine {
    /// Most areas of one space, like `vm.max_map_count`. `None`: the kernel's own setting, which is
    /// also the upper bound.
    pub max_map_count: Option<usize>,
    /// RLIMIT_AS of the program, soft and hard, in bytes.
    pub limit_as: Option<u64>,
    /// RLIMIT_DATA of the program, soft and hard, in bytes.
    pub limit_data: Option<u64>,
    /// How places are chosen.
    pub policy: Policy,
    /// Seed. With it the program is loaded without address randomisation, and chosen places and the
    /// calls that fail by [`fail_rate`](Engine::fail_rate) follow from this number.
    pub seed: Option<u64>,
    /// Features of the running kernel; `None`: those of
    /// [`samara_probe::Profile::running`].
    pub features: Option<samara_mm::Features>,
    /// Calls that fail. If several fit a call, the first counts.
    pub faults: Vec<Fault>,
    /// Probability of the faults whose [`When`] is `Rate`, from 0 to 1 (`None`: 1). If there is no
    /// such fault, it applies to mmap, mremap and brk, with ENOMEM.
    pub fail_rate: Option<f64>,
}

/// How the engine chooses a place that a call leaves open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Like Linux: from the top down.
    #[default]
    Linux,
    /// Like Linux for programs in the old layout (ADDR_COMPAT_LAYOUT, `vm.legacy_va_layout`): from
    /// the bottom up.
    BottomUp,
    /// The lowest place.
    FirstFit,
    /// The narrowest gap that is wide enough.
    BestFit,
    /// Anywhere.
    Random,
}

impl Policy {
    /// All policies, with the names that [`FromStr`] parses.
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
        found.ok_or_else(|| format!("no such policy: give one of {}", names()))
    }
}

/// Selects the calls of one kind that fail. Calls are counted from 1, over all processes of the
/// program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Each call, with the probability [`Engine::fail_rate`].
    Rate,
    /// This call.
    At(u64),
    /// This call and all after it.
    From(u64),
}

/// A call that is made to fail.
///
/// As text: `CALL:ERRNO`, `CALL:ERRNO@N` (the N-th call) or `CALL:ERRNO@N+` (from the N-th on).
///
/// ```
/// use samara_record::{Fault, When};
/// let fault: Fault = "mmap:ENOMEM@17".parse().unwrap();
/// assert_eq!((fault.nr, fault.errno, fault.when), (9, 12, When::At(17)));
/// let wrong = "mmap:ENOMEN@17".parse::<Fault>().unwrap_err();
/// assert_eq!(
///     wrong.to_string(),
///     "ENOMEN is not the name of an error: give one such as ENOMEM, EAGAIN or EACCES"
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// Number of the call on x86-64.
    pub nr: u32,
    /// Errno of the failure. A failed `brk`, which returns no errors, leaves the break where it is.
    pub errno: i32,
    /// Which of these calls fail.
    pub when: When,
}

/// The text is no [`Fault`]; says what is wrong with it.
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
        let Some((nr, _)) = calls::failing().find(|(_, name)| *name == call) else {
            let names: Vec<_> = calls::failing().map(|(_, name)| name).collect();
            let names = names.join(", ");
            return wrong(format!("{call:?} is not a call that can be made to fail: give one of {names}"));
        };
        // Aliases. All other names are those of nix's `Errno`.
        let errno = match errno {
            "EWOULDBLOCK" => "EAGAIN",
            "ENOTSUP" => "EOPNOTSUPP",
            "EDEADLOCK" => "EDEADLK",
            other => other,
        };
        let named = |n: &i32| errno.starts_with('E') && format!("{:?}", nix::errno::Errno::from_raw(*n)) == errno;
        let Some(errno) = (1..134).find(named) else {
            return wrong(format!("{errno} is not the name of an error: give one such as ENOMEM, EAGAIN or EACCES"));
        };
        let number = |text: &str| match text.parse::<u64>() {
            Ok(n) if n > 0 => Ok(n),
            _ => Err(BadFault(format!(
                "{text:?} does not say which calls fail: give a number from 1 on (3), or one with a + (3+)"
            ))),
        };
        let when = match which {
            None => When::Rate,
            Some(which) => match which.strip_suffix('+') {
                Some(first) => When::From(number(first)?),
                None => When::At(number(which)?),
            },
        };
        Ok(Fault { nr, errno, when })
    }
}

/// Why the engine refused a call that Linux's rules alone would have granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// A [`Fault`], or [`Engine::fail_rate`]. The call was not made.
    Fault,
    /// [`Engine::max_map_count`]. The call was not made.
    MapCount,
    /// [`Engine::limit_as`]. The kernel refused the call too.
    LimitAs,
    /// [`Engine::limit_data`]. The kernel refused the call too.
    LimitData,
}

impl Cause {
    /// The word for it in an event's [`text`](samara_trace::event::Event::text): `fault`,
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

/// A call that the engine refused because of one of its own limits or faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// The process that made the call.
    pub pid: u32,
    /// Number of the call on x86-64.
    pub nr: u32,
    /// Position among the calls of this number, counted from 1 over all processes, as [`When::At`]
    /// counts.
    pub count: u64,
    /// Errno of the refusal; for `brk`, which returns no errors, the errno that it stands for.
    pub errno: i32,
    /// Why it was refused.
    pub cause: Cause,
}

/// Number of refusals that are kept individually.
const KEPT: usize = 100;

/// Totals of the engine in charge, over all processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decisions {
    /// Calls that the engine decided. The kernel answered each as the engine said, or the call
    /// counts below.
    pub decided: u64,
    /// Places that the engine chose.
    pub placed: u64,
    /// Calls that the kernel refused at the engine's place, and granted at a second try with the
    /// program's own arguments. Each counts as a difference, or in `unsure`.
    pub places_refused: u64,
    /// Calls that Linux's rules refuse, by the errno's name. The kernel refused them too.
    pub refused: BTreeMap<String, u64>,
    /// Calls that [`Engine::max_map_count`] refused. They were not made.
    pub limited: u64,
    /// Calls that a [`Fault`] refused. They were not made.
    pub failed: u64,
    /// Calls that [`Engine::limit_as`] or [`Engine::limit_data`] refused. The kernel refused them
    /// too, so they also count in `refused`.
    pub over_limit: u64,
    /// The first hundred calls of `limited`, `failed` and `over_limit`, in order.
    pub refusals: Vec<Refusal>,
    /// Calls that the engine granted, and that something outside the model refused or did in part:
    /// the driver of a mapped file, a security module, or pages that could not be read in to be
    /// locked, filled or collapsed.
    pub beyond: u64,
    /// Calls whose answer differs from the engine's, and which overlapped other calls or acted on
    /// another process. Their order is unknown.
    pub unsure: u64,
    /// Calls that the engine does not decide, by name. The kernel decided them.
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
#[path = "engine_tests.rs"]
mod tests;
