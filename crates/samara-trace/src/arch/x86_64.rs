//! x86-64 Linux: the numbers of its three call tables (x86-64, x32, i386), and the registers of
//! arguments and results.
//!
//! An i386 call (a 32-bit program, or `int 0x80`) is translated to the x86-64 call of the same
//! meaning. So the rest of the crate and the trace know one table only. x32 numbers are x86-64
//! numbers with one more bit set.

use crate::calls::{Call, Row, When};

/// `AUDIT_ARCH_X86_64`: calls by the `syscall` instruction, x32 included.
#[cfg(test)]
pub(crate) const AUDIT_NATIVE: u32 = 0xc000_003e;
/// `AUDIT_ARCH_I386`.
pub(crate) const AUDIT_COMPAT: u32 = 0x4000_0003;
/// The bit that marks an x32 number.
pub(crate) const X32_BIT: u32 = 0x4000_0000;
/// Offset of a call's result in the ptrace user area.
pub(crate) const RESULT_OFFSET: usize = std::mem::offset_of!(libc::user_regs_struct, rax);

/// Offset of the call's number. A -1 there makes the kernel skip the call.
pub(crate) const NUMBER_OFFSET: usize = std::mem::offset_of!(libc::user_regs_struct, orig_rax);

/// Offset of the instruction pointer.
pub(crate) const PLACE_OFFSET: usize = std::mem::offset_of!(libc::user_regs_struct, rip);

/// Length of the instruction that makes an x86-64 call.
pub(crate) const CALL_LEN: u64 = 2;

/// Offset of argument `i` of an x86-64 call.
pub(crate) fn argument(i: usize) -> usize {
    use std::mem::offset_of;
    let all = [
        offset_of!(libc::user_regs_struct, rdi),
        offset_of!(libc::user_regs_struct, rsi),
        offset_of!(libc::user_regs_struct, rdx),
        offset_of!(libc::user_regs_struct, r10),
        offset_of!(libc::user_regs_struct, r8),
        offset_of!(libc::user_regs_struct, r9),
    ];
    all[i.min(5)]
}

/// Offset of a call's first argument.
pub(crate) fn first_argument(arch: u32) -> usize {
    match arch {
        AUDIT_COMPAT => std::mem::offset_of!(libc::user_regs_struct, rbx),
        _ => argument(0),
    }
}

/// Whether this number may be `exit`, which ends one thread, in any of the tables.
pub(crate) fn is_thread_exit(nr: u32) -> bool {
    const COMPAT_EXIT: u32 = 1;
    nr & !X32_BIT == libc::SYS_exit as u32 || nr == COMPAT_EXIT
}

const UFFDIO_REGISTER: u32 = 0xc020_aa00;
const UFFDIO_UNREGISTER: u32 = 0x8010_aa01;
/// PR_SET_VMA, PR_SET_MM, PR_SET_MDWE, PR_SET_MEMORY_MERGE.
const PRCTLS: &[u32] = &[0x5356_4d41, 35, 65, 67];
/// PR_SET_SECCOMP.
const PRCTL_FILTER: &[u32] = &[22];
/// PTRACE_TRACEME, PTRACE_ATTACH, PTRACE_SEIZE.
const PTRACE_BEGINS: &[u32] = &[0, 16, 0x4206];
/// ARCH_MAP_VDSO_X32, _32, _64, ARCH_SHSTK_ENABLE, _DISABLE.
const ARCH_PRCTLS: &[u32] = &[0x2001, 0x2002, 0x2003, 0x5001, 0x5002];

const fn row(nr: libc::c_long, call: Call) -> Row {
    Row { nr: nr as u32, call, when: When::Always }
}

const fn row_if(nr: libc::c_long, call: Call, arg: u8, values: &'static [u32]) -> Row {
    Row { nr: nr as u32, call, when: When::Is(arg, values) }
}

