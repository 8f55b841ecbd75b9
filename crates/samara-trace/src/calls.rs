//! The table of system calls that matter to a recording: one row a call, or a row an option of
//! `prctl` and `ioctl`.
//!
//! A row has all that is known of a call except its rules: numbers, name, arguments, what it does
//! to areas, whether the engine in charge decides it, whether it may block, whether it leaves
//! something behind when it fails. The filter, the decoder, the names, the printed arguments and
//! the calls that can be made to fail are read from here. The rules are in `samara_mm::linux`;
//! numbers and names of the calls in its table are taken from there.
//!
//! - **CALLS-1** each call has exactly one row, at its own index in the table (checked at compile
//!   time).
//! - **CALLS-2** a call that the engine decides has a row in the table of `samara_mm::linux` too.
//!
//! Neighbours: `arch` makes the lists of numbers of the three call tables; `space` applies calls.

use std::fmt;

use samara_mm::linux;

/// What an argument is, for printing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An address, or a pointer.
    Addr,
    /// A length or another count.
    Len,
    /// A number, signed 32 bits.
    Int,
    /// A number in hexadecimal.
    Hex,
    /// PROT_*.
    Prot,
    /// MAP_*.
    MapFlags,
    /// MREMAP_*.
    RemapFlags,
    /// The new address of `mremap`, which counts only with some flags.
    RemapTo,
    /// MADV_*.
    Advice,
    /// MLOCK_*.
    LockFlags,
    /// MCL_*.
    LockAllFlags,
    /// SHM_*.
    ShmFlags,
    /// CLONE_*, and a signal.
    CloneFlags,
    /// MPOL_*.
    Policy,
    /// The option that says what the call does: see [`option_name`].
    Command,
    /// As `Command`, of 32 bits.
    Request,
    /// A directory's descriptor, or AT_FDCWD.
    AtFd,
}

use Kind::*;

/// A system call that can change an address space, makes or replaces one, or must be seen by the
/// recorder for another reason. In the order of [`TABLE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Mmap,
    Munmap,
    Mprotect,
    PkeyMprotect,
    Mremap,
    Brk,
    Madvise,
    ProcessMadvise,
    Mlock,
    Mlock2,
    Munlock,
    Mlockall,
    Munlockall,
    Mseal,
    RemapFilePages,
    Shmat,
    Shmdt,
    Mbind,
    HomeNode,
    UffdRegister,
    UffdUnregister,
    PrSetVma,
    PrSetMm,
    PrSetMdwe,
    PrSetMemoryMerge,
    ArchPrctl,
    /// It is refused, as we trace the process.
    Ptrace,
    /// The program's own filters see what its calls are made with.
    Seccomp,
    /// As `Seccomp`.
    PrSetSeccomp,
    Personality,
    /// The recorder must let go of the task's processors first (see `tracer::affinity`).
    SchedSetaffinity,
    /// As `SchedSetaffinity`.
    SchedGetaffinity,
    IoSetup,
    IoDestroy,
    MapShadowStack,
    Clone,
    Clone3,
    Fork,
    Vfork,
    Execve,
    Execveat,
}

/// The name in texts of events.
impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Call::PrSetVma | Call::PrSetMm | Call::PrSetMdwe | Call::PrSetMemoryMerge => f.write_str("Prctl"),
            Call::Seccomp | Call::PrSetSeccomp => f.write_str("Filter"),
            Call::SchedSetaffinity | Call::SchedGetaffinity => f.write_str("Affinity"),
            other => write!(f, "{other:?}"),
        }
    }
}

/// A value of the argument that chooses among calls with one number, and its name.
pub(crate) type Value = (u32, &'static str);

/// A condition on one 32-bit word of a call's arguments. The filter tests it without a stop.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    /// Every such call.
    Always,
    /// Only if the low word of argument `.0` is one of `.1`.
    Is(u8, &'static [Value]),
}

/// A property that a call has always, never, or with some arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) enum If {
    Never,
    Always,
    Args(fn(&[u64; 6]) -> bool),
}

