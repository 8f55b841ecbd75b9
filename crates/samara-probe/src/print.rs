//! Ops, results and areas as text: for people, and as a test.

use crate::child::QueriedArea;
use crate::op::{BASE, END, Op, PAGE, ROOM, SYS_MSEAL, fd, reference};
use samara_mm::{Advice, MapFlags, Prot};
use std::fmt::{self, Display};

/// `0`, `0x1000002000` or `ENOMEM`.
pub fn returned(value: i64) -> String {
    if !(-4095..0).contains(&value) {
        return if value < 10 { value.to_string() } else { address(value as u64) };
    }
    let error = std::io::Error::from_raw_os_error(-value as i32);
    format!("errno {} ({})", -value, error.to_string().split(" (os error").next().unwrap_or_default())
}

/// The areas, without those at both ends that `other` has too.
pub fn areas(these: &[QueriedArea], other: &[QueriedArea]) -> String {
    let same = |i: usize, j: usize| these.get(i).is_some() && these.get(i) == other.get(j);
    let front = (0..these.len()).take_while(|i| same(*i, *i)).count();
    let back = (1..=these.len().min(other.len()) - front.min(other.len()))
        .take_while(|i| these.len() - i >= front && other.len() - i >= front && same(these.len() - i, other.len() - i))
        .count();
    // The neighbours show the position.
    let shown = &these[front.saturating_sub(1)..(these.len() - back + 1).min(these.len())];
    if shown.is_empty() {
        return "no areas".to_owned();
    }
    shown.iter().map(area).collect::<Vec<_>>().join(", ")
}

fn area(a: &QueriedArea) -> String {
    let flag = |bit: u64, c: char, none: char| if a.perms & bit != 0 { c } else { none };
    let perms = String::from_iter([flag(1, 'r', '-'), flag(2, 'w', '-'), flag(4, 'x', '-'), flag(8, 's', 'p')]);
    let offset = if a.offset == 0 { String::new() } else { format!(" +{:#x}", a.offset) };
    format!("{}-{} {perms}{offset}", place(a.start), place(a.end))
}

/// An address as a page of the window, or by its name.
pub fn place(at: u64) -> String {
    if reference(at).is_some() {
        return code(at);
    }
    if (BASE..=END).contains(&at) && at.is_multiple_of(PAGE) { format!("{}", (at - BASE) / PAGE) } else { address(at) }
}

fn address(at: u64) -> String {
    format!("{at:#x}")
}

/// A number as Rust.
fn code(arg: u64) -> String {
    if let Some((of, and)) = reference(arg) {
        let sign = if and < 0 { "-" } else { "" };
        return format!("Op::result({of}, {sign}{:#x})", and.unsigned_abs());
    }
    match arg {
        fd::NONE => "fd::NONE".to_owned(),
        ROOM => "ROOM".to_owned(),
        BASE..=END if arg.is_multiple_of(PAGE) => format!("at({})", (arg - BASE) / PAGE),
        0..10 => arg.to_string(),
        _ => format!("{arg:#x}"),
    }
}

/// The op as Rust.
#[derive(Debug)]
pub struct Code<'a>(pub &'a Op);

impl Display for Code<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self.0 {
            Op::Call(nr, args) => {
                let used = args.iter().rposition(|a| *a != 0).map_or(0, |last| last + 1);
                let args: Vec<String> = args[..used].iter().map(|a| code(*a)).collect();
                write!(f, "Op::call({}, &[{}])", number(nr), args.join(", "))
            }
            Op::Write(at) => write!(f, "Op::Write({})", code(at)),
            Op::Read(at) => write!(f, "Op::Read({})", code(at)),
            Op::Fork => f.write_str("Op::Fork"),
            Op::Heap { at } => write!(f, "Op::Heap {{ at: {} }}", code(at)),
            Op::Advise { advice, ranges } => {
                let ranges = ranges.map(|(at, len)| format!("({}, {})", code(at), code(len))).join(", ");
                write!(f, "Op::Advise {{ advice: {}, ranges: [{ranges}] }}", code(advice))
            }
            Op::Uffd { on, at, len } => write!(f, "Op::Uffd {{ on: {on}, at: {}, len: {} }}", code(at), code(len)),
            Op::Fill { left } => write!(f, "Op::Fill {{ left: {left} }}"),
            Op::Limit(limits) => write!(f, "Op::Limit({limits:?})"),
        }
    }
}

pub fn name(nr: i64) -> Option<&'static str> {
    samara_mm::linux::CALLS.iter().find(|call| call.0 as i64 == nr).map(|call| call.1)
}

fn number(nr: i64) -> String {
    match name(nr) {
        Some(name) if nr != SYS_MSEAL => format!("libc::SYS_{name}"),
        _ => nr.to_string(),
    }
}

