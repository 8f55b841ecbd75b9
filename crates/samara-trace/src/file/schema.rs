//! The columns of a trace file, and its header, which is metadata of the schema. Knows nothing of
//! bytes.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use arrow_schema::{DataType, Field, Fields, Schema};
use samara_mm::Features;
use serde::de::{Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};

use super::error::shown;
use super::{Fault, name_text};

/// The version of the format that this crate writes. It reads the older ones too.
pub const FORMAT: &str = "3";

/// The key of the version.
pub(crate) const FORMAT_KEY: &str = "samara.format";

/// Number of columns of version 2, which added stacks.
pub(crate) const WITH_STACKS: usize = 23;

/// Number of columns of version 3, which added callers and resident memory.
pub(crate) const WITH_CALLERS: usize = 28;

/// How many columns a version has: the first ones of [`columns`].
pub(crate) fn count_of(version: &str) -> Option<usize> {
    match version {
        "1" => Some(22),
        "2" => Some(WITH_STACKS),
        FORMAT => Some(WITH_CALLERS),
        _ => None,
    }
}

/// Most bytes of JSON for the program's arguments.
const MAX_ARGS_BYTES: usize = 1 << 20;

/// Most arguments that a header may claim. Linux allows a program about 700,000.
const MAX_ARGS: u64 = 1 << 20;

/// What was recorded, where and when: the metadata of a trace file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The program as the user gave it, in the form of [`name_text`]; so are `args`.
    pub program: String,
    /// Its arguments without its own name: the first ones, as many as fit into 1 MiB of JSON.
    pub args: Vec<String>,
    /// Number of further arguments that were left out.
    pub args_left_out: u64,
    /// Release of the kernel, as `uname -r` prints it.
    pub kernel: String,
    /// Name of the rules that the recorder assumed for the kernel, such as `6.18 +guard-mark`;
    /// empty in older traces.
    pub profile: String,
    /// These rules; `None` in older traces.
    pub features: Option<Features>,
    /// The rules that were taken from the kernel's release alone, because they could not be probed.
    pub presumed: Features,
    /// Machine architecture: `x86_64`.
    pub arch: String,
    /// Bytes in a page.
    pub page_size: u64,
    /// When the recording began: UTC, RFC 3339.
    pub start_time: String,
    /// Version of Samara that recorded.
    pub recorder: String,
    /// `vm.max_map_count` when the recording began; `None` in older traces.
    pub max_map_count: Option<u64>,
    /// `vm.overcommit_memory` then; `None` in older traces.
    pub overcommit: Option<u64>,
    /// The program's soft resource limits then, by name (`as`, `data`, `memlock`, `nproc`,
    /// `stack`), in bytes except `nproc`. `u64::MAX` is no limit. Empty in older traces.
    pub limits: BTreeMap<String, u64>,
    /// The line that the kernel adds to every maps file for an area that belongs to no space
    /// (`[vsyscall]`); empty if it adds none.
    pub gate: String,
}

impl Header {
    /// The header of a recording of this program that begins now. The kernel, its settings and the
    /// limits are not set; a recorder adds these (`samara_record::Options::header`).
    pub fn new(program: &OsStr, args: &[OsString]) -> Self {
        let mut left = MAX_ARGS_BYTES;
        let args_in: Vec<String> =
            args.iter().map(|arg| name_text(arg.as_encoded_bytes())).take_while(|arg| fits(arg, &mut left)).collect();
        Header {
            program: name_text(program.as_encoded_bytes()),
            args_left_out: (args.len() - args_in.len()) as u64,
            args: args_in,
            kernel: String::new(),
            profile: String::new(),
            features: None,
            presumed: Features::empty(),
            arch: "x86_64".to_owned(),
            page_size: 4096,
            start_time: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
            recorder: env!("CARGO_PKG_VERSION").to_owned(),
            max_map_count: None,
            overcommit: None,
            limits: BTreeMap::new(),
            gate: String::new(),
        }
    }

    /// The rules of the kernel: those that the recorder assumed, or, in older traces, those of its
    /// release.
    pub fn rules(&self) -> Features {
        self.features.unwrap_or_else(|| Features::of_release(&self.kernel))
    }