impl If {
    fn holds(self, args: &[u64; 6]) -> bool {
        match self {
            If::Never => false,
            If::Always => true,
            If::Args(holds) => holds(args),
        }
    }
}

/// What a call does to areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// It changes areas at one instant.
    OneStep,
    /// It changes areas one after the other.
    Steps,
    /// It changes areas, and its arguments do not tell how far it reaches: the kernel is asked for
    /// everything.
    Wide,
    /// It makes a process or a thread.
    Task,
    /// It makes a process, and waits for it.
    TaskAndWait,
    /// It loads a program.
    Exec,
    /// It changes no area.
    None,
}

/// What a call reads of the program's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reads {
    Nothing,
    /// Address and length, from its arguments. The model may be asked even if they cannot be read.
    Detail(fn(&[u64; 6]) -> (u64, u64)),
    /// Address and length, from its arguments. The model is asked only if the recorder can read
    /// them as the kernel does.
    Request(fn(&[u64; 6]) -> (u64, u64)),
}

/// A call, and all that is known of it except its rules.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    call: Call,
    /// `None`: no event has this call.
    name: Option<&'static str>,
    /// The number on x86-64. On x32 it is the same with one more bit, unless `x32` has another.
    pub(crate) nr: u32,
    x32: Option<u32>,
    /// The numbers on i386.
    compat: &'static [u32],
    /// Its number as an option of `ipc` on i386, if it is one.
    ipc: &'static [Value],
    /// Which calls with this number it stands for.
    when: When,
    /// What its arguments are, for printing.
    args: &'static [Kind],
    /// Whether its result is an address.
    address: bool,
    effect: Effect,
    /// The engine in charge decides it, and users can make it fail.
    pub(crate) decided: bool,
    /// It fails at the rate of `--fail-rate` if no call is named.
    pub(crate) fails_by_rate: bool,
    /// It may wait for another thread of the program: see [`Call::may_block`].
    blocks: If,
    /// It brings pages in or moves them: see [`Call::needs_pages`].
    pages: If,
    /// What a refused call may leave behind: cut areas, an emptied place, or the first of many
    /// areas moved. False: nothing, or what the model's refusal leaves too.
    pub(crate) stops_half_way: bool,
    pub(crate) reads: Reads,
}

impl Row {
    /// A row for a call that is not in the model's table.
    const fn new(
        call: Call,
        nr: u32,
        name: Option<&'static str>,
        compat: &'static [u32],
        args: &'static [Kind],
    ) -> Row {
        Row {
            call,
            name,
            nr,
            x32: None,
            compat,
            ipc: &[],
            when: When::Always,
            args,
            address: false,
            effect: Effect::OneStep,
            decided: false,
            fails_by_rate: false,
            blocks: If::Never,
            pages: If::Never,
            stops_half_way: false,
            reads: Reads::Nothing,
        }
    }

    /// A row for a call of the model's table, with the name from there.
    const fn modelled(call: Call, nr: u64, compat: &'static [u32], args: &'static [Kind]) -> Row {
        let mut i = 0;
        while linux::CALLS[i].0 != nr {
            i += 1;
        }
        Row::new(call, nr as u32, Some(linux::CALLS[i].1), compat, args)
    }

    /// A row for a call that the engine decides.
    const fn decided(call: Call, nr: u64, compat: &'static [u32], args: &'static [Kind]) -> Row {
        Row { decided: true, ..Row::modelled(call, nr, compat, args) }
    }

    /// A row for an option of `prctl` that concerns areas.
    const fn prctl(call: Call, option: &'static [Value]) -> Row {
        let row = Row::modelled(call, linux::PRCTL, &[172], &[Command, Hex, Hex, Hex, Hex]);
        Row { when: When::Is(0, option), effect: Effect::Wide, ..row }
    }

    /// A row for an `ioctl` on a userfaultfd. It points to a range, and perhaps a mode.
    const fn uffd(call: Call, request: &'static [Value]) -> Row {
        Row {
            x32: Some(514),
            when: When::Is(1, request),
            effect: Effect::Wide,
            reads: Reads::Detail(|a| (a[2], 24)),
            ..Row::new(call, 16, Some("ioctl"), &[54], &[Int, Request, Addr])
        }
    }

