//! Conditions on a summary, such as `areas_peak > 1000`, by which a recording fails. Does not know
//! how a summary is made.

use std::fmt;
use std::str::FromStr;

use bytesize::ByteSize;
use samara_trace::summary::Summary;
use serde_json::Value;

use crate::json::{self, Recorded};

/// A comparison of one field of the summary's JSON with a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailIf {
    /// The names that lead to the field: `calls`, `mmap`, `count`.
    path: Vec<String>,
    is: Is,
    limit: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Less,
    LessOrEqual,
    Equal,
    Unequal,
    GreaterOrEqual,
    Greater,
}

/// The longer ones first: `>=` begins as `>` does.
const WORDS: [(&str, Is); 6] = [
    ("<=", Is::LessOrEqual),
    (">=", Is::GreaterOrEqual),
    ("==", Is::Equal),
    ("!=", Is::Unequal),
    ("<", Is::Less),
    (">", Is::Greater),
];

/// Numbers that do not come from areas and calls.
const OUTSIDE: [&str; 4] = ["exit_code", "program_ns", "wall_ns", "max_map_count"];

impl FailIf {
    /// Why the number is not known: of a trace that is read, the recorder's comparisons; where no
    /// area was seen, everything that is seen of areas and calls; resident memory, if it was not
    /// recorded. `None`: it is known.
    pub(crate) fn unknown(&self, summary: &Value) -> Option<&'static str> {
        let (first, last) = (self.path.first()?, self.path.last()?);
        let is_null = |name: &str| summary.get(name).is_some_and(Value::is_null);
        let saw_nothing = summary.get("areas_peak").and_then(Value::as_u64) == Some(0);
        let is_resident = first == "calls" && ["populated", "released"].contains(&&**last);
        if is_resident && is_null("resident_peak") {
            return Some("resident memory was not recorded: record it by --resident");
        }
        let is_open = (saw_nothing && !OUTSIDE.contains(&&**first)) || (is_null(first) && self.path.len() == 1);
        is_open.then_some("the number is not known")
    }

    /// The value of the field, if the condition holds. A missing field (a call that was never made)
    /// is 0.
    pub(crate) fn holds(&self, summary: &Value) -> Option<u64> {
        let value =
            self.path.iter().try_fold(summary, |value, name| value.get(name)).and_then(Value::as_u64).unwrap_or(0);
        let (left, right) = (value, self.limit);
        let holds = match self.is {
            Is::Less => left < right,
            Is::LessOrEqual => left <= right,
            Is::Equal => left == right,
            Is::Unequal => left != right,
            Is::GreaterOrEqual => left >= right,
            Is::Greater => left > right,
        };
        holds.then_some(value)
    }
}

impl fmt::Display for FailIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = WORDS.iter().find(|word| word.1 == self.is).map_or("", |word| word.0);
        write!(f, "{} {word} {}", self.path.join("."), self.limit)
    }
}

impl FromStr for FailIf {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let word = WORDS.iter().filter_map(|(word, is)| Some((text.find(word)?, word.len(), *is)));
        let Some((at, len, is)) = word.min_by_key(|(at, len, _)| (*at, std::cmp::Reverse(*len))) else {
            return Err("give a field, a comparison and a number, such as \"areas_peak > 1000\"".to_owned());
        };
        let (field, number) = (text[..at].trim(), text[at + len..].trim());
        let path: Vec<String> = field.split('.').map(str::to_owned).collect();
        if !is_known(&path) {
            return Err(format!(
                "there is no number \"{field}\" in a summary: give a field of --summary-json, such as areas_peak, splits, \
                 calls.mmap.count, calls.mprotect.failed or largest_space.areas"
            ));
        }
        let limit = match number.replace('_', "").parse::<ByteSize>() {
            Ok(ByteSize(limit)) if limit < u64::MAX => limit,
            _ => return Err(format!("\"{number}\" is no number: give a whole one, or one with a unit, such as 64MiB")),
        };
        Ok(FailIf { path, is, limit })
    }
}

