//! What one thread does to a family of spaces, and how it fails.

use crate::failing_alloc::{fail_after, fail_no_more};
use crate::family::{Family, PAGES};
use crate::file::File;
use crate::of_spaces::Space;
use crate::rng::Rng;
use crate::world::{ARENA, Answer, Call, PAGE};
use samara_mm::{
    Access, AddressSpace, Config, Errno, Error, FaultError, Linux, MapRequest, Occupied, Placement, Plan, Prot, Want,
};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// What `apply` and others refuse with. No call answers this by itself.
const REFUSAL: Errno = Errno::E2BIG;

/// What `apply` and others panic with.
struct Meant;

/// What came of all calls.
#[derive(Default)]
pub(crate) struct Counts {
    tried: u64,
    without_memory: u64,
    refused: u64,
    panicked: u64,
    late: u64,
    held: u64,
    forked: u64,
    ended: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, more: &Counts) {
        self.tried += more.tried;
        self.without_memory += more.without_memory;
        self.refused += more.refused;
        self.panicked += more.panicked;
        self.late += more.late;
        self.held += more.held;
        self.forked += more.forked;
        self.ended += more.ended;
    }

    /// Whether everything that may happen has happened often.
    pub(crate) fn met_all(&self) -> bool {
        let Counts { without_memory, refused, panicked, late, held, forked, ended, .. } = *self;
        [without_memory, refused, panicked, late, held, forked, ended].iter().all(|n| *n > 100)
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counts { tried, without_memory, refused, panicked, late, held, forked, ended } = self;
        write!(f, "{tried} calls ({without_memory} without memory, {refused} refused, {panicked} panicked, ")?;
        write!(f, "{late} too late), {held} guards held, {forked} forks, {ended} spaces ended")
    }
}

/// The thread's random choices, and its counts.
struct Thread {
    r: Rng,
    counts: Counts,
}

/// What an embedder's code does in the middle of a call.
fn foreign(r: &mut Rng) -> Result<(), Errno> {
    match r.below(12) {
        0 => return Err(REFUSAL),
        1 => {
            fail_no_more(); // a panic takes memory
            resume_unwind(Box::new(Meant));
        }
        2 => thread::sleep(Duration::from_micros(20)),
        3..=5 => thread::yield_now(),
        _ => {}
    }
    Ok(())
}

/// Linux's placement, which may panic.
struct Panicking(Rng);

impl Placement<File> for Panicking {
    fn place(&mut self, space: &AddressSpace<File>, want: &Want) -> Option<u64> {
        foreign(&mut self.0).ok()?;
        Linux.place(space, want)
    }

    fn place_among(&mut self, areas: &dyn Occupied, config: &Config, want: &Want) -> Option<u64> {
        foreign(&mut self.0).ok()?;
        Placement::<File>::place_among(&mut Linux, areas, config, want)
    }
}

impl Thread {
    /// Runs `act`, now and then with little memory. `None`: it panicked, as it was meant to.
    fn attempt<T>(&mut self, act: impl FnOnce() -> T) -> Option<T> {
        let allowed = if self.r.one_in(3) { self.r.below(20) as u32 } else { u32::MAX };
        let (done, asked) = fail_after(allowed, || catch_unwind(AssertUnwindSafe(act)));
        self.counts.tried += 1;
        self.counts.without_memory += u64::from(asked > allowed);
        match done {
            Ok(done) => Some(done),
            Err(payload) => {
                assert!(payload.is::<Meant>(), "a panic that was not meant");
                self.counts.panicked += 1;
                None
            }
        }
    }

    fn judge<T>(&mut self, done: &Result<T, Error>, timeout: Option<Duration>) {
        let Err(error) = done else { return };
        self.counts.refused += u64::from(error.errno == REFUSAL);
        if error.errno == Errno::ETIMEDOUT {
            assert!(timeout.is_some(), "too late, without a timeout");
            self.counts.late += 1;
        }
    }

