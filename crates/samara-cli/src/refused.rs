//! The rule that refused a call, for people and as JSON. Does not know where it is printed.

use samara_trace::summary::Failure;
use samara_trace::{Refused, RefusedBy};
use serde_json::{Value, json};

use crate::call_arguments::errno;
use crate::format::{bytes as in_units, count, plural};
use crate::line::{self, name};
use crate::output::clean;
use crate::why::Sites;

fn in_full(bytes: u64) -> String {
    format!("{} bytes", count(bytes))
}

/// The rule in a few words, with its figures.
pub(crate) fn text(refused: &Refused) -> String {
    // Two figures that look the same in binary units are printed in full.
    let are_close = refused.limit.zip(refused.would_be).is_some_and(|(a, b)| a != b && in_units(a) == in_units(b));
    let bytes = if are_close { in_full } else { in_units };
    let limit = |shown: fn(u64) -> String| refused.limit.map_or_else(|| "?".to_owned(), shown);
    // `and` describes the value that the call would have reached.
    let with = |rule: String, and: &str, shown: fn(u64) -> String| match refused.would_be {
        Some(figure) => format!("{rule}, and {}", and.replace("{}", &shown(figure))),
        None => rule,
    };
    let at = || refused.at.map_or_else(|| "?".to_owned(), |(start, end)| format!("{start:x}-{end:x}"));
    let areas = |n: u64| plural(n, "area");
    // Later refusals of a kind have the rule alone.
    let named = |rule: &str, shown: fn(u64) -> String| match refused.limit {
        Some(_) => format!("{rule} is {}", limit(shown)),
        None => rule.to_owned(),
    };
    match refused.by {
        RefusedBy::MapCount => with(named("vm.max_map_count", count), "the process has {}", areas),
        RefusedBy::AddressSpace => with(named("RLIMIT_AS", bytes), "the address space would have {}", bytes),
        RefusedBy::Data => with(named("RLIMIT_DATA", bytes), "private writable memory would have {}", bytes),
        RefusedBy::Locked => with(named("RLIMIT_MEMLOCK", bytes), "{} would be locked", bytes),
        RefusedBy::OvercommitGuess => with(
            format!("vm.overcommit_memory is 0, memory and swap have {}", limit(bytes)),
            "the call takes {} at once",
            bytes,
        ),
        RefusedBy::OvercommitNever => {
            with(format!("vm.overcommit_memory is 2, CommitLimit is {}", limit(bytes)), "it would have to be {}", bytes)
        }
        RefusedBy::Window32 => with(
            format!("no gap so wide in the 2 GiB of MAP_32BIT: the widest has {}", limit(bytes)),
            "{} was asked for",
            bytes,
        ),
        RefusedBy::NoGap => with(
            format!("no gap so wide in the address space: the widest has {}", limit(bytes)),
            "{} was asked for",
            bytes,
        ),
        RefusedBy::Hole => format!("a hole in the range: nothing is mapped at {}", at()),
        RefusedBy::NoRoom => format!("no room to grow in place: {} is mapped, and it may not move", at()),
        RefusedBy::CrossesAreas => format!("the range crosses areas: it reaches over the end of {}", at()),
        RefusedBy::HugePages => with(format!("too few free huge pages: {}", limit(bytes)), "{} was asked for", bytes),
        RefusedBy::MinAddress => format!("{}, and {} is below it", named("vm.mmap_min_addr", |n| n.to_string()), at()),
        RefusedBy::FileNotReadable => "its file is not open for reading".to_owned(),
        RefusedBy::FileNotWritable => "its file is not open for writing".to_owned(),
        RefusedBy::FileNotExecutable => "its file may not be executed (noexec)".to_owned(),
        RefusedBy::Sealed => format!("{} is sealed (mseal)", at()),
        RefusedBy::FileSealed => "its file is sealed against writing (F_SEAL_WRITE or F_SEAL_FUTURE_WRITE)".to_owned(),
        RefusedBy::Mdwe => {
            let area = refused.at.map_or_else(String::new, |_| format!(": {}", at()));
            format!("PR_SET_MDWE: memory that can be written may not be executed{area}")
        }
        RefusedBy::NoAccess => format!("{} may not be accessed, and cannot be made resident", at()),
        RefusedBy::IsLocked => format!("{} is locked in memory (mlock)", at()),
        RefusedBy::Occupied => format!("the range is not free: {} is mapped", at()),
        RefusedBy::Filter => "no rule of the kernel: by the program's own seccomp filter, it seems".to_owned(),
        RefusedBy::Unaligned => match refused.at {
            Some((start, _)) => format!("{start:x} is no multiple of the page size"),
            None => "the address is no multiple of the page size".to_owned(),
        },
        RefusedBy::NoLength => "the length is 0".to_owned(),
        RefusedBy::Processes => with(named("RLIMIT_NPROC", count), "the user would have {} tasks", count),
        RefusedBy::Pids => with(named("pids.max of the control group", count), "it would have {} tasks", count),
        RefusedBy::Threads => with(named("kernel.threads-max", count), "there would be {} tasks", count),
        RefusedBy::RunFail => "by samara, for --fail or --fail-rate".to_owned(),
        RefusedBy::RunMapCount => "by samara, for --max-map-count".to_owned(),
        RefusedBy::RunAddressSpace => "by samara, for --limit-as".to_owned(),
        RefusedBy::RunData => "by samara, for --limit-data".to_owned(),
        other => other.name().to_owned(),
    }
}

