//! Rows as text: a script of calls, and the areas that they leave.
//!
//! A script is calls with `;` between them. A call that is refused ends with `!ERRNO`; `= PLACE`
//! after a call says what it returns. Places are pages: `10` of the window, `h3` from where the
//! heap ends at first, `v2` from where the kernel's own pages begin. Ranges: `10-12`.
//!
//! Maps: `rw 10-12` at this place, private and anonymous; the protection is `none` or some of
//! `rwx`. After it, `+` and each of MAP_'s flags (`rw+noreserve 10-12`; `shared`, `validate` and
//! `droppable` are other types than private). Of a file: `r+shared 10-12 FILE OFFSET` (in pages).
//! `t` writes a byte to each page; `p-rw` protects; `u` unmaps; `mv 10-12 20` moves, `keep` so that
//! the source stays, `size 10-12 4` grows or shrinks in place, `resize 10-12 4 20` at a new place,
//! `dup 10 2 20` duplicates. `lock`, `onfault`, `unlock`, `seal`, `uffd`, `uffd-wp`, `uffd-minor`,
//! `unuffd` take a range (`uffd-other` is of a second one, `uffd-close` closes the first), and so
//! does advice by its name; `local`, `bind` and `default` are policies. `future` is
//! mlockall(MCL_FUTURE); `fork` continues in the child. `mdwe` and `merge-pages` are PR_SET_MDWE
//! and PR_SET_MEMORY_MERGE, `reads-execute` is personality(READ_IMPLIES_EXEC).
//!
//! `reads 10` and `writes 10` say what a child sees that does that, without a change here: nothing,
//! `!MAPERR`, `!ACCERR` or `!PKUERR`. `query @10 FLAGS` is PROCMAP_QUERY, which answers with a
//! start.
//!
//! Any call as it comes: its name and its arguments, each a sum of terms: `@10` is an address in
//! the window, `2p` two pages, `@h3` and `@v2` as above; numbers; a range is two arguments, its
//! start and its length; `top` is where user space ends, `least` the lowest address that is chosen,
//! `max` is 2^64 - 1; `last` is what the last call returned, `word` the address of a word that
//! holds 1, `segment` the number of a System V segment of 4 pages and 100 bytes, `huge-segment` of
//! one of 512 pages and 100 bytes in huge pages; files, flags and advice go by their names
//! (`private|anon`).
//!
//! The rest is about the process: `limit as +2` (`as`, `data`, `soft-data`, `locked`, `stack`; so
//! many pages more than now, or in all), `nocaps`, `privileged` (the row needs capabilities),
//! `keys` and `no-keys` (the first word: it needs a processor with protection keys, or without),
//! `guess` (it needs overcommit in its usual mode, and less memory than half a TiB), `huge` (it
//! needs huge pages of 2 MiB, the default, and of 1 GiB, and none of them free), `room 2` (so many
//! areas until there are too many).
//!
//! The areas: `10-12` each, then what the row is about: `:rw` protection (with `s` if shared), `@3`
//! offset in pages, `[..]` all its flags, `{..}` those that are not about reading, writing,
//! executing and sharing.

use crate::machine::{BASE, MOST, Outcome, PAGE, Seen};
use samara_mm::{Access, Advice, Flags, MapFlags, linux};
use std::sync::OnceLock;

/// What a number counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Zero,
    Heap,
    Special,
    Least,
    /// What the last call returned.
    Last,
    /// The address of a word that holds 1, and may be written to.
    Word,
    /// The number of a System V segment of 4 pages and 100 bytes.
    Segment,
    /// The number of one of 512 pages and 100 bytes, in huge pages.
    HugeSegment,
    File(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arg {
    pub(crate) origin: Origin,
    pub(crate) add: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    As,
    Data,
    Locked,
    Stack,
    /// The soft limit only.
    SoftData,
}

/// Modes of `Step::Uffd`, besides 1 (missing), 2 (write protection) and 4 (minor faults): a second
/// userfaultfd; close it.
pub(crate) const OTHER: u64 = 8;
pub(crate) const CLOSE: u64 = 16;

#[derive(Clone, Debug)]
pub(crate) enum Step {
    Call(u64, [Arg; 6]),
    Write(Arg, Arg),
    Fork,
    Limit(Limit, u64, bool),
    DropCaps,
    Room(u64),
    Privileged,
    Guess,
    Keys(bool),
    Huge,
    Uffd(Arg, Arg, u64),
    Fault(Arg, Access),
    /// PROCMAP_QUERY: address, flags, size of its structure, size and address of the room for a
    /// name.
    Query([Arg; 5]),
}

impl Step {
    pub(crate) fn args(&self) -> impl Iterator<Item = &Arg> {
        let (six, two): (&[Arg], _) = match self {
            Step::Call(_, args) => (args, [None; 2]),
            Step::Query(args) => (args, [None; 2]),
            Step::Write(start, end) | Step::Uffd(start, end, _) => (&[], [Some(start), Some(end)]),
            Step::Fault(at, _) => (&[], [Some(at), None]),
            _ => (&[], [None; 2]),
        };
        six.iter().chain(two.into_iter().flatten())
    }
}

/// What a call is to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Done,
    Refused(i64),
    Is(Arg),
    /// A multiple of 2 MiB.
    Huge,
    /// Below 2 GiB.
    Low,
    /// Outside the window.
    Away,
}

