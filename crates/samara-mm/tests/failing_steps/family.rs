//! A family of shared spaces that map the same files: what threads do to it, and what must hold
//! when they have ended.

use crate::file::File;
use crate::of_spaces::{Space, check};
use crate::rng::Rng;
use crate::world::{Call, Numbered, narrow, shown, space_with};
use samara_mm::{AddressSpace, Bases, Errno, FencedDomain, Plan, SharedAddressSpace};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Pages that calls are about.
pub(crate) const PAGES: u64 = 24;
/// Spaces at most.
const MOST: usize = 5;

/// The files of the family, for [`Numbered`].
static FILES: Mutex<Vec<File>> = Mutex::new(Vec::new());

impl Numbered for File {
    fn numbered(n: u64) -> Self {
        let files = FILES.lock().unwrap();
        File { open: n, ..files[n as usize % files.len()].clone() }
    }
}

pub(crate) struct Family {
    files: [File; 3],
    spaces: Mutex<Vec<Arc<Space>>>,
}

impl Family {
    /// One space, with some areas.
    pub(crate) fn new(r: &mut Rng) -> Family {
        let files = [1, 4, 32].map(File::new);
        *FILES.lock().unwrap() = files.to_vec();
        let bases = if r.one_in(2) { Bases::default() } else { narrow(r, PAGES) };
        let mut space: AddressSpace<File> = space_with(r, bases);
        for _ in 0..8 {
            Call::random(r, PAGES).on_space(&mut space);
        }
        let space = SharedAddressSpace::from_space(space, FencedDomain::new()).unwrap();
        Family { files, spaces: Mutex::new(vec![Arc::new(space)]) }
    }

    pub(crate) fn any(&self, r: &mut Rng) -> Arc<Space> {
        let spaces = self.spaces.lock().unwrap();
        Arc::clone(&spaces[r.below(spaces.len() as u64) as usize])
    }

    /// Adds a child. Returns the one that leaves for it, if there are too many.
    pub(crate) fn add(&self, r: &mut Rng, child: Space) -> Option<Arc<Space>> {
        let child = Arc::new(child);
        let mut spaces = self.spaces.lock().unwrap();
        spaces.push(child);
        (spaces.len() > MOST).then(|| spaces.swap_remove(r.below(MOST as u64) as usize))
    }

    /// Takes a space out, unless it is the last one.
    pub(crate) fn remove(&self, r: &mut Rng) -> Option<Arc<Space>> {
        let mut spaces = self.spaces.lock().unwrap();
        let at = r.below(spaces.len() as u64) as usize;
        (spaces.len() > 1).then(|| spaces.swap_remove(at))
    }

    /// Checks everything, when no thread is at work any more, and ends all spaces. `check` adds up
    /// the sums anew, and compares the maps of the files with the areas.
    pub(crate) fn settle(self, r: &mut Rng, what: &str) {
        let spaces = self.spaces.into_inner().unwrap();
        // A request that waits for none is granted everything.
        let at_once = |space: &Arc<Space>| {
            let whole = space.caller().timeout(Duration::ZERO).exclusive(|_| Ok(((), Plan::default())));
            whole.unwrap_or_else(|error| panic!("{what}: {error}"));
        };
        spaces.iter().for_each(at_once);
        let all: Vec<&Space> = spaces.iter().map(|space| &**space).collect();
        check(&self.files, &all);
        all.iter().for_each(|space| one_owner(space, r, what));
        check(&self.files, &all);
        for space in &all {
            let end = space.snapshot().unwrap().config().task_size;
            let done = space.caller().timeout(Duration::ZERO).unmap(0, end);
            assert!(done.is_ok() || done.is_err_and(|error| error.errno == Errno::EPERM), "{what}");
        }
        check(&self.files, &all);
        drop(all);
        drop(spaces);
        *FILES.lock().unwrap() = Vec::new();
        check(&self.files, &[]);
    }
}

/// From here on the space answers as one with one owner.
fn one_owner(space: &Space, r: &mut Rng, what: &str) {
    let mut one = space.snapshot().unwrap();
    let (mut caller, mut faulter) = (space.caller(), space.faulter());
    for step in 0..if cfg!(miri) { 4 } else { 30 } {
        let call = if r.one_in(3) { Call::searching(r, PAGES) } else { Call::random(r, PAGES) };
        let (a, b) = (call.on_space(&mut one), call.on_shared(&mut caller, &mut faulter));
        assert_eq!(b, a, "{what} step {step} {call:x?}\n{one}");
        assert_eq!(shown(&space.snapshot().unwrap()), shown(&one), "{what} step {step} {call:x?}");
    }
}