/// The x86-64 table.
pub(crate) const NATIVE: &[Row] = &[
    row(libc::SYS_mmap, Call::Mmap),
    row(libc::SYS_munmap, Call::Munmap),
    row(libc::SYS_mprotect, Call::Mprotect),
    row(libc::SYS_brk, Call::Brk),
    row(libc::SYS_madvise, Call::Madvise),
    row(libc::SYS_mremap, Call::Mremap),
    row(libc::SYS_pkey_mprotect, Call::PkeyMprotect),
    row(libc::SYS_process_madvise, Call::ProcessMadvise),
    row(libc::SYS_mlock, Call::Mlock),
    row(libc::SYS_mlock2, Call::Mlock2),
    row(libc::SYS_munlock, Call::Munlock),
    row(libc::SYS_mlockall, Call::Mlockall),
    row(libc::SYS_munlockall, Call::Munlockall),
    row(462, Call::Mseal),
    row(libc::SYS_remap_file_pages, Call::RemapFilePages),
    row(libc::SYS_shmat, Call::Shmat),
    row(libc::SYS_shmdt, Call::Shmdt),
    row(libc::SYS_mbind, Call::Mbind),
    row(450, Call::HomeNode),
    row_if(libc::SYS_ioctl, Call::UffdRegister, 1, &[UFFDIO_REGISTER]),
    row_if(libc::SYS_ioctl, Call::UffdUnregister, 1, &[UFFDIO_UNREGISTER]),
    row_if(libc::SYS_prctl, Call::Prctl, 0, PRCTLS),
    row_if(libc::SYS_arch_prctl, Call::ArchPrctl, 0, ARCH_PRCTLS),
    row_if(libc::SYS_ptrace, Call::Ptrace, 0, PTRACE_BEGINS),
    row(libc::SYS_seccomp, Call::Filter),
    row_if(libc::SYS_prctl, Call::Filter, 0, PRCTL_FILTER),
    row(libc::SYS_personality, Call::Personality),
    row(libc::SYS_sched_setaffinity, Call::Affinity),
    row(libc::SYS_sched_getaffinity, Call::Affinity),
    row(libc::SYS_io_setup, Call::IoSetup),
    row(libc::SYS_io_destroy, Call::IoDestroy),
    row(453, Call::MapShadowStack),
    row(libc::SYS_clone, Call::Clone),
    row(libc::SYS_clone3, Call::Clone3),
    row(libc::SYS_fork, Call::Fork),
    row(libc::SYS_vfork, Call::Vfork),
    row(libc::SYS_execve, Call::Execve),
    row(libc::SYS_execveat, Call::Execveat),
];

/// Memory calls that a program expects to fail sometimes: faults may be injected into these.
pub(crate) const FAILING: &[u32] = &[
    libc::SYS_mmap as u32,
    libc::SYS_munmap as u32,
    libc::SYS_mprotect as u32,
    libc::SYS_pkey_mprotect as u32,
    libc::SYS_mremap as u32,
    libc::SYS_brk as u32,
    libc::SYS_madvise as u32,
    libc::SYS_process_madvise as u32,
    libc::SYS_mlock as u32,
    libc::SYS_mlock2 as u32,
    libc::SYS_munlock as u32,
    libc::SYS_mlockall as u32,
    libc::SYS_munlockall as u32,
    462, // mseal
    libc::SYS_remap_file_pages as u32,
    libc::SYS_shmat as u32,
    libc::SYS_shmdt as u32,
    libc::SYS_mbind as u32,
];

/// Calls whose x32 number is not their x86-64 number with the bit set.
pub(crate) const X32: &[Row] = &[
    row_if(514, Call::UffdRegister, 1, &[UFFDIO_REGISTER]),
    row_if(514, Call::UffdUnregister, 1, &[UFFDIO_UNREGISTER]),
    row(520, Call::Execve),
    row(543, Call::IoSetup),
    row(545, Call::Execveat),
];

/// The i386 table.
pub(crate) const COMPAT: &[Row] = &[
    row(90, Call::Mmap), // old form: one pointer to six words
    row(192, Call::Mmap),
    row(91, Call::Munmap),
    row(125, Call::Mprotect),
    row(45, Call::Brk),
    row(219, Call::Madvise),
    row(163, Call::Mremap),
    row(380, Call::PkeyMprotect),
    row(440, Call::ProcessMadvise),
    row(150, Call::Mlock),
    row(376, Call::Mlock2),
    row(151, Call::Munlock),
    row(152, Call::Mlockall),
    row(153, Call::Munlockall),
    row(257, Call::RemapFilePages),
    row_if(117, Call::Shmat, 0, &[21]),
    row_if(117, Call::Shmdt, 0, &[22]),
    row(397, Call::Shmat),
    row(398, Call::Shmdt),
    row(274, Call::Mbind),
    row(450, Call::HomeNode),
    row_if(54, Call::UffdRegister, 1, &[UFFDIO_REGISTER]),
    row_if(54, Call::UffdUnregister, 1, &[UFFDIO_UNREGISTER]),
    row_if(172, Call::Prctl, 0, PRCTLS),
    row_if(384, Call::ArchPrctl, 0, ARCH_PRCTLS),
    row_if(26, Call::Ptrace, 0, PTRACE_BEGINS),
    row(354, Call::Filter),
    row_if(172, Call::Filter, 0, PRCTL_FILTER),
    row(136, Call::Personality),
    row(241, Call::Affinity),
    row(242, Call::Affinity),
    row(245, Call::IoSetup),
    row(246, Call::IoDestroy),
    row(120, Call::Clone),
    row(435, Call::Clone3),
    row(2, Call::Fork),
    row(190, Call::Vfork),
    row(11, Call::Execve),
    row(358, Call::Execveat),
];

/// A call as the rest of the crate sees it: the x86-64 number and arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoded {
    pub(crate) call: Call,
    pub(crate) nr: u32,
    pub(crate) args: [u64; 6],
    /// The call came by the i386 table: its result has 32 bits, and a negative errno must be
    /// widened.
    pub(crate) compat: bool,
}