/// A row.
pub(crate) struct Row<'a> {
    pub(crate) text: &'a str,
    pub(crate) steps: Vec<Step>,
    answers: Vec<Answer>,
    pub(crate) areas: &'a str,
}

/// The files that rows use, by name. `dup`, `again`, `ro` and `wo` are `f`: the same open file, and
/// others. So is `huge-ro` to `huge-file`, which has huge pages of 2 MiB.
pub(crate) const FILES: [&str; 19] = [
    "f",
    "dup",
    "again",
    "ro",
    "wo",
    "g",
    "path",
    "dir",
    "pipe",
    "sealed",
    "future-sealed",
    "no-exec",
    "append-only",
    "zero",
    "zero-ro",
    "secret",
    "huge-file",
    "huge-ro",
    "nofile",
];

/// Flags whose names in rows are not those of [`MapFlags`], and those of other calls.
const FLAGS: [(&str, u64); 16] = [
    ("validate", 3),
    ("anon", 0x20),
    ("32bit", 0x40),
    ("denywrite", 0x800),
    ("executable", 0x1000),
    ("2mb", 21 << 26),
    ("1gb", 30 << 26),
    ("4mb", 22 << 26),
    ("unknown", 0x200_0000),
    ("noreplace", 0x10_0000),
    ("maymove", 1),
    ("dontunmap", 4),
    ("rdonly", 0x1000),
    ("rnd", 0x2000),
    ("remap", 0x4000),
    ("exec", 0x8000),
];

const ERRNOS: [(&str, i64); 18] = [
    ("EPERM", 1),
    ("ENOENT", 2),
    ("E2BIG", 7),
    ("EBADF", 9),
    ("EAGAIN", 11),
    ("ENOMEM", 12),
    ("EACCES", 13),
    ("EFAULT", 14),
    ("EBUSY", 16),
    ("EEXIST", 17),
    ("ENODEV", 19),
    ("EINVAL", 22),
    ("EOVERFLOW", 75),
    ("ENAMETOOLONG", 36),
    ("EOPNOTSUPP", 95),
    // What SIGSEGV tells.
    ("MAPERR", 1),
    ("ACCERR", 2),
    ("PKUERR", 4),
];

fn find<T: Copy>(list: &[(&str, T)], name: &str) -> Option<T> {
    list.iter().find(|(n, _)| *n == name).map(|(_, v)| *v)
}

/// The number of a call by its name.
fn number_of(call: &str) -> Option<u64> {
    const SET_MEMPOLICY: u64 = 238;
    let known = linux::CALLS.iter().find(|row| row.1 == call).map(|row| row.0);
    known.or_else(|| (call == "set_mempolicy").then_some(SET_MEMPOLICY))
}

fn flag(name: &str) -> Option<u64> {
    let known = || MapFlags::from_name(&name.to_uppercase()).map(|flag| flag.bits().into());
    find(&FLAGS, name).or_else(known)
}

/// Advice by its name: `dont-need`.
fn advice(name: &str) -> Option<Advice> {
    static NAMES: OnceLock<Vec<(String, Advice)>> = OnceLock::new();
    let names = NAMES.get_or_init(|| Advice::ALL.into_iter().map(|a| (kebab(&format!("{a:?}")), a)).collect());
    names.iter().find(|(n, _)| n == name).map(|(_, a)| *a)
}

fn kebab(name: &str) -> String {
    let dash = |(i, c): (usize, char)| (i > 0 && c.is_uppercase()).then_some('-').into_iter().chain(c.to_lowercase());
    name.char_indices().flat_map(dash).collect()
}

