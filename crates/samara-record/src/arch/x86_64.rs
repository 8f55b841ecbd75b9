//! x86-64 Linux: the numbers of its three call tables (x86-64, x32, i386), and the registers of
//! arguments and results.
//!
//! An i386 call (a 32-bit program, or `int 0x80`) is translated to the x86-64 call of the same
//! meaning. So the rest of the crate and the trace know only one table. x32 numbers are x86-64
//! numbers with one more bit set.

use samara_trace::calls::{Abi, Call, IPC, Number, When, count, numbers};

/// `AUDIT_ARCH_X86_64`: calls by the `syscall` instruction, x32 included.
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

/// Offset of the stack pointer.
pub(crate) const STACK_OFFSET: usize = std::mem::offset_of!(libc::user_regs_struct, rsp);

/// Offset of the frame pointer.
pub(crate) const FRAME_OFFSET: usize = std::mem::offset_of!(libc::user_regs_struct, rbp);

/// The registers that a perf event copies, by their bits: frame pointer, stack pointer and place,
/// in this order.
pub(crate) const PERF_REGISTERS: u64 = 1 << 6 | 1 << 7 | 1 << 8;

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

/// Whether this number is `exit`, which ends one thread, in this table.
pub(crate) fn is_thread_exit(table: u32, nr: u32) -> bool {
    const COMPAT_EXIT: u32 = 1;
    if table == AUDIT_NATIVE { nr & !X32_BIT == libc::SYS_exit as u32 } else { nr == COMPAT_EXIT }
}

/// The x86-64 table.
pub(crate) const NATIVE: &[Number] = &numbers::<{ count(Abi::Native) }>(Abi::Native);

/// Calls whose x32 number is not the x86-64 number with the bit set.
pub(crate) const X32: &[Number] = &numbers::<{ count(Abi::X32) }>(Abi::X32);

/// The i386 table.
pub(crate) const COMPAT: &[Number] = &numbers::<{ count(Abi::Compat) }>(Abi::Compat);

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
            (Call::Shmat, IPC) => args = [args[1], args[4], args[2], 0, 0, 0],
            (Call::Shmdt, IPC) => args = [args[4], 0, 0, 0, 0, 0],
            _ => {}
        }
        return Some(Decoded { call: row.call, nr: row.call.row().nr, args, compat });
    }
    let plain = nr & !X32_BIT;
    let row = if nr == plain { None } else { find(X32, plain, &args) };
    let row = row.or_else(|| find(NATIVE, plain, &args))?;
    Some(Decoded { call: row.call, nr: row.call.row().nr, args, compat })
}

fn find(table: &'static [Number], nr: u32, args: &[u64; 6]) -> Option<&'static Number> {
    table.iter().find(|row| {
        row.nr == nr
            && match row.when {
                When::Always => true,
                When::Is(arg, values) => {
                    args.get(usize::from(arg)).is_some_and(|arg| values.iter().any(|value| value.0 == *arg as u32))
                }
            }
    })
}

impl Decoded {
    /// See [`Call::may_block`].
    pub(crate) fn may_block(&self) -> bool {
        self.call.may_block(&self.args)
    }

    /// The program asks for seccomp's strict mode: SECCOMP_SET_MODE_STRICT, or SECCOMP_MODE_STRICT
    /// by `prctl`.
    pub(crate) fn asks_for_strict_mode(&self) -> bool {
        match self.call {
            Call::Seccomp => self.args[0] as u32 == 0,
            Call::PrSetSeccomp => self.args[1] == 1,
            _ => false,
        }
    }

    /// Whether it has set a filter, or strict mode. Other operations ask; and a filter for all
    /// threads that one of them cannot take gives the number of that one (seccomp(2)).
    pub(crate) fn has_set_filter(&self, result: i64) -> bool {
        const SET_MODE_STRICT: u64 = 0;
        const SET_MODE_FILTER: u64 = 1;
        match (self.call, self.args[0]) {
            (Call::Seccomp, SET_MODE_FILTER) if result > 0 => {
                self.args[1] & libc::SECCOMP_FILTER_FLAG_NEW_LISTENER != 0
            }
            (Call::Seccomp, SET_MODE_STRICT | SET_MODE_FILTER) | (Call::PrSetSeccomp, _) => result == 0,
            _ => false,
        }
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
        let sealed = decode(AUDIT_COMPAT, 462, [0x5000, 0x1000, 0, 0, 0, 0], none).unwrap();
        assert_eq!((sealed.call, sealed.nr, sealed.args[1]), (Call::Mseal, 462, 0x1000));
    }

    #[test]
    fn x32_calls_are_read_as_x86_64_calls() {
        let none = |_: u64, _: &mut [u8]| false;
        assert_eq!(decode(AUDIT_NATIVE, 0x4000_0009, [0; 6], none).unwrap().call, Call::Mmap);
        assert_eq!(decode(AUDIT_NATIVE, 0x4000_0000 + 520, [0; 6], none).unwrap().nr, 59);
        assert!(decode(AUDIT_NATIVE, 520, [0; 6], none).is_none());
    }

    #[test]
    fn ends_of_threads_and_filters_are_known() {
        assert!(is_thread_exit(AUDIT_NATIVE, 60) && is_thread_exit(AUDIT_NATIVE, X32_BIT | 60));
        assert!(!is_thread_exit(AUDIT_NATIVE, 1), "write");
        assert!(is_thread_exit(AUDIT_COMPAT, 1) && !is_thread_exit(AUDIT_COMPAT, 60));
        let set = |op, flags, result| {
            let call = decode(AUDIT_NATIVE, 317, [op, flags, 0, 0, 0, 0], |_, _| false).unwrap();
            call.has_set_filter(result)
        };
        let (tsync, listener) = (libc::SECCOMP_FILTER_FLAG_TSYNC, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
        assert!(set(0, 0, 0) && set(1, tsync, 0) && set(1, listener, 5));
        assert!(!set(1, tsync, 4711), "the number of a thread that cannot take it");
        assert!(!set(1, 0, -22) && !set(2, 0, 0), "refused; SECCOMP_GET_ACTION_AVAIL");
    }

    #[test]
    fn arguments_choose() {
        let none = |_: u64, _: &mut [u8]| false;
        assert!(decode(AUDIT_NATIVE, 16, [3, 0x5401, 0, 0, 0, 0], none).is_none(), "TCGETS");
        assert_eq!(decode(AUDIT_NATIVE, 16, [3, 0xc020_aa00, 0, 0, 0, 0], none).unwrap().call, Call::UffdRegister);
        assert!(decode(AUDIT_NATIVE, 157, [15, 0, 0, 0, 0, 0], none).is_none(), "PR_SET_NAME");
    }
}