    /// A row for a call that no event has.
    const fn unseen(call: Call, nr: u32, compat: &'static [u32]) -> Row {
        Row { effect: Effect::None, ..Row::new(call, nr, None, compat, ANY) }
    }
}

/// An option of `prctl` by its number in the model's table, with its name there.
const fn modelled_option(option: u32) -> Value {
    let mut i = 0;
    while linux::PRCTL_OPTIONS[i].0 != option {
        i += 1;
    }
    linux::PRCTL_OPTIONS[i]
}

const PR_SET_VMA: &[Value] = &[modelled_option(linux::PR_SET_VMA)];
const PR_SET_MDWE: &[Value] = &[modelled_option(linux::PR_SET_MDWE)];
const PR_SET_MEMORY_MERGE: &[Value] = &[modelled_option(linux::PR_SET_MEMORY_MERGE)];

/// Arguments of a call about which nothing is known.
const ANY: &[Kind] = &[Hex, Hex, Hex, Hex, Hex, Hex];

/// The table. The filter tests numbers in this order; calls that can be made to fail are listed in
/// this order.
const TABLE: &[Row] = &[
    Row {
        address: true,
        fails_by_rate: true,
        blocks: If::Args(|a| a[3] as i32 & (libc::MAP_POPULATE | libc::MAP_LOCKED) != 0),
        stops_half_way: true,
        // 90 is the old form: one pointer to six words.
        ..Row::decided(Call::Mmap, linux::MMAP, &[90, 192], &[Addr, Len, Prot, MapFlags, Int, Hex])
    },
    Row::decided(Call::Munmap, linux::MUNMAP, &[91], &[Addr, Len]),
    Row::decided(Call::Mprotect, linux::MPROTECT, &[125], &[Addr, Len, Prot]),
    Row::decided(Call::PkeyMprotect, linux::PKEY_MPROTECT, &[380], &[Addr, Len, Prot, Int]),
    Row {
        address: true,
        effect: Effect::Steps,
        fails_by_rate: true,
        stops_half_way: true,
        ..Row::decided(Call::Mremap, linux::MREMAP, &[163], &[Addr, Len, Len, RemapFlags, RemapTo])
    },
    Row { address: true, fails_by_rate: true, ..Row::decided(Call::Brk, linux::BRK, &[45], &[Addr]) },
    Row {
        blocks: If::Args(|a| !only_marks(a[2] as i32)),
        pages: If::Always,
        ..Row::decided(Call::Madvise, linux::MADVISE, &[219], &[Addr, Len, Advice])
    },
    Row {
        effect: Effect::Steps,
        blocks: If::Always,
        pages: If::Always,
        reads: Reads::Request(|a| (a[1], a[2].saturating_mul(16))),
        ..Row::decided(Call::ProcessMadvise, linux::PROCESS_MADVISE, &[440], &[Int, Addr, Len, Advice, Hex])
    },
    Row { blocks: If::Always, pages: If::Always, ..Row::decided(Call::Mlock, linux::MLOCK, &[150], &[Addr, Len]) },
    Row {
        blocks: If::Always,
        pages: If::Always,
        ..Row::decided(Call::Mlock2, linux::MLOCK2, &[376], &[Addr, Len, LockFlags])
    },
    Row::decided(Call::Munlock, linux::MUNLOCK, &[151], &[Addr, Len]),
    Row {
        effect: Effect::Wide,
        blocks: If::Always,
        pages: If::Always,
        ..Row::decided(Call::Mlockall, linux::MLOCKALL, &[152], &[LockAllFlags])
    },
    Row { effect: Effect::Wide, ..Row::decided(Call::Munlockall, linux::MUNLOCKALL, &[153], &[]) },
    Row::decided(Call::Mseal, linux::MSEAL, &[], &[Addr, Len, Hex]),
    Row {
        effect: Effect::Steps,
        pages: If::Always,
        stops_half_way: true,
        ..Row::decided(Call::RemapFilePages, linux::REMAP_FILE_PAGES, &[257], &[Addr, Len, Prot, Len, MapFlags])
    },
    Row {
        ipc: &[(21, "SHMAT")],
        address: true,
        effect: Effect::Wide,
        ..Row::decided(Call::Shmat, linux::SHMAT, &[397], &[Int, Addr, ShmFlags])
    },
    Row { ipc: &[(22, "SHMDT")], effect: Effect::Wide, ..Row::decided(Call::Shmdt, linux::SHMDT, &[398], &[Addr]) },
    Row {
        blocks: If::Always,
        // MPOL_MF_*: it looks at pages, or moves them.
        pages: If::Args(|a| a[5] != 0),
        // The kernel reads the mask by words.
        reads: Reads::Request(|a| (a[3], (a[4] / 8).saturating_add(8))),
        ..Row::decided(Call::Mbind, linux::MBIND, &[274], &[Addr, Len, Policy, Addr, Len, Hex])
    },
    Row::new(Call::HomeNode, 450, Some("set_mempolicy_home_node"), &[450], &[Addr, Len, Len, Hex]),
    Row::uffd(Call::UffdRegister, &[(0xc020_aa00, "UFFDIO_REGISTER")]),
    Row::uffd(Call::UffdUnregister, &[(0x8010_aa01, "UFFDIO_UNREGISTER")]),
    Row { reads: Reads::Detail(|a| (a[4], 80)), ..Row::prctl(Call::PrSetVma, PR_SET_VMA) },
    Row::prctl(Call::PrSetMm, &[(35, "PR_SET_MM")]),
    Row::prctl(Call::PrSetMdwe, PR_SET_MDWE),
    Row::prctl(Call::PrSetMemoryMerge, PR_SET_MEMORY_MERGE),
    Row {
        when: When::Is(
            0,
            &[
                (0x2001, "ARCH_MAP_VDSO_X32"),
                (0x2002, "ARCH_MAP_VDSO_32"),
                (0x2003, "ARCH_MAP_VDSO_64"),
                (0x5001, "ARCH_SHSTK_ENABLE"),
                (0x5002, "ARCH_SHSTK_DISABLE"),
            ],
        ),
        effect: Effect::Wide,
        ..Row::new(Call::ArchPrctl, 158, Some("arch_prctl"), &[384], &[Command, Addr])
    },
    Row {
        when: When::Is(0, &[(0, "PTRACE_TRACEME"), (16, "PTRACE_ATTACH"), (0x4206, "PTRACE_SEIZE")]),
        ..Row::unseen(Call::Ptrace, 101, &[26])
    },
    Row::unseen(Call::Seccomp, 317, &[354]),
    Row {
        when: When::Is(0, &[(22, "PR_SET_SECCOMP")]),
        ..Row::unseen(Call::PrSetSeccomp, linux::PRCTL as u32, &[172])
    },
    Row { effect: Effect::None, ..Row::modelled(Call::Personality, linux::PERSONALITY, &[136], &[Hex]) },
    Row::unseen(Call::SchedSetaffinity, 203, &[241]),
    Row::unseen(Call::SchedGetaffinity, 204, &[242]),
    Row {
        x32: Some(543),
        effect: Effect::Wide,
        ..Row::new(Call::IoSetup, 206, Some("io_setup"), &[245], &[Len, Addr])
    },
    Row { effect: Effect::Wide, ..Row::new(Call::IoDestroy, 207, Some("io_destroy"), &[246], &[Addr]) },
    Row {
        address: true,
        effect: Effect::Wide,
        ..Row::new(Call::MapShadowStack, 453, Some("map_shadow_stack"), &[], &[Addr, Len, Hex])
    },
    Row {
        effect: Effect::Task,
        ..Row::new(Call::Clone, 56, Some("clone"), &[120], &[CloneFlags, Addr, Addr, Addr, Addr])
    },
    Row { effect: Effect::Task, ..Row::new(Call::Clone3, 435, Some("clone3"), &[435], &[Addr, Len]) },
    Row { effect: Effect::Task, ..Row::new(Call::Fork, 57, Some("fork"), &[2], &[]) },
    Row { effect: Effect::TaskAndWait, blocks: If::Always, ..Row::new(Call::Vfork, 58, Some("vfork"), &[190], &[]) },
    Row {
        x32: Some(520),
        effect: Effect::Exec,
        blocks: If::Always,
        ..Row::new(Call::Execve, 59, Some("execve"), &[11], &[Addr, Addr, Addr])
    },
    Row {
        x32: Some(545),
        effect: Effect::Exec,
        blocks: If::Always,
        ..Row::new(Call::Execveat, 322, Some("execveat"), &[358], &[AtFd, Addr, Addr, Addr, Hex])
    },
];

