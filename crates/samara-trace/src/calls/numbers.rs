//! The numbers of calls in the three call tables of the kernel (x86-64, x32, i386), made from the
//! rows. Knows nothing of registers.
//!
//! Neighbours: `arch` decodes calls by these numbers; `tracer::seccomp` filters by them.

use super::Call;
use super::row::When;
use super::table::TABLE;

/// A number of one of the three call tables, and what it means.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    pub nr: u32,
    pub call: Call,
    pub when: When,
}

/// A call table of the kernel.
#[derive(Clone, Copy, Debug)]
pub enum Abi {
    Native,
    /// Only what differs from `Native`.
    X32,
    Compat,
}

/// `ipc` of i386, which has `shmat` and `shmdt` as options.
pub const IPC: u32 = 117;

/// The number of entries of a table.
pub const fn count(abi: Abi) -> usize {
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
pub const fn numbers<const N: usize>(abi: Abi) -> [Number; N] {
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