fn prot(name: &str) -> Option<u64> {
    let bit = |c| find(&[("r", 1), ("w", 2), ("x", 4)], c);
    if name == "none" {
        return Some(0);
    }
    let mut chars = name.split("").filter(|c| !c.is_empty()).peekable();
    chars.peek()?;
    chars.try_fold(0, |bits, c| Some(bits | bit(c)?))
}

const fn number(add: u64) -> Arg {
    Arg { origin: Origin::Zero, add }
}

/// A page: `10`, `h3`, `v2`.
fn page(text: &str) -> Option<Arg> {
    let (origin, base, digits) = match text.as_bytes().first()? {
        b'h' => (Origin::Heap, 0, &text[1..]),
        b'v' => (Origin::Special, 0, &text[1..]),
        _ => (Origin::Zero, BASE, text),
    };
    Some(Arg { origin, add: base + digits.parse::<u64>().ok()? * PAGE })
}

fn range(text: &str) -> Option<(Arg, Arg)> {
    let (a, b) = text.split_once('-')?;
    Some((page(a)?, page(b)?))
}

fn integer(text: &str) -> Option<u64> {
    text.strip_prefix("0x").map_or_else(|| text.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok())
}

fn term(text: &str) -> Option<Arg> {
    if let Some(place) = text.strip_prefix('@') {
        return page(place);
    }
    if let Some(i) = FILES.iter().position(|f| *f == text) {
        return Some(Arg { origin: Origin::File(i), add: 0 });
    }
    let origins = [
        ("least", Origin::Least),
        ("last", Origin::Last),
        ("word", Origin::Word),
        ("segment", Origin::Segment),
        ("huge-segment", Origin::HugeSegment),
    ];
    let origin = find(&origins, text);
    if let Some(origin) = origin {
        return Some(Arg { origin, add: 0 });
    }
    let words = [("top", 0x7fff_ffff_f000), ("max", u64::MAX), ("maymove|fixed", 3), ("maymove|fixed|dontunmap", 7)];
    let pages = || text.strip_suffix('p').and_then(integer).map(|n| n.wrapping_mul(PAGE));
    let named = |n: &str| flag(n).or_else(|| prot(n)).or_else(|| advice(n).map(|a| a as u64)).or_else(|| integer(n));
    let flags = || text.split('|').try_fold(0, |all, n| Some(all | named(n)?));
    find(&words, text).or_else(pages).or_else(flags).map(number)
}

/// A sum.
fn arg(text: &str) -> Arg {
    let mut sum = number(0);
    let mut rest = text;
    while !rest.is_empty() {
        let minus = rest.starts_with('-');
        rest = rest.trim_start_matches(['+', '-']);
        // Names of files and advice have a `-`, too.
        let (one, end) = match term(rest) {
            Some(one) => (one, rest.len()),
            None => {
                let end = rest.find(['+', '-']).unwrap_or(rest.len());
                (term(&rest[..end]).unwrap_or_else(|| panic!("no such argument: {text}")), end)
            }
        };
        if one.origin != Origin::Zero {
            sum.origin = one.origin;
        }
        sum.add = if minus { sum.add.wrapping_sub(one.add) } else { sum.add.wrapping_add(one.add) };
        rest = &rest[end..];
    }
    sum
}

/// A range is two arguments: its start and its length.
fn args_of(word: &str) -> Vec<Arg> {
    match range(word) {
        Some((at, end)) => vec![at, number(end.add - at.add)],
        None => vec![arg(word)],
    }
}

fn call(name: &str, args: &[Arg]) -> Step {
    let nr = number_of(name).unwrap_or_else(|| panic!("no such call: {name}"));
    let mut six = [number(0); 6];
    six[..args.len()].copy_from_slice(args);
    Step::Call(nr, six)
}