// CALLS-1.
const _: () = {
    let mut i = 0;
    while i < TABLE.len() {
        assert!(TABLE[i].call as usize == i);
        i += 1;
    }
    assert!(TABLE.len() == Call::Execveat as usize + 1);
};

/// Calls that have names although the recorder does not stop at them: number, name, arguments.
const NAMED: &[(u32, &str, &[Kind])] = &[
    (60, "exit", &[Int]),
    (231, "exit_group", &[Int]),
    (26, "msync", ANY),
    (29, "shmget", ANY),
    (31, "shmctl", ANY),
    (160, "setrlimit", ANY),
    (302, "prlimit64", ANY),
    (238, "set_mempolicy", ANY),
    (256, "migrate_pages", ANY),
    (279, "move_pages", ANY),
    (298, "perf_event_open", ANY),
    (323, "userfaultfd", ANY),
    (330, "pkey_alloc", ANY),
    (331, "pkey_free", ANY),
    (425, "io_uring_setup", ANY),
    (427, "io_uring_register", ANY),
    (448, "process_mrelease", ANY),
];

/// Options that have names although the recorder does not stop at them.
const NAMED_OPTIONS: &[(&str, Value)] = &[("prctl", (41, "PR_SET_THP_DISABLE"))];

/// The name of a system call of x86-64, or `None`.
pub(crate) fn name(nr: u32) -> Option<&'static str> {
    let row = TABLE.iter().find(|row| row.nr == nr && row.name.is_some()).and_then(|row| row.name);
    row.or_else(|| NAMED.iter().find(|named| named.0 == nr).map(|named| named.1))
}

