//! The spaces of [`FileId`], compiled once in this library for the tests of the workspace.
//!
//! Each program compiles the generic functions that it uses, unless a library that it depends on
//! has compiled them already (in builds without optimisation). Without this module, each of some
//! twenty test programs would compile the same address space again. Feature `testing` only.

use crate::*;
use alloc::string::ToString;

type Space = AddressSpace<FileId>;

// `#[used]` makes the compiler generate the function. Nothing calls it.
#[used]
static SPACES: fn(&mut Space, &MapRequest<FileId>, &RemapRequest) -> usize = spaces;

fn spaces(space: &mut Space, map: &MapRequest<FileId>, remap: &RemapRequest) -> usize {
    let done = [
        space.map(map).is_ok(),
        space.mmap(map, &mut Linux).is_ok(),
        space.remap(remap).is_ok(),
        space.unmap(1, 2).is_ok(),
        space.brk(1).is_ok(),
        space.fault(1, Access::Write).is_ok(),
        space.fork_plan().is_ok(),
        space.advise(1, 2, Advice::Free).is_ok(),
        space.set_policy(1, 2, None).is_ok(),
        space.set_anon_name(1, 2, None).is_ok(),
        space.mincore(1, 2, 3).is_ok(),
        space.lock(1, 2, LockKind::OnFault).is_ok(),
        space.unlock(1, 2).is_ok(),
        space.lock_all(true, true, LockKind::OnFault).is_ok(),
        space.unlock_all().is_ok(),
        space.protect(1, 2, Prot::READ, None).is_ok(),
        space.seal(1, 2).is_ok(),
        space.msync(1, 2, SyncFlags::empty()).is_ok(),
        space.process_advise(&[(1, 2)], Advice::Free, true).is_ok(),
        space.remap_file_pages(1, 2, 3).is_ok(),
        space.unregister_uffd(1, 2).is_ok(),
        space.unregister_uffd_by(1, 1, 2).is_ok(),
        space.close_uffd(1).is_ok(),
        space.check().is_ok(),
        space.fork().is_ok_and(|mut child| child.map(map).is_ok()),
        space.snapshot(Config::default()).is_ok(),
    ];
    done.into_iter().map(usize::from).sum::<usize>() + space.to_string().len() + Space::new(Config::default()).len()
}

#[cfg(feature = "std")]
mod shared {
    use super::*;

    type Shared = SharedAddressSpace<FileId>;

    #[used]
    static SHARED: fn(Space, &MapRequest<FileId>, &RemapRequest) -> usize = shared;

    fn shared(space: Space, map: &MapRequest<FileId>, remap: &RemapRequest) -> usize {
        let Ok(shared) = Shared::from_space(space, FencedDomain::new()) else { return 0 };
        let done = [
            shared.map(map).is_ok(),
            shared.mmap(map, &mut Linux).is_ok(),
            shared.remap(remap).is_ok(),
            shared.unmap(1, 2).is_ok(),
            shared.brk(1).is_ok(),
            shared.advise(1, 2, Advice::Free).is_ok(),
            shared.set_anon_name(1, 2, None).is_ok(),
            shared.lock(1, 2, LockKind::OnFault).is_ok(),
            shared.unlock(1, 2).is_ok(),
            shared.lock_all(true, true, LockKind::OnFault).is_ok(),
            shared.unlock_all().is_ok(),
            shared.protect(1, 2, Prot::READ, None).is_ok(),
            shared.seal(1, 2).is_ok(),
            shared.touch(1, 2).is_ok(),
            shared.check().is_ok(),
            shared.snapshot().is_ok(),
            shared.fork().is_ok_and(|child| child.map(map).is_ok()),
            shared.fork_eager().is_ok(),
            shared.faulter().fault(1, Access::Write).is_ok(),
            shared.holders(1).is_ok(),
        ];
        done.into_iter().map(usize::from).sum::<usize>() + shared.into_space().map_or(0, |space| space.len())
    }
}