/// Whether a summary has a number there.
fn is_known(path: &[String]) -> bool {
    let names: Vec<&str> = path.iter().map(String::as_str).collect();
    match names[..] {
        ["calls", name, "count" | "failed" | "total_ns" | "populated" | "released"] => {
            samara_trace::calls::row_of(name).is_some()
        }
        ["largest_space", "areas" | "bytes"] => true,
        [name] => {
            let recorded = Recorded {
                checks: Some(0),
                limit: Some(0),
                exit_code: Some(0),
                program_ns: Some(0),
                ..Recorded::default()
            };
            json::summary(&Summary::default(), &recorded).get(name).is_some_and(Value::is_number)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_number_that_is_not_known_is_no_zero() {
        let summary = json!({"checks": null, "areas_peak": 7});
        let is_open = |text: &str| text.parse::<FailIf>().unwrap().unknown(&summary).is_some();
        assert_eq!(["checks == 0", "areas_peak > 1", "calls.mmap.count > 1"].map(is_open), [true, false, false]);
        let nothing = json!({"areas_peak": 0, "exit_code": 0});
        let is_open = |text: &str| text.parse::<FailIf>().unwrap().unknown(&nothing).is_some();
        assert_eq!(["exit_code > 0", "areas_peak > 1", "calls.mmap.count > 1"].map(is_open), [false, true, true]);
        assert!("calls.mmpa.count > 1".parse::<FailIf>().is_err());
        // Resident memory, in a trace without it and in one with it.
        let conditions = ["calls.mmap.populated > 9", "calls.munmap.released == 0", "calls.mmap.count > 9"];
        let why = |peak: Value| {
            let summary = json!({"areas_peak": 7, "resident_peak": peak, "calls": {}});
            conditions.map(|text| text.parse::<FailIf>().unwrap().unknown(&summary))
        };
        let not_recorded = Some("resident memory was not recorded: record it by --resident");
        assert_eq!(why(Value::Null), [not_recorded, not_recorded, None]);
        assert_eq!(why(json!({"private": 4096})), [None; 3]);
    }

    #[test]
    fn conditions_are_read_and_hold() {
        let summary = json!({"areas_peak": 1000, "calls": {"mmap": {"count": 7, "populated": 1 << 20}}, "mapped_bytes_peak": 1 << 30});
        for (text, holds) in [
            ("areas_peak > 999", Some(1000)),
            ("areas_peak>1000", None),
            ("areas_peak >= 1_000", Some(1000)),
            ("areas_peak < 1000", None),
            ("areas_peak <= 1000", Some(1000)),
            ("areas_peak == 1000", Some(1000)),
            ("areas_peak != 1000", None),
            ("calls.mmap.count > 6", Some(7)),
            ("calls.mmap.populated > 8KiB", Some(1 << 20)),
            ("calls.mmap.released > 0", None),
            ("calls.munmap.count == 0", Some(0)),
            ("largest_space.areas < 1", Some(0)),
            ("mapped_bytes_peak > 1023MiB", Some(1 << 30)),
            ("mapped_bytes_peak > 1GiB", None),
        ] {
            let condition: FailIf = text.parse().unwrap();
            assert_eq!(condition.holds(&summary), holds, "{text}");
        }
        assert_eq!("splits>=3".parse::<FailIf>().unwrap().to_string(), "splits >= 3");
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        for (text, why) in [
            ("areas_peak", "a field, a comparison and a number"),
            ("areas_peak > many", "\"many\" is no number"),
            ("areas_peak > ", "\"\" is no number"),
            ("areas_peak > -1", "\"-1\" is no number"),
            ("areas > 1", "no number \"areas\""),
            ("notes > 1", "no number \"notes\""),
            ("calls.mmap > 1", "no number \"calls.mmap\""),
            ("calls..count > 1", "no number"),
            ("> 1", "no number \"\""),
        ] {
            let said = text.parse::<FailIf>().unwrap_err();
            assert!(said.contains(why), "{text}: {said}");
        }
    }
}