    pub(crate) fn to_metadata(&self) -> HashMap<String, String> {
        let mut left = MAX_ARGS_BYTES;
        let args: Vec<&str> = self.args.iter().map(String::as_str).take_while(|arg| fits(arg, &mut left)).collect();
        let left_out = self.args_left_out.saturating_add((self.args.len() - args.len()) as u64);
        let args = serde_json::Value::from(args).to_string();
        let rules = self.features.map(|features| {
            [
                ("samara.profile", self.profile.clone()),
                ("samara.features", features.names().join(",")),
                ("samara.presumed", self.presumed.names().join(",")),
            ]
        });
        let always = [
            (FORMAT_KEY, FORMAT.to_owned()),
            ("samara.program", self.program.clone()),
            ("samara.args", args),
            ("samara.args_left_out", left_out.to_string()),
            ("samara.kernel", self.kernel.clone()),
            ("samara.arch", self.arch.clone()),
            ("samara.page_size", self.page_size.to_string()),
            ("samara.start_time", self.start_time.clone()),
            ("samara.recorder", self.recorder.clone()),
            ("samara.gate", self.gate.clone()),
        ];
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        let all: Vec<String> =
            self.limits.iter().map(|(name, limit)| format!("{name}={}", limit_text(*limit))).collect();
        let settings = [
            ("samara.max_map_count", number(self.max_map_count)),
            ("samara.overcommit", number(self.overcommit)),
            ("samara.limits", (!all.is_empty()).then(|| all.join(","))),
        ];
        let settings = settings.into_iter().filter_map(|(key, value)| Some((key, value?)));
        always
            .into_iter()
            .chain(rules.into_iter().flatten())
            .chain(settings)
            .map(|(key, value)| (key.to_owned(), value))
            .collect()
    }

    /// Parses a header from metadata; `find` looks up a key.
    pub(crate) fn read<'a>(find: impl Fn(&str) -> Option<&'a str>) -> Result<Self, Fault> {
        let get = |key: &str| find(key).ok_or_else(|| Fault::NotATrace(format!("its metadata has no `{key}`")));
        let format = get(FORMAT_KEY)?;
        if count_of(format).is_none() {
            return Err(Fault::Format(shown(format)));
        }
        let wrong = |key: &str| Fault::NotATrace(format!("`{key}` in its metadata is invalid"));
        let args = get("samara.args")?;
        let args: Args = serde_json::from_str(args).map_err(|_| wrong("samara.args"))?;
        if args.count > MAX_ARGS {
            return Err(Fault::TooLarge("arguments of the program", args.count, MAX_ARGS));
        }
        Ok(Header {
            program: get("samara.program")?.to_owned(),
            args: args.first,
            // Older traces contain all arguments.
            args_left_out: match find("samara.args_left_out") {
                Some(count) => count.parse().map_err(|_| wrong("samara.args_left_out"))?,
                None => 0,
            },
            kernel: get("samara.kernel")?.to_owned(),
            profile: find("samara.profile").unwrap_or_default().to_owned(),
            features: find("samara.features").map(Features::named),
            presumed: find("samara.presumed").map_or(Features::empty(), Features::named),
            arch: get("samara.arch")?.to_owned(),
            page_size: page_size(get("samara.page_size")?)
                .ok_or_else(|| Fault::NotATrace("`samara.page_size` in its metadata is no power of two".to_owned()))?,
            start_time: get("samara.start_time")?.to_owned(),
            recorder: get("samara.recorder")?.to_owned(),
            max_map_count: find("samara.max_map_count").and_then(|text| text.parse().ok()),
            overcommit: find("samara.overcommit").and_then(|text| text.parse().ok()),
            limits: find("samara.limits").map(limits).unwrap_or_default(),
            gate: get("samara.gate")?.to_owned(),
        })
    }
}

fn page_size(text: &str) -> Option<u64> {
    text.parse().ok().filter(|size: &u64| size.is_power_of_two())
}

/// Most limits that a header may claim.
const MAX_LIMITS: usize = 64;

/// A limit as the header has it.
fn limit_text(limit: u64) -> String {
    if limit == u64::MAX { "unlimited".to_owned() } else { limit.to_string() }
}

/// The limits that a list names. Entries that cannot be parsed are skipped.
fn limits(list: &str) -> BTreeMap<String, u64> {
    let one = |one: &str| {
        let (name, limit) = one.split_once('=')?;
        let limit = if limit == "unlimited" { u64::MAX } else { limit.parse().ok()? };
        Some((name.to_owned(), limit))
    };
    list.split(',').filter_map(one).take(MAX_LIMITS).collect()
}

/// A JSON array of strings: the ones that are kept, and the array's length.
struct Args {
    first: Vec<String>,
    count: u64,
}

impl<'de> Deserialize<'de> for Args {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Reads;
        impl<'de> Visitor<'de> for Reads {
            type Value = Args;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of strings")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Args, A::Error> {
                let mut args = Args { first: Vec::new(), count: 0 };
                while args.count < MAX_ARGS
                    && let Some(arg) = seq.next_element()?
                {
                    args.first.push(arg);
                    args.count += 1;
                }
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    args.count += 1;
                }
                Ok(args)
            }
        }
        from.deserialize_seq(Reads)
    }
}

/// Whether an argument fits into the remaining bytes of JSON. If so, takes its bytes from them.
fn fits(arg: &str, left: &mut usize) -> bool {
    let escaped: usize =
        arg.bytes().map(|byte| if byte < 0x20 { 6 } else { 1 + usize::from(b"\"\\".contains(&byte)) }).sum();
    match left.checked_sub(escaped + "\"\",".len()) {
        Some(rest) => {
            *left = rest;
            true
        }
        None => false,
    }
}

