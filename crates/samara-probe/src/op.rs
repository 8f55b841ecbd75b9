//! Calls as data: each has one raw form, which the kernel and the model both take.

/// mseal, which libc does not name everywhere.
#[doc(hidden)]
pub const SYS_MSEAL: i64 = 462;
/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// Pages of a huge page.
#[doc(hidden)]
pub const HUGE_PAGES: u64 = 512;
/// The window: far below everything that a position-independent program maps, far above all else.
#[doc(hidden)]
pub const BASE: u64 = 0x10_0000_0000;
/// Its size in pages: room for a stack, its guard gap, and what lies below; and for a dozen huge
/// pages.
#[doc(hidden)]
pub const PAGES: u64 = 12 * HUGE_PAGES;
#[doc(hidden)]
pub const END: u64 = BASE + PAGES * PAGE;

/// Where calls may write: a page, far below the window.
pub const ROOM: u64 = BASE - (1 << 32);

/// The address of a page of the window that calls are made in.
pub const fn at(page: u64) -> u64 {
    BASE + page * PAGE
}

/// The numbers of the open files that the calls find.
pub mod fd {
    /// A memfd of 1 MiB.
    pub const FILE: u64 = 100;
    /// The same open file again.
    pub const DUP: u64 = 101;
    /// The same file, opened again.
    pub const AGAIN: u64 = 102;
    /// The same file, opened for reading only.
    pub const READ_ONLY: u64 = 103;
    /// Another memfd.
    pub const OTHER: u64 = 104;
    /// A memfd of 1 MiB that is sealed against further writes (F_SEAL_FUTURE_WRITE).
    pub const SEALED: u64 = 105;
    /// The first one, opened for writing only.
    pub const WRITE_ONLY: u64 = 106;
    /// A pipe, which cannot be mapped.
    pub const PIPE: u64 = 107;
    /// `/dev/zero`.
    pub const ZERO: u64 = 108;
    /// `/dev/zero`, opened for reading only.
    pub const ZERO_READ_ONLY: u64 = 109;
    /// A memfd in huge pages of 2 MiB, if there are such.
    pub const HUGE: u64 = 110;
    /// The same file, opened for reading only.
    pub const HUGE_READ_ONLY: u64 = 111;
    /// No file.
    pub const NONE: u64 = u64::MAX;
}

/// The numbers of the System V segments that calls find.
pub mod segment {
    /// Of five pages, the last of them not whole.
    pub const FIVE: u64 = 200;
    /// Of one page.
    pub const ONE: u64 = 201;

    /// How many bytes they have.
    #[doc(hidden)]
    pub const fn bytes(number: u64) -> Option<u64> {
        match number {
            FIVE => Some(4 * super::PAGE + 100),
            ONE => Some(super::PAGE),
            _ => None,
        }
    }
}

/// An operation: a system call, or an access or action without one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A system call by its number, with its arguments.
    Call(i64, [u64; 6]),
    /// Writes a byte there, if that is allowed.
    Write(u64),
    /// Reads a byte there, if that is allowed.
    Read(u64),
    /// Forks, and goes on in the child.
    Fork,
    /// Says that the heap begins there and is empty (PR_SET_MM). Calls of brk come after it.
    Heap {
        /// First address.
        at: u64,
    },
    /// process_madvise on the process's own memory.
    Advise {
        /// The advice.
        advice: u64,
        /// Starts and lengths.
        ranges: [(u64, u64); 3],
    },
    /// Registers a range with a userfaultfd for write protection, or takes it out.
    Uffd {
        /// Whether it is registered.
        on: bool,
        /// First address.
        at: u64,
        /// Length in bytes.
        len: u64,
    },
    /// Sets resource limits, and drops capabilities.
    Limit(Limited),
    /// Makes areas elsewhere until this many are left to `vm.max_map_count`. First of all, if at
    /// all.
    Fill {
        /// How many.
        left: u64,
    },
}

/// Limits of a process, in bytes; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limited {
    /// Limit of all memory, above the present amount (RLIMIT_AS).
    pub address_space: Option<u64>,
    /// Limit of private writable memory, above the present amount (RLIMIT_DATA).
    pub data: Option<u64>,
    /// Largest stack (RLIMIT_STACK).
    pub stack: Option<u64>,
    /// Most locked memory (RLIMIT_MEMLOCK).
    pub locked: Option<u64>,
    /// The capabilities stay; once they are dropped, they do not come back.
    pub privileged: bool,
}

impl Op {
    /// A system call; arguments that are not given are 0.
    pub fn call(nr: i64, args: &[u64]) -> Op {
        let mut all = [0; 6];
        all.iter_mut().zip(args).for_each(|(to, arg)| *to = *arg);
        Op::Call(nr, all)
    }

    /// The number of the system call that it is, if it is one of those that are drawn.
    #[doc(hidden)]
    pub fn number(&self) -> Option<i64> {
        match self {
            Op::Call(nr, _) => Some(*nr),
            Op::Advise { .. } => Some(libc::SYS_process_madvise),
            _ => None,
        }
    }

    /// As an argument: what call number `of` returned, and this many bytes more (up to 2 GiB,
    /// either way).
    pub const fn result(of: u16, and: i32) -> u64 {
        RESULT | (of as u64) << 32 | and as u32 as u64
    }

    /// The op with what earlier calls returned put in.
    #[doc(hidden)]
    pub fn resolved(self, result: impl Fn(usize) -> i64) -> Op {
        let put = |arg| match reference(arg) {
            Some((of, and)) => (result(of) as u64).wrapping_add(and as u64),
            None => arg,
        };
        match self {
            Op::Call(nr, args) => Op::Call(nr, args.map(put)),
            Op::Write(at) => Op::Write(put(at)),
            Op::Read(at) => Op::Read(put(at)),
            other => other,
        }
    }

    /// The op after those from `from` to `to` were removed; `None` if it needs one of them.
    #[doc(hidden)]
    pub fn without(self, from: usize, to: usize) -> Option<Op> {
        let moved = |arg| match reference(arg) {
            Some((of, _)) if (from..to).contains(&of) => None,
            Some((of, and)) if of >= to => Some(Op::result((of - (to - from)) as u16, and as i32)),
            _ => Some(arg),
        };
        Some(match self {
            Op::Call(nr, args) => {
                let mut all = args;
                for arg in &mut all {
                    *arg = moved(*arg)?;
                }
                Op::Call(nr, all)
            }
            Op::Write(at) => Op::Write(moved(at)?),
            Op::Read(at) => Op::Read(moved(at)?),
            other => other,
        })
    }
}

/// The upper bits of an argument that stands for a result: no address, length or flag has them.
const RESULT: u64 = 0x5a17 << 48;

/// Which result an argument stands for, and how many bytes more.
#[doc(hidden)]
pub fn reference(arg: u64) -> Option<(usize, i64)> {
    (arg & 0xffff << 48 == RESULT).then_some(((arg >> 32) as u16 as usize, i64::from(arg as u32 as i32)))
}
