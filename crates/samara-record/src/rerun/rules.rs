//! The rules of `--what-if`: their names and their meaning. Knows no model.

use std::fmt;
use std::str::FromStr;

use crate::api::Policy;

/// Largest size of a guard: 1 MiB, as for [`PatternKind::GuardPages`].
///
/// [`PatternKind::GuardPages`]: samara_trace::survey::PatternKind::GuardPages
pub(super) const GUARD: u64 = 1 << 20;

/// Most calls that are held back at the same time in a space.
pub(super) const HELD: usize = 4096;

/// A change to the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// At most 1 MiB of private anonymous memory without access, beside such memory with access,
    /// gets its neighbour's protection.
    NoGuardPages,
    /// Names of anonymous memory (PR_SET_VMA_ANON_NAME) are not set.
    SameName,
    /// Anonymous memory that the kernel placed has lengths and places that are multiples of this
    /// power of two.
    Align(u64),
    /// Unmap calls of one thread are made in batches of this many calls; ranges that touch become
    /// one call.
    Batch(usize),
    /// A space has at most this many areas (`vm.max_map_count`).
    Limit(usize),
    /// This policy chooses the places that the kernel chose.
    Policy(Policy),
}

impl Rule {
    /// The forms that [`FromStr`] reads.
    pub const FORMS: [&'static str; 6] =
        ["no-guard-pages", "same-name", "align=SIZE", "batch=N", "limit=N", "policy=NAME"];
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::NoGuardPages => f.write_str("no-guard-pages"),
            Rule::SameName => f.write_str("same-name"),
            Rule::Align(size) => match size {
                size if size % (1 << 30) == 0 => write!(f, "align={}G", size >> 30),
                size if size % (1 << 20) == 0 => write!(f, "align={}M", size >> 20),
                size => write!(f, "align={}K", size >> 10),
            },
            Rule::Batch(n) => write!(f, "batch={n}"),
            Rule::Limit(n) => write!(f, "limit={n}"),
            Rule::Policy(policy) => {
                let name = Policy::ALL.iter().find(|(_, known)| known == policy).map_or("", |(name, _)| name);
                write!(f, "policy={name}")
            }
        }
    }
}

/// The text is no [`Rule`]; says what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRule(String);

impl fmt::Display for BadRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadRule {}

impl FromStr for Rule {
    type Err = BadRule;

    fn from_str(text: &str) -> Result<Rule, BadRule> {
        let (name, value) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
        let wrong = |what: &str| BadRule(format!("{text:?}: {what}"));
        match (name, value) {
            ("no-guard-pages", None) => Ok(Rule::NoGuardPages),
            ("same-name", None) => Ok(Rule::SameName),
            ("align", Some(value)) => {
                let what = "give a power of two from 4K to 1G, such as align=2M";
                let (digits, unit) = match value.char_indices().next_back() {
                    Some((at, 'K' | 'k')) => (&value[..at], 1 << 10),
                    Some((at, 'M' | 'm')) => (&value[..at], 1 << 20),
                    Some((at, 'G' | 'g')) => (&value[..at], 1 << 30),
                    _ => (value, 1),
                };
                let size = digits.parse::<u64>().ok().and_then(|n| n.checked_mul(unit)).ok_or_else(|| wrong(what))?;
                let fits = size.is_power_of_two() && (1 << 12..=1 << 30).contains(&size);
                if fits { Ok(Rule::Align(size)) } else { Err(wrong(what)) }
            }
            ("batch", Some(value)) => match value.parse() {
                Ok(n) if (1..=HELD).contains(&n) => Ok(Rule::Batch(n)),
                _ => Err(wrong("give a number of calls from 1 to 4096, such as batch=16")),
            },
            ("limit", Some(value)) => match value.parse() {
                Ok(n) => Ok(Rule::Limit(n)),
                Err(_) => Err(wrong("give a number of areas, such as limit=65530")),
            },
            ("policy", Some(value)) => value.parse().map(Rule::Policy).map_err(|error| wrong(&error)),
            _ => Err(BadRule(format!("no such rule: {text:?}: give one of {}", Rule::FORMS.join(", ")))),
        }
    }
}

/// All rules of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rules {
    pub(super) no_guards: bool,
    pub(super) same_name: bool,
    pub(super) align: Option<u64>,
    pub(super) batch: Option<usize>,
    pub(super) limit: Option<usize>,
    pub(super) policy: Option<Policy>,
}

impl Rules {
    pub(super) fn of(rules: &[Rule]) -> Rules {
        rules.iter().fold(Rules::default(), |all, rule| match *rule {
            Rule::NoGuardPages => Rules { no_guards: true, ..all },
            Rule::SameName => Rules { same_name: true, ..all },
            Rule::Align(size) => Rules { align: Some(size), ..all },
            Rule::Batch(n) => Rules { batch: Some(n), ..all },
            Rule::Limit(n) => Rules { limit: Some(n), ..all },
            Rule::Policy(policy) => Rules { policy: Some(policy), ..all },
        })
    }

    /// Whether memory is at other places than in the trace.
    pub(super) fn moves(&self) -> bool {
        self.align.is_some() || self.policy.is_some()
    }
}
