//! Formats arguments and results of calls with the names of their values, as strace does. Numbers
//! are those of x86-64 Linux.

use std::sync::LazyLock;

use nix::errno::Errno;
use samara_mm::{Advice, MapFlags};

use crate::output::clean;
use samara_trace::calls::{Kind, option_name, signature};

/// `mmap(NULL, 8192, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0)`.
///
/// With `file`, the name of the file follows the descriptor of a map: `3</etc/passwd>`.
pub(crate) fn call(name: &str, args: &[u64; 6], file: Option<&str>) -> String {
    calls(name, args, 0, file)
}

/// The same for several calls: arguments with a bit in `varies` differ between the calls, and are
/// shown as `...`.
pub(crate) fn calls(name: &str, args: &[u64; 6], varies: u8, file: Option<&str>) -> String {
    let shown = |(i, kind): (usize, &Kind)| {
        let text = argument(name, *kind, args, i)?;
        Some(if varies >> i & 1 == 0 { text } else { "...".to_owned() })
    };
    let mut shown: Vec<_> = signature(name).0.iter().enumerate().filter_map(shown).collect();
    if let Some(file) = file.filter(|_| name == "mmap")
        && let Some(descriptor) = shown.get_mut(4)
    {
        *descriptor += &format!("<{}>", clean(file));
    }
    format!("{name}({})", shown.join(", "))
}

/// `0x7f0000000000`, `0` or `-1 ENOMEM (out of memory)`.
pub(crate) fn result(name: &str, result: i64) -> String {
    match errno(result) {
        Some((name, text)) => format!("-1 {name} ({text})"),
        None if signature(name).1 => format!("{result:#x}"),
        None => result.to_string(),
    }
}

/// The name and the text of the error that a result stands for, if it is one.
pub(crate) fn errno(result: i64) -> Option<(String, String)> {
    if !(-4095..0).contains(&result) {
        return None;
    }
    let number = -result as i32;
    // A tracer sees these results of calls that a signal interrupted; programs never do.
    let restart = ["ERESTARTSYS", "ERESTARTNOINTR", "ERESTARTNOHAND", "", "ERESTART_RESTARTBLOCK"];
    Some(match (Errno::from_raw(number), number) {
        (Errno::UnknownErrno, 512..=514 | 516) => {
            (restart[number as usize - 512].to_owned(), "interrupted by a signal".to_owned())
        }
        (Errno::UnknownErrno, _) => (format!("E{number}"), "unknown error".to_owned()),
        (known, _) => (format!("{known:?}"), known.desc().to_owned()),
    })
}

fn argument(name: &str, kind: Kind, args: &[u64; 6], i: usize) -> Option<String> {
    let value = args[i];
    Some(match kind {
        Kind::Addr => address(value),
        Kind::Len => value.to_string(),
        Kind::Int => (value as i32).to_string(),
        Kind::Hex => hex(value),
        Kind::Prot => flags(value, "PROT_NONE", PROT),
        Kind::MapFlags => map_flags(value),
        Kind::RemapFlags => flags(value, "0", REMAP),
        // MREMAP_FIXED or MREMAP_DONTUNMAP.
        Kind::RemapTo if args[3] & 6 != 0 => address(value),
        Kind::RemapTo => return None,
        Kind::Advice => advice(value as u32),
        Kind::LockFlags => flags(value, "0", &[(1, "MLOCK_ONFAULT")]),
        Kind::LockAllFlags => flags(value, "0", &[(1, "MCL_CURRENT"), (2, "MCL_FUTURE"), (4, "MCL_ONFAULT")]),
        Kind::ShmFlags => flags(
            value,
            "0",
            &[(0o10000, "SHM_RDONLY"), (0o20000, "SHM_RND"), (0o40000, "SHM_REMAP"), (0o100000, "SHM_EXEC")],
        ),
        Kind::CloneFlags => {
            let signal = value & 0xff;
            let flags = flags(value & !0xff, "0", CLONE);
            if signal == 0 {
                flags
            } else {
                format!("{flags}|{}", word(signal, &[(17, "SIGCHLD"), (10, "SIGUSR1"), (12, "SIGUSR2")]))
            }
        }
        Kind::Policy => word(value & 0xff, POLICY),
        Kind::Command => option(name, value),
        Kind::Request => option(name, u64::from(value as u32)),
        Kind::AtFd if value as i32 == -100 => "AT_FDCWD".to_owned(),
        Kind::AtFd => (value as i32).to_string(),
    })
}