/// The arguments of a call by its name, and whether its result is an address.
pub fn signature(name: &str) -> (&'static [Kind], bool) {
    let row = TABLE.iter().find(|row| row.name == Some(name)).map(|row| (row.args, row.address));
    let named = || NAMED.iter().find(|named| named.1 == name).map(|named| (named.2, false));
    row.or_else(named).unwrap_or((ANY, false))
}

/// The name of an option of a call, if events can have it.
pub fn option_name(call: &str, option: u64) -> Option<&'static str> {
    let rows = TABLE.iter().filter(|row| row.name == Some(call));
    let values = rows.filter_map(|row| match row.when {
        When::Is(_, values) => Some(values),
        When::Always => None,
    });
    let named = NAMED_OPTIONS.iter().filter(|named| named.0 == call).map(|named| &named.1);
    values.flatten().chain(named).find(|value| u64::from(value.0) == option).map(|value| value.1)
}

/// Number and name of each call that can be made to fail.
pub(crate) fn failing() -> impl Iterator<Item = (u32, &'static str)> {
    TABLE.iter().filter(|row| row.decided).filter_map(|row| Some((row.nr, row.name?)))
}

/// Whether a call with this number fails at the rate of `--fail-rate` if no call is named.
pub(crate) fn fails_by_rate(nr: u32) -> bool {
    TABLE.iter().any(|row| row.nr == nr && row.fails_by_rate)
}

/// A number of one of the three call tables, and what it means.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number {
    pub(crate) nr: u32,
    pub(crate) call: Call,
    pub(crate) when: When,
}

/// A call table of the kernel.
#[derive(Clone, Copy)]
pub(crate) enum Abi {
    Native,
    /// Only what differs from `Native`.
    X32,
    Compat,
}

/// `ipc` of i386, which has `shmat` and `shmdt` as options.
pub(crate) const IPC: u32 = 117;