/// The op in words: pages of the window instead of addresses, names instead of flags.
impl Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = |at: u64, len: u64| match at.checked_add(len) {
            Some(end) if len.is_multiple_of(PAGE) && end <= END => format!("{}-{}", place(at), place(end)),
            _ => format!("{}, {len:#x} bytes", place(at)),
        };
        let advice = |raw: u64| match u32::try_from(raw).ok().and_then(Advice::from_raw) {
            Some(advice) => format!("{advice:?}"),
            None => format!("{raw:#x}"),
        };
        match *self {
            Op::Call(libc::SYS_brk, [at, ..]) => write!(f, "brk {}", place(at)),
            Op::Call(libc::SYS_shmdt, [at, ..]) => write!(f, "shmdt {}", place(at)),
            Op::Call(libc::SYS_shmat, [id, at, flags, ..]) => write!(f, "shmat {id} at {}: {flags:#x}", place(at)),
            Op::Call(libc::SYS_personality, [persona, ..]) => write!(f, "personality {persona:#x}"),
            Op::Call(libc::SYS_prctl, [option, a, b, ..]) => write!(f, "prctl {option}: {a}, {b}"),
            Op::Call(nr, a) => {
                let name = name(nr).map_or_else(|| format!("call {nr}"), str::to_owned);
                write!(f, "{name} {}", range(a[0], a[1]))?;
                match nr {
                    libc::SYS_mmap => {
                        let (prot, flags) = (Prot::from_bits_retain(a[2] as u32), a[3] as u32);
                        // The lowest bits are a number.
                        let kind = ["", "shared ", "private ", "shared_validate ", "", "", "", "", "droppable "];
                        let kind = kind.get((flags & 15) as usize).copied().unwrap_or_default();
                        write!(f, " {kind}{}: {}", map_flags(flags), protection(prot))?;
                        let file = [
                            "file",
                            "dup",
                            "again",
                            "read_only",
                            "other",
                            "sealed",
                            "write_only",
                            "pipe",
                            "zero",
                            "zero_read_only",
                            "huge",
                            "huge_read_only",
                        ];
                        if let Some(file) = a[4].checked_sub(fd::FILE).and_then(|i| file.get(i as usize)) {
                            write!(f, ", {file} from {:#x}", a[5])?;
                        }
                    }
                    libc::SYS_mprotect | libc::SYS_pkey_mprotect => {
                        write!(f, ": {}", protection(Prot::from_bits_retain(a[2] as u32)))?
                    }
                    libc::SYS_mremap => {
                        write!(f, ", new length {:#x}", a[2])?;
                        let words = [(1, "maymove"), (2, "fixed"), (4, "dontunmap")];
                        let words: Vec<_> = words.iter().filter(|w| a[3] & w.0 != 0).map(|w| w.1).collect();
                        write!(f, " {} to {}", words.join("|"), place(a[4]))?;
                    }
                    libc::SYS_madvise => write!(f, ": {}", advice(a[2]))?,
                    libc::SYS_remap_file_pages => write!(f, " from {:#x}", a[3].wrapping_mul(PAGE))?,
                    _ if a[2] != 0 => write!(f, ": {:#x}", a[2])?,
                    _ => {}
                }
                Ok(())
            }
            Op::Write(at) => write!(f, "write {}", place(at)),
            Op::Read(at) => write!(f, "read {}", place(at)),
            Op::Fork => f.write_str("fork"),
            Op::Heap { at } => write!(f, "the heap begins at {}", place(at)),
            Op::Advise { advice: raw, ranges } => {
                let ranges = ranges.map(|(at, len)| range(at, len)).join(" and ");
                write!(f, "process_madvise {ranges}: {}", advice(raw))
            }
            Op::Uffd { on, at, len } => {
                write!(f, "userfaultfd {} {}", if on { "register" } else { "unregister" }, range(at, len))
            }
            Op::Fill { left } => write!(f, "areas elsewhere, until {left} are left to the limit"),
            Op::Limit(limits) => write!(f, "limits {limits:?}"),
        }
    }
}

/// All but the type.
fn map_flags(flags: u32) -> String {
    let flags = MapFlags::from_bits_retain(flags & !15);
    let mut names: Vec<String> = flags.iter_names().map(|(name, _)| name.to_lowercase()).collect();
    let left = flags.iter_names().fold(flags.bits(), |left, (_, flag)| left & !flag.bits());
    names.extend((left != 0).then(|| format!("{left:#x}")));
    names.join("|")
}

fn protection(prot: Prot) -> String {
    let flag = |bit, c| if prot.contains(bit) { c } else { '-' };
    let text = String::from_iter([flag(Prot::READ, 'r'), flag(Prot::WRITE, 'w'), flag(Prot::EXEC, 'x')]);
    match prot.bits() & !7 {
        0 => text,
        more => format!("{text}|{more:#x}"),
    }
}