fn step(words: &[&str]) -> Step {
    let args: Vec<Arg> = match number_of(words[0]) {
        Some(_) => return call(words[0], &words[1..].iter().flat_map(|w| args_of(w)).collect::<Vec<_>>()),
        None => words[1..].iter().skip(1).map(|w| page(w).unwrap_or(number(0))).collect(),
    };
    let pages = |i: usize| number(words[i].trim_start_matches('+').parse::<u64>().expect("a number") * PAGE);
    let bounds = words.get(1).and_then(|w| range(w));
    let (at, end) = bounds.unwrap_or((number(0), number(0)));
    let len = number(end.add - at.add);
    let on = |name, more: &[u64]| {
        let more: Vec<Arg> = [at, len].into_iter().chain(more.iter().map(|m| number(*m))).collect();
        call(name, &more)
    };
    let remap = |len: Arg, new: Arg, flags, to: Arg| call("mremap", &[at, len, new, number(flags), to]);
    match words[0] {
        "t" => Step::Write(at, end),
        "u" => on("munmap", &[]),
        "mv" => remap(len, len, 3, args[0]),
        "keep" => remap(len, len, 7, args[0]),
        "size" => remap(len, pages(2), 0, number(0)),
        "resize" => remap(len, pages(2), 3, args[1]),
        "dup" => call("mremap", &[page(words[1]).expect("a page"), number(0), pages(2), number(3), args[1]]),
        "lock" => on("mlock", &[]),
        "onfault" => on("mlock2", &[1]),
        "unlock" => on("munlock", &[]),
        "seal" => on("mseal", &[]),
        "default" => on("mbind", &[0]),
        "local" => on("mbind", &[4]),
        "bind" => call("mbind", &[at, len, number(2), Arg { origin: Origin::Word, add: 0 }, number(64), number(0)]),
        "future" => call("mlockall", &[number(2)]),
        "fork" => Step::Fork,
        "reads" => Step::Fault(page(words[1]).unwrap_or_else(|| arg(words[1])), Access::Read),
        "writes" => Step::Fault(page(words[1]).unwrap_or_else(|| arg(words[1])), Access::Write),
        "query" => {
            let mut five = [number(0), number(0), number(104), number(0), number(0)];
            five.iter_mut().zip(&words[1..]).for_each(|(to, word)| *to = arg(word));
            Step::Query(five)
        }
        "mdwe" => call("prctl", &[number(65), number(1)]),
        "reads-execute" => call("personality", &[number(0x40_0000)]),
        "merge-pages" => call("prctl", &[number(67), number(1)]),
        "uffd" => Step::Uffd(at, end, 1),
        "uffd-wp" => Step::Uffd(at, end, 2),
        "uffd-both" => Step::Uffd(at, end, 3),
        "uffd-minor" => Step::Uffd(at, end, 4),
        "unuffd" => Step::Uffd(at, end, 0),
        "uffd-other" => Step::Uffd(at, end, 1 | OTHER),
        "uffd-close" => Step::Uffd(at, end, CLOSE),
        "nocaps" => Step::DropCaps,
        "privileged" => Step::Privileged,
        "guess" => Step::Guess,
        "keys" => Step::Keys(true),
        "no-keys" => Step::Keys(false),
        "huge" => Step::Huge,
        "room" => Step::Room(words[1].parse().expect("a number")),
        "limit" => {
            let kinds = [
                ("as", Limit::As),
                ("data", Limit::Data),
                ("locked", Limit::Locked),
                ("stack", Limit::Stack),
                ("soft-data", Limit::SoftData),
            ];
            Step::Limit(find(&kinds, words[1]).expect("a limit"), pages(2).add, words[2].starts_with('+'))
        }
        verb => {
            if let Some(prot) = verb.strip_prefix("p-").and_then(prot) {
                return on("mprotect", &[prot]);
            }
            if let Some(advice) = advice(verb).filter(|_| bounds.is_some()) {
                return on("madvise", &[advice as u64]);
            }
            map(words, at, len).unwrap_or_else(|| panic!("no such call: {}", words.join(" ")))
        }
    }
}

fn map(words: &[&str], at: Arg, len: Arg) -> Option<Step> {
    let mut names = words[0].split('+');
    let prot = prot(names.next()?)?;
    let flags = names.try_fold(0, |bits, n| Some(bits | flag(n)?))?;
    let kind = if flags & 0xf == 0 { 2 } else { 0 };
    let file = words.get(2).map(|f| term(f).unwrap_or_else(|| panic!("no such file: {f}")));
    let offset = words.get(3).map_or(number(0), |o| arg(&format!("{o}p")));
    let fixed = 0x10 | if file.is_none() { 0x20 } else { 0 };
    let fd = file.unwrap_or(number(u64::MAX));
    Some(call("mmap", &[at, len, number(prot), number(flags | kind | fixed), fd, offset]))
}

