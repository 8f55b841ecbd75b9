//! samara-mm's `SharedAddressSpace`.

use crate::spaces::rwlock::{Number, config, limits};
use crate::spaces::space::{Allocate, Apply, Fork, HEAP, Space, Thread};
use samara_mm::{
    Access, AddressSpace, Caller, Caps, Errno, Faulter, FencedDomain, Layout, Linux, MapRequest, Plan, Prot,
    SharedAddressSpace, Sleep,
};
use std::cell::Cell;
use std::fmt;
use std::hint::black_box;
use std::rc::Rc;

/// A shared space. `BRIEF`: its threads say that they apply plans briefly, where that takes no
/// time.
#[derive(Debug)]
pub struct Samara<const BRIEF: bool = false>(SharedAddressSpace<Number>);

/// The embedder's work for each plan.
type Applies<'s> = Box<dyn FnMut(&Plan) -> Result<(), Errno> + 's>;

/// A thread's access to a shared space: its registrations.
pub struct SamaraThread<'s> {
    space: &'s SharedAddressSpace<Number>,
    faulter: Faulter<'s, Number, FencedDomain, Sleep>,
    caller: Caller<'s, Number, FencedDomain, Sleep, Applies<'s>>,
    /// The caller where applying takes no time.
    brief: Option<Caller<'s, Number, FencedDomain, Sleep, Applies<'s>>>,
    /// The embedder's handling of plans.
    apply: Rc<Cell<Apply>>,
}

impl fmt::Debug for SamaraThread<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SamaraThread").finish_non_exhaustive()
    }
}

impl<const BRIEF: bool> Space for Samara<BRIEF> {
    const FORKS: &'static [Fork] = &[Fork::Snapshot, Fork::Dup];
    type Thread<'a> = SamaraThread<'a>;

    fn empty() -> Self {
        let mut space = AddressSpace::new(config());
        space.set_limits(limits());
        space.set_caps(Caps::empty());
        space.set_layout(Layout { start_brk: HEAP, brk: HEAP, start_stack: 0, data: 0 });
        Samara(SharedAddressSpace::from_space(space, FencedDomain::new()).expect("writes are told"))
    }
    fn thread(&self) -> SamaraThread<'_> {
        let apply = Rc::new(Cell::new(Apply::NOTHING));
        let caller = || {
            let applied = apply.clone();
            let applies: Applies<'_> = Box::new(move |_| {
                applied.get().run();
                Ok(())
            });
            self.0.caller_with(applies)
        };
        let (caller, brief) = (caller(), BRIEF.then(|| caller().brief()));
        SamaraThread { space: &self.0, faulter: self.0.faulter(), caller, brief, apply }
    }
    fn fork(&self, how: Fork) -> Self {
        let child = if how == Fork::Snapshot { self.0.fork() } else { self.0.fork_eager() };
        Samara(child.expect("memory for a child"))
    }
    fn check(&self) {
        self.0.check().expect("a space as it should be");
    }
}

impl<'s> SamaraThread<'s> {
    /// The caller for plans that are applied like this.
    fn caller(&mut self, apply: Apply) -> &mut Caller<'s, Number, FencedDomain, Sleep, Applies<'s>> {
        self.apply.set(apply);
        match &mut self.brief {
            Some(brief) if apply.0.is_zero() => brief,
            _ => &mut self.caller,
        }
    }
}

impl Thread for SamaraThread<'_> {
    #[inline]
    fn fault(&mut self, addr: u64, write: bool) -> u64 {
        let access = if write { Access::Write } else { Access::Read };
        self.faulter.fault(addr, access).map_or(0, |guard| black_box(guard.start()))
    }
    fn map_fixed(&mut self, start: u64, len: u64, apply: Apply) -> bool {
        self.caller(apply).map(&MapRequest::anonymous(start, len, Prot::RW)).is_ok()
    }
    fn unmap(&mut self, start: u64, len: u64, apply: Apply) -> bool {
        self.caller(apply).unmap(start, len).is_ok()
    }
    fn brk(&mut self, to: u64) -> u64 {
        // The system call returns the break; a moved break equals the request.
        if self.caller(Apply::NOTHING).brk(to).is_ok() {
            to
        } else {
            self.space.snapshot().map_or(0, |space| space.layout().brk)
        }
    }
    fn read_all(&mut self, mut visit: impl FnMut(u64, u64)) {
        self.space.maps().areas_in(0, u64::MAX).for_each(|(start, end, _)| visit(start, end));
    }
}

impl Allocate for SamaraThread<'_> {
    fn allocate(&mut self, len: u64) -> u64 {
        self.caller(Apply::NOTHING)
            .mmap(&MapRequest::anonymous(0, len, Prot::RW), &mut Linux)
            .expect("room for a map")
            .0
    }
    fn make_read_only(&mut self, start: u64, len: u64) {
        self.caller(Apply::NOTHING).protect(start, len, Prot::READ, None).expect("an area to protect");
    }
}