/// Decodes a call, if the recorder stops for it. `read` reads the program's memory, for arguments
/// that are passed by pointer.
pub(crate) fn decode(arch: u32, nr: u64, args: [u64; 6], read: impl Fn(u64, &mut [u8]) -> bool) -> Option<Decoded> {
    let compat = arch == AUDIT_COMPAT;
    let nr = nr as u32;
    if compat {
        let row = find(COMPAT, nr, &args)?;
        let native = NATIVE.iter().find(|r| r.call == row.call)?;
        let mut args = args.map(|a| a & 0xffff_ffff);
        match (row.call, nr) {
            (Call::Mmap, 90) => {
                let mut bytes = [0u8; 24];
                if !read(args[0], &mut bytes) {
                    return None;
                }
                for (arg, word) in args.iter_mut().zip(bytes.chunks_exact(4)) {
                    *arg = u64::from(u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
                }
            }
            (Call::Mmap, _) => args[5] <<= 12,
            // ipc(2): call, first, second, third, pointer, fifth.
            (Call::Shmat, 117) => args = [args[1], args[4], args[2], 0, 0, 0],
            (Call::Shmdt, 117) => args = [args[4], 0, 0, 0, 0, 0],
            _ => {}
        }
        return Some(Decoded { call: row.call, nr: native.nr, args, compat });
    }
    let plain = nr & !X32_BIT;
    let row = if nr == plain { None } else { find(X32, plain, &args) };
    let row = row.or_else(|| find(NATIVE, plain, &args))?;
    let native = NATIVE.iter().find(|r| r.call == row.call)?;
    Some(Decoded { call: row.call, nr: native.nr, args, compat })
}

fn find(table: &'static [Row], nr: u32, args: &[u64; 6]) -> Option<&'static Row> {
    table.iter().find(|row| {
        row.nr == nr
            && match row.when {
                When::Always => true,
                When::Is(arg, values) => {
                    args.get(usize::from(arg)).is_some_and(|value| values.contains(&(*value as u32)))
                }
            }
    })
}

impl Decoded {
    /// See [`Call::may_block`].
    pub(crate) fn may_block(&self) -> bool {
        self.call.may_block(&self.args)
    }

    /// See [`Call::stays_out`].
    pub(crate) fn stays_out(&self) -> bool {
        self.call.stays_out()
    }

    /// Widens a result to a value or a negative errno of 64 bits.
    pub(crate) fn widen(&self, result: i64) -> i64 {
        if !self.compat {
            return result;
        }
        let low = result as u32;
        if low > -4096i32 as u32 { i64::from(low as i32) } else { i64::from(low) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i386_calls_are_read_as_x86_64_calls() {
        let none = |_: u64, _: &mut [u8]| false;
        let d = decode(AUDIT_COMPAT, 192, [0x1000, 0x2000, 3, 0x22, u64::MAX, 5], none).unwrap();
        assert_eq!((d.call, d.nr, d.args[5], d.args[4]), (Call::Mmap, 9, 5 << 12, 0xffff_ffff));
        assert_eq!(d.widen(0xffff_fff4), -12);
        assert_eq!(d.widen(0xf7ff_0000), 0xf7ff_0000);
        assert_eq!(decode(AUDIT_COMPAT, 117, [22, 0, 0, 0, 0x5000, 0], none).unwrap().args[0], 0x5000);
        assert!(decode(AUDIT_COMPAT, 117, [3, 0, 0, 0, 0x5000, 0], none).is_none(), "ipc(semctl) is not ours");
        assert!(decode(AUDIT_COMPAT, 9, [0; 6], none).is_none(), "i386 number 9 is link");
    }

    #[test]
    fn x32_calls_are_read_as_x86_64_calls() {
        let none = |_: u64, _: &mut [u8]| false;
        assert_eq!(decode(AUDIT_NATIVE, 0x4000_0009, [0; 6], none).unwrap().call, Call::Mmap);
        assert_eq!(decode(AUDIT_NATIVE, 0x4000_0000 + 520, [0; 6], none).unwrap().nr, 59);
        assert!(decode(AUDIT_NATIVE, 520, [0; 6], none).is_none());
    }

    #[test]
    fn arguments_choose() {
        let none = |_: u64, _: &mut [u8]| false;
        assert!(decode(AUDIT_NATIVE, 16, [3, 0x5401, 0, 0, 0, 0], none).is_none(), "TCGETS");
        assert_eq!(decode(AUDIT_NATIVE, 16, [3, 0xc020_aa00, 0, 0, 0, 0], none).unwrap().call, Call::UffdRegister);
        assert!(decode(AUDIT_NATIVE, 157, [15, 0, 0, 0, 0, 0], none).is_none(), "PR_SET_NAME");
    }
}