fn address(value: u64) -> String {
    if value == 0 { "NULL".to_owned() } else { format!("{value:#x}") }
}

fn hex(value: u64) -> String {
    if value < 10 { value.to_string() } else { format!("{value:#x}") }
}

fn advice(value: u32) -> String {
    match Advice::from_raw(value) {
        Some(advice) => advice.name().to_owned(),
        // The model does not know them.
        None => word(value.into(), &[(100, "MADV_HWPOISON"), (101, "MADV_SOFT_OFFLINE")]),
    }
}

fn word(value: u64, names: &[(u64, &str)]) -> String {
    names.iter().find(|name| name.0 == value).map_or_else(|| hex(value), |name| name.1.to_owned())
}

fn option(call: &str, value: u64) -> String {
    option_name(call, value).map_or_else(|| hex(value), str::to_owned)
}

fn flags<N: AsRef<str>>(value: u64, none: &str, names: &[(u64, N)]) -> String {
    let mut left = value;
    let mut out = Vec::new();
    for (bit, name) in names {
        if value & bit != 0 {
            out.push(name.as_ref().to_owned());
            left &= !bit;
        }
    }
    if left != 0 {
        out.push(format!("{left:#x}"));
    }
    if out.is_empty() { none.to_owned() } else { out.join("|") }
}

/// The low four bits are the type; the six bits from bit 26 are the size of a huge page.
fn map_flags(value: u64) -> String {
    let kind = match value & MAP_TYPE {
        3 => "MAP_SHARED_VALIDATE".to_owned(),
        other => match MapFlags::all().iter_names().find(|(_, flag)| u64::from(flag.bits()) == other) {
            Some((name, _)) => format!("MAP_{name}"),
            None => other.to_string(),
        },
    };
    let size = value >> 26 & 63;
    let huge = value & 0x40000 != 0 && size != 0;
    let rest = value & !MAP_TYPE & if huge { !(63 << 26) } else { !0 };
    let mut out = if rest == 0 { kind } else { format!("{kind}|{}", flags(rest, "", &MAP)) };
    if huge {
        out.push_str(&format!("|{size}<<MAP_HUGE_SHIFT"));
    }
    out
}

const PROT: &[(u64, &str)] = &[
    (1, "PROT_READ"),
    (2, "PROT_WRITE"),
    (4, "PROT_EXEC"),
    (8, "PROT_SEM"),
    (0x0100_0000, "PROT_GROWSDOWN"),
    (0x0200_0000, "PROT_GROWSUP"),
];

/// The flags of `mmap` behind the type, in the order of their bits.
static MAP: LazyLock<Vec<(u64, String)>> = LazyLock::new(|| {
    // The model ignores these, as Linux does.
    let ignored = [(0x800, "DENYWRITE"), (0x1000, "EXECUTABLE"), (0x400_0000, "UNINITIALIZED")];
    let known = MapFlags::all().iter_names().map(|(name, flag)| (u64::from(flag.bits()), name));
    let named = |(bit, name): (u64, &str)| (bit, format!("MAP_{}", if name == "BIT32" { "32BIT" } else { name }));
    let mut all: Vec<_> = known.filter(|flag| flag.0 > MAP_TYPE).chain(ignored).map(named).collect();
    all.sort();
    all
});

/// The bits of the type.
const MAP_TYPE: u64 = 15;

const REMAP: &[(u64, &str)] = &[(1, "MREMAP_MAYMOVE"), (2, "MREMAP_FIXED"), (4, "MREMAP_DONTUNMAP")];

