//! Makes a call on the model as the kernel answered it: through `samara_mm::linux`, with arguments,
//! a host and a placement that reproduce the kernel's result.
//!
//! It knows no rules of calls. Neighbours: `apply` chooses the calls to replay; `memory` has the
//! memory that the call read.
//!
//! - **REPLAY-CALL-1** the model chooses no place: the address that the kernel returned is put into
//!   the arguments as a fixed one.

use samara_mm::linux::{self, Host, OpenFile};
use samara_mm::{AddressSpace, Errno, Error, MapFlags, Placement, Plan, RemapFlags, Want};
use samara_trace::calls::Call;

use crate::arch::Decoded;
use crate::space::host::Program;
use crate::space::memory::Memory;
use crate::space::model::{Inode, Model};

/// The object that a call mapped, and the offset in it.
pub(crate) struct Mapped {
    pub(crate) file: OpenFile<Inode>,
    pub(crate) offset: u64,
}

/// The outcome of a replayed call.
pub(crate) struct Replayed {
    /// The model's steps, or its reason to refuse.
    pub(crate) done: Result<Plan, Error>,
    /// The model's raw result.
    pub(crate) result: i64,
}

/// The environment as the call saw it.
struct Seen<'a> {
    program: Program,
    mapped: Option<&'a Mapped>,
}

impl Host<Inode> for Seen<'_> {
    fn file(&mut self, _fd: i32) -> Result<OpenFile<Inode>, Errno> {
        self.mapped.map(|mapped| mapped.file.clone()).ok_or(Errno::EBADF)
    }

    fn shared_memory(&mut self, _bytes: u64) -> Result<Inode, Errno> {
        self.file(-1).map(|file| file.backing)
    }

    fn huge_memory(&mut self, _page: Option<samara_mm::PageSize>) -> Result<Inode, Errno> {
        self.file(-1).map(|file| file.backing)
    }

    fn read(&mut self, addr: u64, to: &mut [u8]) -> Result<(), Errno> {
        self.program.read(addr, to)
    }

    fn is_self(&mut self, pidfd: i32) -> Result<bool, Errno> {
        self.program.is_self(pidfd)
    }

    fn nodes(&self) -> &[u64] {
        self.program.nodes()
    }

    /// The kernel refuses a key that is not allocated.
    fn pkey(&mut self, _key: u32) -> bool {
        true
    }
}

/// REPLAY-CALL-1: no place is chosen.
struct Nowhere;

impl Placement<Inode> for Nowhere {
    fn place(&mut self, _space: &AddressSpace<Inode>, _want: &Want) -> Option<u64> {
        None
    }
}

/// Makes the call on the model. `mapped`: the object that the kernel mapped, unless it is private
/// anonymous memory.
pub(crate) fn replay(
    model: &mut Model,
    memory: &Memory,
    mapped: Option<&Mapped>,
    d: &Decoded,
    result: i64,
) -> Replayed {
    let args = as_answered(d, result, mapped.map(|mapped| mapped.offset));
    replay_at(model, memory, mapped, &Decoded { args, ..*d }, result, &mut Nowhere)
}

/// Makes the call on the model with its own arguments. `placement` chooses the places that they
/// leave open.
pub(crate) fn replay_at(
    model: &mut Model,
    memory: &Memory,
    mapped: Option<&Mapped>,
    d: &Decoded,
    result: i64,
    placement: &mut impl Placement<Inode>,
) -> Replayed {
    let mut host = Seen { program: Program::seen(memory.clone()), mapped };
    let Some(called) = linux::call(model, &mut host, placement, d.nr.into(), d.args) else {
        return Replayed { done: Ok(Plan::default()), result }; // it does not act on this space
    };
    let done = match errno(called.result) {
        Some(errno) => Err(Error { errno, done: called.plan }),
        None => Ok(called.plan),
    };
    Replayed { done, result: called.result }
}

/// The arguments, changed so that the call gets the place that the kernel gave it.
fn as_answered(d: &Decoded, result: i64, offset: Option<u64>) -> [u64; 6] {
    let mut args = d.args;
    let moves = (RemapFlags::FIXED | RemapFlags::DONTUNMAP).bits();
    match d.call {
        Call::Mmap => {
            let asked = MapFlags::from_bits_retain(args[3] as u32);
            let flags = (asked - MapFlags::FIXED_NOREPLACE) | MapFlags::FIXED;
            (args[0], args[3]) = (result as u64, flags.bits().into());
            args[5] = offset.unwrap_or(0);
        }
        Call::Mremap if args[3] & RemapFlags::FIXED.bits() != 0 => {}
        Call::Mremap if result < 0 || (result as u64 == args[0] && args[3] & moves == 0) => {
            args[3] &= !RemapFlags::MAYMOVE.bits();
        }
        Call::Mremap => {
            args[3] |= RemapFlags::FIXED.bits();
            args[4] = result as u64;
        }
        _ => {}
    }
    args
}

/// The error that a raw result stands for, if the kernel can return it.
pub(super) fn errno(result: i64) -> Option<Errno> {
    let number = i32::try_from(result.checked_neg()?).ok()?;
    Errno::from_raw(number).filter(|errno| *errno != Errno::ETIMEDOUT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::{AUDIT_NATIVE, decode};

    fn answered(nr: u64, args: [u64; 6], result: i64) -> [u64; 6] {
        as_answered(&decode(AUDIT_NATIVE, nr, args, |_, _| false).unwrap(), result, None)
    }

    #[test]
    fn the_returned_address_is_a_fixed_one() {
        // MAP_PRIVATE|MAP_ANONYMOUS, and with MAP_FIXED_NOREPLACE.
        for flags in [0x22, 0x10_0022] {
            let args = answered(linux::MMAP, [0x5000, 0x1000, 3, flags, u64::MAX, 0], 0x9000);
            assert_eq!(args, [0x9000, 0x1000, 3, 0x32, u64::MAX, 0]);
        }
        let moved = answered(linux::MREMAP, [0x5000, 0x1000, 0x2000, 1, 0, 0], 0x9000);
        assert_eq!(moved, [0x5000, 0x1000, 0x2000, 3, 0x9000, 0]);
        let stayed = answered(linux::MREMAP, [0x5000, 0x1000, 0x2000, 1, 0, 0], 0x5000);
        assert_eq!(stayed, [0x5000, 0x1000, 0x2000, 0, 0, 0]);
        let refused = answered(linux::MREMAP, [0x5000, 0x1000, 0x2000, 1, 0, 0], -12);
        assert_eq!(refused, [0x5000, 0x1000, 0x2000, 0, 0, 0]);
        let fixed = [0x5000, 0x1000, 0x2000, 3, 0x9000, 0];
        assert_eq!(answered(linux::MREMAP, fixed, -12), fixed);
        assert_eq!(answered(linux::MREMAP, fixed, 0x9000), fixed);
    }

    #[test]
    fn every_error_of_the_model_is_read_back() {
        let found: Vec<i64> = (-5000..5000).filter(|result| errno(*result).is_some()).map(|result| -result).collect();
        assert_eq!(found, [95, 75, 43, 38, 36, 26, 22, 19, 17, 16, 14, 13, 12, 11, 9, 7, 3, 2, 1]);
        assert_eq!(errno(-12), Some(Errno::ENOMEM));
    }
}
