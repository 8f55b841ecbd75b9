//! The calls, and the table: a row for each call, and for each option of `prctl` and `ioctl`. Does
//! not know how rows are used.
//!
//! - **CALLS-1** each call has exactly one row, at its own index in the table (checked at compile
//!   time).
//! - **CALLS-2** a call that the engine decides has a row in the table of `samara_mm::linux` too.

use samara_mm::{Advice, linux};

use super::names::Kind::*;
use super::names::Value;
use super::row::{Effect, If, ModelFollows, Place, Reach, Reads, Row, Sets, When};
use crate::uapi;

/// A system call that can change an address space, makes or replaces one, or must be seen by the
/// recorder for another reason. In the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
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
    /// It is refused, because the recorder traces the process.
    Ptrace,
    /// The program's own filters see the arguments of its calls.
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

/// The table. The filter tests numbers in this order; calls that can be made to fail are listed in
/// this order.
pub(super) const TABLE: &[Row] = &[
    Row {
        address: true,
        fails_by_rate: true,
        blocks: If::Args(|a| a[3] as i32 & (uapi::MAP_POPULATE | uapi::MAP_LOCKED) != 0),
        stops_half_way: true,
        reach: Reach::Maps(Place {
            at: 0,
            len: Some(1),
            given: If::Args(|a| a[3] as i32 & (uapi::MAP_FIXED | uapi::MAP_FIXED_NOREPLACE) != 0),
            replaces: If::Args(|a| a[3] as i32 & uapi::MAP_FIXED != 0),
            give: Some((3, uapi::MAP_FIXED_NOREPLACE as u64)),
        }),
        decided: If::Args(|a| has_known_type(a[3] as i32)),
        makes_executable: true,
        // 90 is the old form: one pointer to six words.
        ..Row::decided(Call::Mmap, linux::MMAP, &[90, 192], &[Addr, Len, Prot, MapFlags, Int, Hex])
    },
    Row { from_page_start: true, ..Row::decided(Call::Munmap, linux::MUNMAP, &[91], &[Addr, Len]) },
    Row {
        sets: Sets::Protection,
        makes_executable: true,
        from_page_start: true,
        ..Row::decided(Call::Mprotect, linux::MPROTECT, &[125], &[Addr, Len, Prot])
    },
    Row {
        // Which protection keys are allocated cannot be read.
        decided: If::Args(|a| a[3] as i32 == -1),
        sets: Sets::Protection,
        from_page_start: true,
        ..Row::decided(Call::PkeyMprotect, linux::PKEY_MPROTECT, &[380], &[Addr, Len, Prot, Int])
    },
    Row {
        address: true,
        fails_by_rate: true,
        stops_half_way: true,
        reach: Reach::Moves(Place {
            at: 4,
            len: Some(2),
            given: If::Args(|a| a[3] as i32 & uapi::MREMAP_FIXED != 0),
            replaces: If::Args(|a| a[3] as i32 & uapi::MREMAP_FIXED != 0),
            give: Some((3, uapi::MREMAP_FIXED as u64)),
        }),
        from_page_start: true,
        ..Row::decided(Call::Mremap, linux::MREMAP, &[163], &[Addr, Len, Len, RemapFlags, RemapTo])
    },
    Row {
        address: true,
        fails_by_rate: true,
        reach: Reach::Break,
        ..Row::decided(Call::Brk, linux::BRK, &[45], &[Addr])
    },
    Row {
        blocks: If::Args(|a| !waits_for_none(a[2])),
        pages: If::Always,
        decided: If::Args(|a| is_known_advice(a[2])),
        advice: Some(2),
        sets: Sets::Flags,
        from_page_start: true,
        ..Row::decided(Call::Madvise, linux::MADVISE, &[219], &[Addr, Len, Advice])
    },
    Row {
        blocks: If::Always,
        pages: If::Always,
        reach: Reach::Ranges { at: 1, count: 2 },
        follow: ModelFollows::MakesUnlessPages,
        reads: Reads::Request(|a| (a[1], a[2].saturating_mul(16))),
        decided: If::Args(|a| is_known_advice(a[3])),
        // For another process the areas decide which advice is taken; the kernel decides whether
        // this caller may give it.
        decided_for_others: If::Args(|a| Advice::from_raw(a[3] as u32).is_some_and(Advice::for_others)),
        advice: Some(3),
        sets: Sets::Flags,
        ..Row::decided(Call::ProcessMadvise, linux::PROCESS_MADVISE, &[440], &[Int, Addr, Len, Advice, Hex])
    },
    Row {
        sets: Sets::Lock,
        blocks: If::Always,
        pages: If::Always,
        ..Row::decided(Call::Mlock, linux::MLOCK, &[150], &[Addr, Len])
    },
    Row {
        sets: Sets::Lock,
        blocks: If::Always,
        pages: If::Always,
        ..Row::decided(Call::Mlock2, linux::MLOCK2, &[376], &[Addr, Len, LockFlags])
    },
    Row { sets: Sets::Lock, ..Row::decided(Call::Munlock, linux::MUNLOCK, &[151], &[Addr, Len]) },
    Row {
        effect: Effect::Wide,
        reach: Reach::Everything,
        sets: Sets::Lock,
        blocks: If::Always,
        pages: If::Always,
        ..Row::decided(Call::Mlockall, linux::MLOCKALL, &[152], &[LockAllFlags])
    },
    Row {
        effect: Effect::Wide,
        reach: Reach::Everything,
        sets: Sets::Lock,
        ..Row::decided(Call::Munlockall, linux::MUNLOCKALL, &[153], &[])
    },
    Row {
        sets: Sets::Flags,
        from_page_start: true,
        ..Row::decided(Call::Mseal, linux::MSEAL, &[462], &[Addr, Len, Hex])
    },
    Row {
        follow: ModelFollows::MakesUnlessPages,
        pages: If::Always,
        stops_half_way: true,
        ..Row::decided(Call::RemapFilePages, linux::REMAP_FILE_PAGES, &[257], &[Addr, Len, Prot, Len, MapFlags])
    },
    Row {
        ipc: &[(21, "SHMAT")],
        address: true,
        effect: Effect::Wide,
        reach: Reach::Maps(Place {
            at: 1,
            len: None,
            given: If::Args(|a| a[1] != 0),
            replaces: If::Args(|a| a[2] & uapi::SHM_REMAP as u64 != 0),
            give: None,
        }),
        follow: ModelFollows::Kernel,
        ..Row::decided(Call::Shmat, linux::SHMAT, &[397], &[Int, Addr, ShmFlags])
    },
    Row {
        ipc: &[(22, "SHMDT")],
        effect: Effect::Wide,
        reach: Reach::Area(0),
        follow: ModelFollows::Kernel,
        ..Row::decided(Call::Shmdt, linux::SHMDT, &[398], &[Addr])
    },
    Row {
        sets: Sets::Policy,
        blocks: If::Always,
        // MPOL_MF_*: it looks at pages, or moves them.
        pages: If::Args(|a| a[5] != 0),
        // The kernel reads the mask by words.
        reads: Reads::Request(|a| (a[3], (a[4] / 8).saturating_add(8))),
        follow: ModelFollows::MakesUnlessPages,
        needs_nodes: true,
        ..Row::decided(Call::Mbind, linux::MBIND, &[274], &[Addr, Len, Policy, Addr, Len, Hex])
    },
    Row {
        sets: Sets::Policy,
        // No file shows home nodes, so they are not known after calls that overlapped.
        follow: ModelFollows::Kernel,
        needs_nodes: true,
        from_page_start: true,
        ..Row::decided(Call::HomeNode, linux::SET_MEMPOLICY_HOME_NODE, &[450], &[Addr, Len, Len, Hex])
    },
    Row::uffd(Call::UffdRegister, &[(0xc020_aa00, "UFFDIO_REGISTER")]),
    Row::uffd(Call::UffdUnregister, &[(0x8010_aa01, "UFFDIO_UNREGISTER")]),
    Row { reach: Reach::Range(2, 3), reads: Reads::Detail(|a| (a[4], 80)), ..Row::prctl(Call::PrSetVma, PR_SET_VMA) },
    Row::prctl(Call::PrSetMm, &[(35, "PR_SET_MM")]),
    Row::prctl(Call::PrSetMdwe, PR_SET_MDWE),
    // It marks every area.
    Row { reach: Reach::Everything, ..Row::prctl(Call::PrSetMemoryMerge, PR_SET_MEMORY_MERGE) },
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
        reach: Reach::Untold,
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
    Row {
        effect: Effect::None,
        reach: Reach::Untold,
        follow: ModelFollows::Nothing,
        ..Row::modelled(Call::Personality, linux::PERSONALITY, &[136], &[Hex])
    },
    Row::unseen(Call::SchedSetaffinity, 203, &[241]),
    Row::unseen(Call::SchedGetaffinity, 204, &[242]),
    Row {
        x32: Some(543),
        effect: Effect::Wide,
        reach: Reach::Untold,
        ..Row::new(Call::IoSetup, 206, Some("io_setup"), &[245], &[Len, Addr])
    },
    Row {
        effect: Effect::Wide,
        reach: Reach::Area(0),
        ..Row::new(Call::IoDestroy, 207, Some("io_destroy"), &[246], &[Addr])
    },
    Row {
        address: true,
        effect: Effect::Wide,
        reach: Reach::Maps(Place { at: 0, len: Some(1), given: If::Never, replaces: If::Never, give: None }),
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

/// The flags of `mmap` have a type that the model knows.
fn has_known_type(flags: i32) -> bool {
    [uapi::MAP_SHARED, uapi::MAP_PRIVATE, uapi::MAP_SHARED_VALIDATE].contains(&(flags & 0xf))
}

/// Advice on a process's own memory whose effect or error the model knows. Poisoning depends on
/// hardware; other advice is newer than the model.
fn is_known_advice(advice: u64) -> bool {
    advice as u32 <= Advice::Collapse as u32 || Advice::from_raw(advice as u32).is_some()
}

/// Advice that only sets attributes or releases pages: it waits for no other thread.
fn waits_for_none(advice: u64) -> bool {
    let advice = Advice::from_raw(advice as u32);
    advice.is_some_and(|advice| advice.only_sets() || matches!(advice, Advice::DontNeed | Advice::Free))
}
