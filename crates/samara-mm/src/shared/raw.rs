//! Raw system calls on a shared space, and the reach of each.
//!
//! The table of `linux` says which calls name a range. The verbs of `linux` know the other
//! arguments; they run on the areas around the range, as every call does (`update`).
//!
//! - **RAW-1** While a call holds a range lock, it asks the host only for segments, keys, places
//!   and the process itself. It asks for files, new objects and the program's memory before the
//!   lock ([`Ahead`], [`map_request`]), and the host writes to that memory after it.

use crate::area::Backing;
use crate::area::flags::Prot;
use crate::calls::mremap::RemapFlags;
use crate::errno::Errno;
use crate::linux::{self, Called, ERRORS, Host, make_map, map_request};
use crate::shared::SharedAddressSpace;
use crate::shared::calls::Caller;
use crate::shared::update::Reach;
use crate::shared::wait::Wait;
use crate::space::AddressSpace;
use crate::space::error::Error;
use crate::space::place::Placement;
use crate::space::plan::Plan;
use alloc::vec::Vec;
use samara::{PinHere, Reclaim};

/// A host whose reads of the program's memory are recorded, piece by piece, and replayed in order.
struct Ahead<'h, H> {
    host: &'h mut H,
    bytes: Vec<u8>,
    /// The end of each piece in `bytes`, or why it could not be read.
    pieces: Vec<Result<usize, Errno>>,
    /// Number of pieces that were replayed. `None`: recording.
    again: Option<usize>,
}

impl<'h, H> Ahead<'h, H> {
    fn new(host: &'h mut H) -> Self {
        Ahead { host, bytes: Vec::new(), pieces: Vec::new(), again: None }
    }

    fn read_first<B>(&mut self, addr: u64, to: &mut [u8]) -> Result<(), Errno>
    where
        H: Host<B>,
    {
        self.pieces.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        self.bytes.try_reserve(to.len()).map_err(|_| Errno::ENOMEM)?;
        let read = self.host.read(addr, to);
        if read.is_ok() {
            self.bytes.extend_from_slice(to);
        }
        self.pieces.push(read.map(|()| self.bytes.len()));
        read
    }
}

/// Only what calls that read the program's memory use of a host.
impl<B: Backing, H: Host<B>> Host<B> for Ahead<'_, H> {
    fn read(&mut self, addr: u64, to: &mut [u8]) -> Result<(), Errno> {
        let Some(at) = self.again else { return self.read_first(addr, to) };
        self.again = Some(at + 1);
        let end = self.pieces.get(at).copied().unwrap_or(Err(Errno::ENOMEM))?;
        let piece = end.checked_sub(to.len()).and_then(|start| self.bytes.get(start..end)).ok_or(Errno::EFAULT)?;
        to.copy_from_slice(piece);
        Ok(())
    }

    fn is_self(&mut self, pidfd: i32) -> Result<bool, Errno> {
        self.host.is_self(pidfd)
    }

    fn nodes(&self) -> &[u64] {
        self.host.nodes()
    }
}

impl<B: Backing + Send + Sync, R: Reclaim + PinHere, W: Wait> SharedAddressSpace<B, R, W> {
    /// The reach of a call without a case of its own in `call`.
    fn reach_of_call(&self, nr: u64, &[start, len, access, ..]: &[u64; 6]) -> Reach {
        match linux::reach(nr) {
            Some(linux::SharedReach::Range) => self.reach(start, len),
            Some(linux::SharedReach::Locks) => self.growing(start, len, true),
            Some(linux::SharedReach::Protects) => {
                let reach = self.reach_of_protect(start, len, Prot::from_bits_retain(access as u32));
                Reach { may_wait: nr == linux::PKEY_MPROTECT, ..reach }
            }
            _ => Reach::WHOLE,
        }
    }
}

