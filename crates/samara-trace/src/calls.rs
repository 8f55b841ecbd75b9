//! The system calls that matter, as one enum, and how long each may take. Knows no numbers (see
//! `arch`) and no models.

/// A system call that can change an address space, or that makes or replaces one.
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
    Prctl,
    ArchPrctl,
    Personality,
    /// Not about spaces: the recorder must let go of the task's processors first (see
    /// `tracer::affinity`).
    Affinity,
    /// Not about spaces: it is refused, as we trace the process.
    Ptrace,
    /// Not about spaces: the program's own filters see what its calls are made with.
    Filter,
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

/// A condition on one 32-bit word of a call's arguments, which the filter tests without a stop.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    /// Every such call.
    Always,
    /// Only if the low word of argument `.0` is one of `.1`.
    Is(u8, &'static [u32]),
}

/// One row of an architecture's table: a number there, and what it means.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) nr: u32,
    pub(crate) call: Call,
    pub(crate) when: When,
}

impl Call {
    /// Makes or replaces a process or a thread: reported by ptrace events, not by its return.
    pub(crate) fn makes_task(self) -> bool {
        matches!(self, Call::Clone | Call::Clone3 | Call::Fork | Call::Vfork)
    }

    /// How far it reaches is not in its arguments: the kernel is asked for everything.
    pub(crate) fn is_wide(self) -> bool {
        matches!(
            self,
            Call::Mlockall
                | Call::Munlockall
                | Call::Shmat
                | Call::Shmdt
                | Call::UffdRegister
                | Call::UffdUnregister
                | Call::Prctl
                | Call::ArchPrctl
                | Call::IoSetup
                | Call::IoDestroy
                | Call::MapShadowStack
        )
    }

    /// All that it does to areas it does at one instant.
    pub(crate) fn is_one_step(self) -> bool {
        !self.is_wide() && !matches!(self, Call::Mremap | Call::ProcessMadvise | Call::RemapFilePages)
    }

    /// Stops for other reasons than the space: it neither waits for others nor keeps them waiting.
    pub(crate) fn stays_out(self) -> bool {
        self.execs() || matches!(self, Call::Personality | Call::Vfork | Call::Affinity | Call::Filter | Call::Ptrace)
    }

    /// Loads a program.
    pub(crate) fn execs(self) -> bool {
        matches!(self, Call::Execve | Call::Execveat)
    }

    /// May wait for another thread of the program (page faults that a userfaultfd thread serves, a
    /// parent that waits for its vfork child), so no other thread is held while it runs.
    pub(crate) fn may_block(self, args: &[u64; 6]) -> bool {
        match self {
            Call::Mmap => args[3] as i32 & (libc::MAP_POPULATE | libc::MAP_LOCKED) != 0,
            Call::Madvise => !matches!(
                args[2] as i32,
                libc::MADV_NORMAL
                    | libc::MADV_RANDOM
                    | libc::MADV_SEQUENTIAL
                    | libc::MADV_DONTNEED
                    | libc::MADV_FREE
                    | libc::MADV_DONTFORK..=libc::MADV_KEEPONFORK
            ),
            Call::ProcessMadvise
            | Call::Mlock
            | Call::Mlock2
            | Call::Mlockall
            | Call::Mbind
            | Call::Vfork
            | Call::Execve
            | Call::Execveat => true,
            _ => false,
        }
    }
}