/// The fields of an area, in order.
pub(crate) fn area_fields() -> Fields {
    Fields::from(vec![
        Field::new("start", DataType::UInt64, false),
        Field::new("end", DataType::UInt64, false),
        Field::new("perms", DataType::Utf8, false),
        Field::new("offset", DataType::UInt64, false),
        Field::new("dev_major", DataType::UInt32, false),
        Field::new("dev_minor", DataType::UInt32, false),
        Field::new("inode", DataType::UInt64, false),
        Field::new("name", DataType::Utf8, false),
        Field::new("apart", DataType::Utf8, false),
    ])
}

/// The fields of a step of a plan, in order.
pub(crate) fn step_fields() -> Fields {
    Fields::from(vec![
        Field::new("kind", DataType::Utf8, false),
        Field::new("start", DataType::UInt64, false),
        Field::new("end", DataType::UInt64, false),
    ])
}

/// The inner field of a list.
pub(crate) fn item(fields: Fields) -> Arc<Field> {
    Arc::new(Field::new("item", DataType::Struct(fields), false))
}

/// The columns, in order. Later versions have more at the end.
pub(crate) fn columns() -> Vec<Field> {
    let mut fields = vec![
        Field::new("seq", DataType::UInt64, false),
        Field::new("kind", DataType::Utf8, false),
        Field::new("entry_ns", DataType::UInt64, false),
        Field::new("exit_ns", DataType::UInt64, false),
        Field::new("space", DataType::UInt64, false),
        Field::new("pid", DataType::UInt32, false),
        Field::new("tid", DataType::UInt32, false),
        Field::new("call", DataType::Utf8, true),
        Field::new("nr", DataType::UInt32, true),
    ];
    fields.extend((0..6).map(|i| Field::new(format!("arg{i}"), DataType::UInt64, false)));
    fields.extend([
        Field::new("result", DataType::Int64, false),
        Field::new("overlapped", DataType::Boolean, false),
        Field::new("plan", DataType::List(item(step_fields())), false),
        Field::new("window_start", DataType::UInt64, true),
        Field::new("window_end", DataType::UInt64, true),
        Field::new("areas", DataType::List(item(area_fields())), false),
        Field::new("text", DataType::Utf8, false),
        Field::new("stack", DataType::UInt32, true),
        Field::new("ip", DataType::UInt64, true),
        Field::new("resident_private", DataType::UInt64, true),
        Field::new("resident_files", DataType::UInt64, true),
        Field::new("resident_private_change", DataType::Int64, true),
        Field::new("resident_files_change", DataType::Int64, true),
    ]);
    fields
}

/// The schema of a file with this header.
pub(crate) fn schema(header: &Header) -> Schema {
    Schema::new_with_metadata(columns(), header.to_metadata())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_size() {
        let read = |size: &str| {
            let mut all = Header::new("true".as_ref(), &[]).to_metadata();
            all.insert("samara.page_size".to_owned(), size.to_owned());
            Header::read(|key| all.get(key).map(String::as_str))
        };
        assert_eq!(read("65536").unwrap().page_size, 65536);
        for size in ["0", "4095", "12288", "-4096", "many", ""] {
            let error = read(size).unwrap_err();
            assert!(matches!(&error, Fault::NotATrace(why) if why.contains("no power of two")), "{size}: {error:?}");
        }
    }

    /// The rules come back as they were written; an older trace has those of its release; a later
    /// version's rules are passed over.
    #[test]
    fn the_rules_of_a_kernel_are_read() {
        let header = Header {
            profile: "6.18 +guard-mark".to_owned(),
            features: Some(Features::LINUX_6_18 | Features::GUARD_MARK),
            presumed: Features::REMAP_NEEDS_FOUR,
            ..Header::new("true".as_ref(), &[])
        };
        let read = |header: &Header, more: &str| {
            let mut all = header.to_metadata();
            all.entry("samara.features".to_owned()).and_modify(|list| list.push_str(more));
            Header::read(|key| all.get(key).map(String::as_str)).unwrap()
        };
        assert_eq!(read(&header, ""), header);
        assert_eq!(read(&header, ",no-such-rule,"), header);
        let limits = BTreeMap::from([("as".to_owned(), 1 << 30), ("data".to_owned(), u64::MAX)]);
        let set = Header { max_map_count: Some(7), overcommit: Some(2), limits, ..header.clone() };
        assert_eq!(read(&set, ""), set);
        let unset = Header { max_map_count: None, overcommit: None, limits: BTreeMap::new(), ..header.clone() };
        assert_eq!(read(&unset, ""), unset);
        let old = Header { kernel: "6.1.200-x".into(), features: None, ..header };
        let read = read(&old, "");
        assert_eq!((read.features, &*read.profile, read.presumed), (None, "", Features::empty()));
        assert_eq!(read.rules(), Features::of_release("6.1.200"));
        let none = Header { features: Some(Features::empty()), ..old };
        let all = none.to_metadata();
        assert_eq!(Header::read(|key| all.get(key).map(String::as_str)).unwrap().rules(), Features::empty());
    }
}