impl<'s, B, R, W, F> Caller<'s, B, R, W, F>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere,
    W: Wait,
    F: FnMut(&Plan) -> Result<(), Errno>,
{
    /// Makes system call `nr` of x86-64: [`linux::call`](crate::linux::call) on a shared space,
    /// with its answers. `None`: as there.
    ///
    /// It locks the same as the method for the same call: its range, as described at
    /// [`SharedAddressSpace`], or the whole space. `msync` and `mincore` lock their range.
    ///
    /// The call asks `host` for files, new objects and the program's memory before it locks
    /// anything, and lets it fill the vector of `mincore` after the lock: `host` may fault in the
    /// space then. While the range is locked, the call asks for segments, protection keys,
    /// [places](Host::huge_places) and the process itself, perhaps more than once: `host` must not
    /// make calls or fault in the space then.
    ///
    /// A call that timed out ([`timeout`](Self::timeout)), or that `apply` refuses, has not
    /// happened and returns that error number; `brk` returns the current break.
    ///
    /// ```
    /// use samara_mm::{Config, FileId, Linux, SharedAddressSpace, linux};
    ///
    /// struct NoFiles;
    /// impl linux::Host<FileId> for NoFiles {}
    ///
    /// let space = SharedAddressSpace::<FileId>::new(Config::default())?;
    /// // mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) by two threads,
    /// // and munmap of what it gave.
    /// std::thread::scope(|scope| {
    ///     for _ in 0..2 {
    ///         scope.spawn(|| {
    ///             let mut caller = space.caller();
    ///             let mut call = |nr, args| {
    ///                 caller.call(&mut NoFiles, &mut Linux, nr, args).expect("a known call").result
    ///             };
    ///             let start = call(linux::MMAP, [0, 8192, 3, 0x22, u64::MAX, 0]);
    ///             assert!(start > 0);
    ///             assert_eq!(call(linux::MUNMAP, [start as u64, 8192, 0, 0, 0, 0]), 0);
    ///         });
    ///     }
    /// });
    /// assert!(space.is_empty());
    /// # Ok::<(), samara_mm::Errno>(())
    /// ```
    pub fn call(
        &mut self,
        host: &mut impl Host<B>,
        placement: &mut impl Placement<B>,
        nr: u64,
        args: [u64; 6],
    ) -> Option<Called> {
        if !linux::is_known(nr, &args) {
            return None;
        }
        let done = match nr {
            linux::BRK => return Some(self.raw_brk(args[0])),
            linux::MMAP => self.raw_mmap(host, placement, &args),
            linux::MREMAP => {
                let [old, old_len, new_len, flags, to, _] = args;
                let mut places = |file: &B| host.huge_places(file, true);
                let flags = RemapFlags::from_bits_retain(flags);
                self.mremap_for((old, old_len), new_len, flags, to, &mut places, placement)
            }
            linux::MINCORE => self.raw_mincore(host, &args),
            _ if matches!(linux::reach(nr), Some(linux::SharedReach::Reads)) => {
                let mut ahead = Ahead::new(host);
                // The same call on an empty space reads the same memory.
                let mut nothing = AddressSpace::<B>::new(self.thread.space.config().clone());
                let _refused = linux::answer(&mut nothing, &mut ahead, placement, nr, &args)?;
                self.by_verb(placement, nr, &args, |space, placement| {
                    ahead.again = Some(0);
                    linux::answer(space, &mut ahead, placement, nr, &args)
                })?
            }
            _ => {
                self.by_verb(placement, nr, &args, |space, placement| linux::answer(space, host, placement, nr, &args))?
            }
        };
        Some(called(done))
    }

    /// Runs the call's verb on the areas within its reach. `None`: no call of this space.
    fn by_verb<P: Placement<B>>(
        &mut self,
        placement: &mut P,
        nr: u64,
        args: &[u64; 6],
        mut verb: impl FnMut(&mut AddressSpace<B>, &mut P) -> Option<Result<(u64, Plan), Error>>,
    ) -> Option<Result<(u64, Plan), Error>> {
        let mut is_ours = true;
        let done = self.ranged(
            |space| space.reach_of_call(nr, args),
            |space| {
                verb(space, placement).unwrap_or_else(|| {
                    is_ours = false;
                    Err(Errno::ENOSYS.into())
                })
            },
        );
        is_ours.then_some(done)
    }

    fn raw_mmap(
        &mut self,
        host: &mut impl Host<B>,
        placement: &mut impl Placement<B>,
        args: &[u64; 6],
    ) -> Result<(u64, Plan), Error> {
        let request = map_request(self.thread.space.config(), host, args)?;
        let mut places = |file: &B| host.huge_places(file, false);
        if request.start >= ERRORS {
            return self.whole(|space| Plan::of(|plan| make_map(space, &request, &mut places, placement, plan)));
        }
        self.mmap_for(&request, &mut places, placement)
    }

    /// A refused `brk` returns the current break.
    fn raw_brk(&mut self, new: u64) -> Called {
        let mut before = self.thread.space.current_break();
        let done = self.ranged(
            |space| space.reach_of_brk(new),
            |space| {
                before = space.layout().brk;
                space.brk(new)
            },
        );
        match done {
            Ok(plan) => Called { result: new as i64, plan },
            Err(error) => Called { result: before as i64, plan: error.done },
        }
    }

    fn raw_mincore(
        &mut self,
        host: &mut impl Host<B>,
        &[start, len, vec, ..]: &[u64; 6],
    ) -> Result<(u64, Plan), Error> {
        let mut filled = None;
        self.ranged(
            |space| space.reach(start, len),
            |space| {
                filled = Some(space.mincore(start, len, vec)?);
                Ok(Plan::new())
            },
        )?;
        let Some(filled) = filled else { return Err(Errno::EAGAIN.into()) };
        if filled.pages > 0 {
            host.incore(vec, start, filled.pages)?;
        }
        if filled.hole { Err(Errno::ENOMEM.into()) } else { Ok((0, Plan::new())) }
    }
}

/// The call's result, as the program gets it.
fn called(done: Result<(u64, Plan), Error>) -> Called {
    match done {
        Ok((value, plan)) => Called { result: value as i64, plan },
        Err(Error { errno, done }) => Called { result: -i64::from(errno.raw()), plan: done },
    }
}

impl<B: Backing + Send + Sync, R: Reclaim + PinHere, W: Wait> SharedAddressSpace<B, R, W> {
    /// [`Caller::call`].
    pub fn call(
        &self,
        host: &mut impl Host<B>,
        placement: &mut impl Placement<B>,
        nr: u64,
        args: [u64; 6],
    ) -> Option<Called> {
        self.caller().call(host, placement, nr, args)
    }
}