impl<'a> Row<'a> {
    pub(crate) fn parse(text: &'a str, areas: &'a str) -> Row<'a> {
        let (mut steps, mut answers) = (Vec::new(), Vec::new());
        for one in text.split(';').map(str::trim).filter(|c| !c.is_empty()) {
            let (one, answer) = if let Some((one, errno)) = one.split_once('!') {
                let errno = find(&ERRNOS, errno.trim()).unwrap_or_else(|| panic!("no such errno: {text}"));
                (one, Answer::Refused(errno))
            } else if let Some((one, value)) = one.split_once('=') {
                let named = [("huge", Answer::Huge), ("low", Answer::Low), ("away", Answer::Away)];
                (one, find(&named, value.trim()).unwrap_or_else(|| Answer::Is(arg(value.trim()))))
            } else {
                (one, Answer::Done)
            };
            steps.push(step(&one.split_whitespace().collect::<Vec<_>>()));
            answers.push(answer);
        }
        assert!(steps.len() <= MOST, "too many steps: {text}");
        Row { text, steps, answers, areas }
    }

    /// The answer that is not as the row says, if one is not.
    pub(crate) fn answers_differ(&self, out: &Outcome) -> Option<String> {
        for (i, (&got, expected)) in out.answers[..out.done].iter().zip(&self.answers).enumerate() {
            let value = |arg: &Arg| match arg.origin {
                Origin::Heap => out.heap.wrapping_add(arg.add),
                Origin::Special => out.special.wrapping_add(arg.add),
                Origin::Least => out.least.wrapping_add(arg.add),
                _ => arg.add,
            };
            let good = match expected {
                Answer::Done => got >= 0,
                Answer::Refused(errno) => got == -errno,
                Answer::Is(arg) => got as u64 == value(arg),
                Answer::Huge => got > 0 && got % (2 << 20) == 0,
                Answer::Low => got > 0 && got < 2 << 30,
                Answer::Away => got > 0 && !(BASE..BASE + crate::machine::PAGES * PAGE).contains(&(got as u64)),
            };
            if !good {
                let name = ERRNOS.iter().find(|e| e.1 == -got).map_or("", |e| e.0);
                let expected = if let Answer::Is(arg) = expected { value(arg) } else { 0 };
                return Some(format!("call {i} answers {got:#x} {name}, not {expected:#x}"));
            }
        }
        None
    }

    /// What is not as the row says; `None` if all is.
    pub(crate) fn differs(&self, out: &Outcome) -> Option<String> {
        if let Some(answer) = self.answers_differ(out) {
            return Some(answer);
        }
        let areas = &out.areas[..out.count.min(MOST)];
        let expected = items(self.areas);
        let alike = expected.len() == areas.len() && expected.iter().zip(areas).all(|(e, a)| *e == show(a, e, out));
        (!alike).then(|| {
            let like = |i: usize| expected.get(i).copied().unwrap_or(":");
            areas.iter().enumerate().map(|(i, a)| show(a, like(i), out)).collect::<Vec<_>>().join(" ")
        })
    }
}

/// The areas of the expected text: a word each, with spaces in brackets only.
fn items(text: &str) -> Vec<&str> {
    let (mut items, mut from, mut depth) = (Vec::new(), 0, 0);
    for (i, c) in text.char_indices() {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            ' ' if depth == 0 => {
                items.push(&text[from..i]);
                from = i + 1;
            }
            _ => {}
        }
    }
    items.push(&text[from..]);
    items.retain(|i| !i.is_empty());
    items
}

/// The area, with those details that `like` has.
fn show(a: &Seen, like: &str, out: &Outcome) -> String {
    let name = |at: u64| {
        let from = |base: u64| (base != 0 && at >= base && at - base <= 64 * PAGE).then(|| (at - base) / PAGE);
        match (from(out.heap), from(out.special)) {
            (Some(n), _) => format!("h{n}"),
            (_, Some(n)) => format!("v{n}"),
            _ => format!("{}", at.wrapping_sub(BASE) as i64 / PAGE as i64),
        }
    };
    let mut text = format!("{}-{}", name(a.start), name(a.end));
    let has = |f| a.flags.contains(f);
    if like.contains(':') {
        let letters = [(Flags::READ, 'r'), (Flags::WRITE, 'w'), (Flags::EXEC, 'x')];
        let mut prot: String = letters.into_iter().filter(|l| has(l.0)).map(|l| l.1).collect();
        if prot.is_empty() {
            prot.push_str("none");
        }
        text += &format!(":{prot}{}", if has(Flags::MAYSHARE) { "s" } else { "" });
    }
    if like.contains('@') {
        text += &format!("@{}", a.offset / PAGE);
    }
    if like.contains('[') {
        text += &format!("[{}]", a.flags.letters());
    }
    if like.contains('{') {
        let plain = Flags::ACCESS | Flags::SHARED | Flags::MAYREAD | Flags::MAYWRITE | Flags::MAYEXEC | Flags::MAYSHARE;
        text += &format!("{{{}}}", (a.flags - plain).letters());
    }
    text
}