    /// Some calls by one caller.
    fn calls(&mut self, space: &Space) {
        let mut of_apply = Rng(self.r.next());
        let mut caller = space.caller_with(move |_: &Plan| foreign(&mut of_apply));
        let timeout = self.r.pick(&[None, None, Some(0), Some(3), Some(50)]).map(Duration::from_micros);
        if let Some(timeout) = timeout {
            caller = caller.timeout(timeout);
        }
        if self.r.one_in(2) {
            caller = caller.brief();
        }
        let Some(Ok(mut faulter)) = self.attempt(|| space.try_faulter()) else { return };
        for _ in 0..self.r.below(6) {
            let (at, len) = (ARENA + self.r.below(PAGES) * PAGE, (1 + self.r.below(6)) * PAGE);
            let mut of_call = Rng(self.r.next());
            match self.r.below(10) {
                0 => {
                    let image = <File as crate::world::Numbered>::numbered(self.r.below(3));
                    let image = image.library(self.r.one_in(2).then_some(at / PAGE));
                    if let Some(done) = self.attempt(|| caller.map_image(&image, &mut Panicking(of_call))) {
                        self.judge(&done, timeout);
                    }
                }
                1 => {
                    let request = MapRequest::anonymous(0, len, Prot::RW);
                    if let Some(done) = self.attempt(|| caller.mmap(&request, &mut Panicking(of_call))) {
                        self.judge(&done, timeout);
                    }
                }
                2 => {
                    // What it did before it fails stays, if it does not panic.
                    let change = |space: &mut AddressSpace<File>| {
                        let plan = space.protect(at, len, Prot::READ, None)?;
                        match foreign(&mut of_call) {
                            Ok(()) => Ok(((), plan)),
                            Err(errno) => Err(Error { errno, done: plan }),
                        }
                    };
                    if let Some(done) = self.attempt(|| caller.exclusive(change)) {
                        self.judge(&done, timeout);
                    }
                }
                kind => {
                    let random = if kind < 6 { Call::searching } else { Call::random };
                    let call: Call<File> = random(&mut self.r, PAGES);
                    match self.attempt(|| call.on_shared(&mut caller, &mut faulter)) {
                        Some(Answer::Done(done)) => self.judge(&done, timeout),
                        Some(Answer::Fault(done)) => assert_ne!(done, Err(FaultError::Changing)),
                        None => {}
                    }
                }
            }
        }
    }

    /// Holds a fault's guard, or that of a range, and sees that its areas stay.
    fn hold(&mut self, space: &Space) {
        let Some(Ok(mut faulter)) = self.attempt(|| space.try_faulter()) else { return };
        let (at, len) = (ARENA + self.r.below(PAGES) * PAGE, (1 + self.r.below(4)) * PAGE);
        let access = self.r.pick(&[Access::Read, Access::Write]);
        let wait = self.r.pick(&[0, 5, 100]);
        let maps = || space.maps();
        if self.r.one_in(2) {
            let Some(Ok(guard)) = self.attempt(|| faulter.fault(at, access)) else { return };
            thread::sleep(Duration::from_micros(wait));
            let seen = maps().area_at(at).map(|(start, end, area)| (start, end, area.flags));
            assert_eq!(seen, Some((guard.start(), guard.end(), guard.flags())));
        } else {
            let Some(Ok(range)) = self.attempt(|| faulter.fault_range(at, len, access)) else { return };
            let kept: Vec<_> = range.areas().map(|(start, end, area)| (start, end, area.flags)).collect();
            thread::sleep(Duration::from_micros(wait));
            let maps = maps();
            let seen = maps.areas_in(at, at + len).map(|(start, end, area)| (start, end, area.flags));
            assert!(seen.eq(kept), "a range changed that is held");
        }
        self.counts.held += 1;
    }

    /// A child, which joins the family, or ends after some calls.
    fn fork(&mut self, family: &Family, space: &Space) {
        let mut of_also = Rng(self.r.next());
        let eager = self.r.one_in(4);
        let child = self.attempt(|| {
            if eager { space.fork_eager() } else { space.fork_with(|| foreign(&mut of_also)).map(|(child, ())| child) }
        });
        let Some(Ok(child)) = child else { return };
        self.counts.forked += 1;
        if self.r.one_in(2) {
            self.calls(&child);
            child.check().unwrap();
            self.end(child);
        } else if let Some(space) = family.add(&mut self.r, child) {
            self.leave(space);
        }
    }

    /// Puts another program in the place of what a space maps.
    fn exec(&mut self, space: &Space) {
        let Some(Ok(mut program)) = self.attempt(|| space.snapshot()) else { return };
        for _ in 0..3 {
            Call::random(&mut self.r, PAGES).on_space(&mut program);
        }
        let mut of_apply = Rng(self.r.next());
        let mut caller = space.caller_with(move |_: &Plan| foreign(&mut of_apply));
        if let Some(done) = self.attempt(|| caller.replace(program)) {
            self.judge(&done, None);
        }
    }

    /// Ends a space that has no other owner.
    fn end(&mut self, space: Space) {
        self.counts.ended += 1;
        match self.r.below(3) {
            0 => drop(self.attempt(|| space.exit())),
            1 => drop(self.attempt(|| drop(space.into_space()))),
            _ => drop(self.attempt(|| drop(space))),
        }
    }

    /// Leaves a space. It ends if this thread is the last one that has it.
    fn leave(&mut self, space: Arc<Space>) {
        if let Some(space) = Arc::into_inner(space) {
            self.end(space);
        }
    }
}

/// Random steps of one thread.
pub(crate) fn work(family: &Family, r: Rng, steps: u64) -> Counts {
    let mut thread = Thread { r, counts: Counts::default() };
    for step in 0..steps {
        let space = family.any(&mut thread.r);
        if step == 0 {
            // Registers this thread as a reader, which takes memory.
            drop(space.maps());
        }
        match thread.r.below(16) {
            0 => thread.fork(family, &space),
            1 => {
                if let Some(space) = family.remove(&mut thread.r) {
                    thread.leave(space);
                }
            }
            2 => thread.exec(&space),
            3..=5 => thread.hold(&space),
            _ => thread.calls(&space),
        }
        thread.leave(space);
    }
    thread.counts
}