const CLONE: &[(u64, &str)] = &[
    (0x100, "CLONE_VM"),
    (0x200, "CLONE_FS"),
    (0x400, "CLONE_FILES"),
    (0x800, "CLONE_SIGHAND"),
    (0x1000, "CLONE_PIDFD"),
    (0x2000, "CLONE_PTRACE"),
    (0x4000, "CLONE_VFORK"),
    (0x8000, "CLONE_PARENT"),
    (0x1_0000, "CLONE_THREAD"),
    (0x2_0000, "CLONE_NEWNS"),
    (0x4_0000, "CLONE_SYSVSEM"),
    (0x8_0000, "CLONE_SETTLS"),
    (0x10_0000, "CLONE_PARENT_SETTID"),
    (0x20_0000, "CLONE_CHILD_CLEARTID"),
    (0x40_0000, "CLONE_DETACHED"),
    (0x80_0000, "CLONE_UNTRACED"),
    (0x100_0000, "CLONE_CHILD_SETTID"),
    (0x200_0000, "CLONE_NEWCGROUP"),
    (0x400_0000, "CLONE_NEWUTS"),
    (0x800_0000, "CLONE_NEWIPC"),
    (0x1000_0000, "CLONE_NEWUSER"),
    (0x2000_0000, "CLONE_NEWPID"),
    (0x4000_0000, "CLONE_NEWNET"),
    (0x8000_0000, "CLONE_IO"),
];

const POLICY: &[(u64, &str)] = &[
    (0, "MPOL_DEFAULT"),
    (1, "MPOL_PREFERRED"),
    (2, "MPOL_BIND"),
    (3, "MPOL_INTERLEAVE"),
    (4, "MPOL_LOCAL"),
    (5, "MPOL_PREFERRED_MANY"),
    (6, "MPOL_WEIGHTED_INTERLEAVE"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_read_as_in_a_program() {
        for (name, args, shown) in [
            (
                "mmap",
                [0, 8192, 3, 0x22, u64::MAX, 0],
                "mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0)",
            ),
            ("mmap", [0x1000, 1, 0, 0x1, 3, 0x2000], "mmap(0x1000, 1, PROT_NONE, MAP_SHARED, 3, 0x2000)"),
            (
                "mmap",
                [0, 1, 1, 0x5404_0022, 3, 0],
                "mmap(NULL, 1, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS|MAP_HUGETLB|21<<MAP_HUGE_SHIFT, 3, 0)",
            ),
            ("mremap", [0x1000, 1, 2, 1, 99, 0], "mremap(0x1000, 1, 2, MREMAP_MAYMOVE)"),
            ("mremap", [0x1000, 1, 2, 3, 0x9000, 0], "mremap(0x1000, 1, 2, MREMAP_MAYMOVE|MREMAP_FIXED, 0x9000)"),
            ("madvise", [0x1000, 4096, 14, 0, 0, 0], "madvise(0x1000, 4096, MADV_HUGEPAGE)"),
            ("madvise", [0x1000, 4096, 77, 0, 0, 0], "madvise(0x1000, 4096, 0x4d)"),
            ("clone", [0x4111, 0, 0, 0, 0, 0], "clone(CLONE_VM|CLONE_VFORK|SIGCHLD, NULL, NULL, NULL, NULL)"),
            ("munlockall", [1, 2, 3, 4, 5, 6], "munlockall()"),
            ("mprotect", [0x1000, 4096, 0x8000_0001, 0, 0, 0], "mprotect(0x1000, 4096, PROT_READ|0x80000000)"),
            ("call 999", [1, 2, 3, 4, 5, 60], "call 999(1, 2, 3, 4, 5, 0x3c)"),
        ] {
            assert_eq!(call(name, &args, None), shown);
        }
    }

    #[test]
    fn results_read_as_in_a_program() {
        assert_eq!(result("mmap", 0x7f00_0000_0000), "0x7f0000000000");
        assert_eq!(result("munmap", 0), "0");
        assert_eq!(result("mmap", -12), "-1 ENOMEM (Out of memory)");
        assert_eq!(result("mlock", -512), "-1 ERESTARTSYS (interrupted by a signal)");
        assert_eq!(result("mlock", -4000), "-1 E4000 (unknown error)");
        assert_eq!(result("brk", -4096), "0xfffffffffffff000");
    }
}