/// How many numbers a table has.
pub(crate) const fn count(abi: Abi) -> usize {
    let (mut n, mut i) = (0, 0);
    while i < TABLE.len() {
        let row = &TABLE[i];
        n += match abi {
            Abi::Native => 1,
            Abi::X32 => row.x32.is_some() as usize,
            Abi::Compat => row.compat.len() + !row.ipc.is_empty() as usize,
        };
        i += 1;
    }
    n
}

/// The numbers of a table: `N` is their [`count`].
pub(crate) const fn numbers<const N: usize>(abi: Abi) -> [Number; N] {
    let mut all = [Number { nr: 0, call: Call::Mmap, when: When::Always }; N];
    let (mut n, mut i) = (0, 0);
    while i < TABLE.len() {
        let row = &TABLE[i];
        let number = Number { nr: row.nr, call: row.call, when: row.when };
        match abi {
            Abi::Native => {
                all[n] = number;
                n += 1;
            }
            Abi::X32 => {
                if let Some(nr) = row.x32 {
                    all[n] = Number { nr, ..number };
                    n += 1;
                }
            }
            Abi::Compat => {
                let mut j = 0;
                while j < row.compat.len() {
                    all[n] = Number { nr: row.compat[j], ..number };
                    (n, j) = (n + 1, j + 1);
                }
                if !row.ipc.is_empty() {
                    all[n] = Number { nr: IPC, when: When::Is(0, row.ipc), ..number };
                    n += 1;
                }
            }
        }
        i += 1;
    }
    all
}

/// Advice that only marks areas, or lets pages go: it waits for nobody.
fn only_marks(advice: i32) -> bool {
    matches!(
        advice,
        libc::MADV_NORMAL
            | libc::MADV_RANDOM
            | libc::MADV_SEQUENTIAL
            | libc::MADV_DONTNEED
            | libc::MADV_FREE
            | libc::MADV_DONTFORK..=libc::MADV_KEEPONFORK
    )
}

impl Call {
    /// Its row.
    pub(crate) fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// Makes a process or a thread: reported by ptrace events, not by its return.
    pub(crate) fn makes_task(self) -> bool {
        matches!(self.row().effect, Effect::Task | Effect::TaskAndWait)
    }

    /// Its arguments do not tell how far it reaches: the kernel is asked for everything.
    pub(crate) fn is_wide(self) -> bool {
        self.row().effect == Effect::Wide
    }

    /// It changes areas at one instant.
    pub(crate) fn is_one_step(self) -> bool {
        !matches!(self.row().effect, Effect::Wide | Effect::Steps)
    }

    /// It stops for other reasons than the space: it waits for no call, and no call waits for it.
    pub(crate) fn stays_out(self) -> bool {
        matches!(self.row().effect, Effect::Exec | Effect::TaskAndWait | Effect::None)
    }

    /// It loads a program.
    pub(crate) fn execs(self) -> bool {
        self.row().effect == Effect::Exec
    }

    /// It sets a seccomp filter of the program's own.
    pub(crate) fn sets_filter(self) -> bool {
        matches!(self, Call::Seccomp | Call::PrSetSeccomp)
    }

    /// It may wait for another thread of the program (page faults that a userfaultfd thread serves,
    /// a parent that waits for its vfork child), so no other thread is held while it runs.
    pub(crate) fn may_block(self, args: &[u64; 6]) -> bool {
        self.row().blocks.holds(args)
    }

    /// It brings pages in or moves them, which may fail for reasons that are not the areas'.
    pub(crate) fn needs_pages(self, args: &[u64; 6]) -> bool {
        self.row().pages.holds(args)
    }

    /// What it reads of the program's memory: where, and how many bytes.
    pub(crate) fn reads(self, args: &[u64; 6]) -> Option<(u64, u64)> {
        match self.row().reads {
            Reads::Nothing => None,
            Reads::Detail(at) | Reads::Request(at) => Some(at(args)),
        }
    }
}

#[cfg(test)]
#[path = "calls_tests.rs"]
mod tests;