/// The rule as one object; null where none is known.
pub(crate) fn json(refused: Option<&Refused>) -> Value {
    let Some(refused) = refused else { return Value::Null };
    let (start, end) = refused.at.unzip();
    json!({
        "by": refused.by.name(), "limit": refused.limit, "would_be": refused.would_be, "start": start, "end": end,
        "text": text(refused),
    })
}

/// The function that made the first call of a kind of failures, if it is known.
pub(crate) fn function(failure: &Failure, sites: Sites<'_>) -> Option<String> {
    sites.function_of(failure.stack, &name(failure.nr))
}

/// The origin of the first call of a kind of failures: ` in grow at x.c:7`, or the place of the
/// instruction. Empty if it is not known.
pub(crate) fn caller(failure: &Failure, sites: Sites<'_>) -> String {
    let place = || failure.caller.as_ref().map(|at| format!(" from {}", clean(&line::place(at))));
    function(failure, sites).map(|function| format!(" in {function}")).or_else(place).unwrap_or_default()
}

/// Calls that failed, as an array.
pub(crate) fn failures(all: &[Failure], sites: Sites<'_>) -> Value {
    let one = |f: &Failure| {
        json!({
            "call": name(f.nr), "error": errno(-i64::from(f.errno)).map(|error| error.0), "count": f.count, "pid": f.pid,
            "areas": f.areas, "ns": f.ns, "event": f.event, "refused": json(f.refused.as_ref()),
            "function": function(f, sites), "caller": f.caller.as_ref().map(line::place),
        })
    };
    all.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_told_with_their_figures() {
        let told = |text: &str| super::text(&text.parse::<Refused>().unwrap());
        assert_eq!(
            told("kernel:rlimit-as limit=268435456 would_be=269484032"),
            "RLIMIT_AS is 256 MiB, and the address space would have 257 MiB"
        );
        assert_eq!(
            told("kernel:rlimit-data limit=268435456 would_be=268439552"),
            "RLIMIT_DATA is 268,435,456 bytes, and private writable memory would have 268,439,552 bytes"
        );
        assert_eq!(told("kernel:rlimit-as"), "RLIMIT_AS");
        assert_eq!(
            told("kernel:max-map-count limit=65530 would_be=65530"),
            "vm.max_map_count is 65,530, and the process has 65,530 areas"
        );
        assert_eq!(told("kernel:hole start=4096 end=8192"), "a hole in the range: nothing is mapped at 1000-2000");
        assert_eq!(
            told("kernel:overcommit-never limit=1048576 would_be=2097152"),
            "vm.overcommit_memory is 2, CommitLimit is 1 MiB, and it would have to be 2 MiB"
        );
        assert_eq!(
            told("kernel:pids-max limit=5 would_be=6"),
            "pids.max of the control group is 5, and it would have 6 tasks"
        );
        assert_eq!(
            told("kernel:mmap-min-addr limit=65536 start=4096 end=8192"),
            "vm.mmap_min_addr is 65536, and 1000-2000 is below it"
        );
        for (by, name) in RefusedBy::ALL {
            assert_ne!(super::text(&Refused::new(by)), name, "it has words of its own");
        }
    }
}
