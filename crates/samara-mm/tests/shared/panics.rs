//! A backing whose `clone` panics, at each place of each call where it is cloned: the call has
//! happened as a whole or not at all (but for those of several stores), and the space stays usable.

use crate::file::{File, ON_CLONE};
use samara_mm::*;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

const PAGE: u64 = 0x1000;
const BASE: u64 = 0x1000_0000;
const FAR: u64 = 0x2000_0000;
/// Between areas of the file.
const HEAP: u64 = BASE + 0x40_0000;

thread_local! {
    /// Clones until one panics; `None`: none does.
    static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
}

fn count_down() {
    if LEFT.get() == Some(0) {
        // What unwinds may clone.
        LEFT.set(None);
        resume_unwind(Box::new("clone"));
    }
    LEFT.set(LEFT.get().map(|left| left - 1));
}

type Space = SharedAddressSpace<File>;

fn private(file: &File, at: u64, pages: u64, offset: u64) -> MapRequest<File> {
    MapRequest::file(at, pages * PAGE, Prot::RW, MapFlags::PRIVATE, file.clone(), offset)
}

/// A space with areas of the file around [`BASE`], and one far away.
fn filled(file: &File) -> Space {
    let space = Space::new(Config::default()).unwrap();
    for n in 0..40 {
        space.map(&private(file, BASE + n * 8 * PAGE, 4, n * 8 * PAGE)).unwrap();
    }
    for n in [0, 8, 16, 24, 32] {
        space.map(&private(file, FAR + n * PAGE, 4, 0)).unwrap();
    }
    let layout = Layout { start_brk: HEAP, brk: HEAP, ..Layout::default() };
    space
        .exclusive(|space| {
            space.set_layout(layout);
            Ok(((), Plan::default()))
        })
        .unwrap();
    // A heap of many areas.
    space.brk(HEAP + 61 * PAGE).unwrap();
    for n in 0..30 {
        space.protect(HEAP + 2 * n * PAGE, PAGE, Prot::READ, None).unwrap();
    }
    space
}

/// Calls of several stores: some of them may be left.
const SEVERAL: [&str; 2] = ["mremap", "map_image"];

/// Makes `call` with each of its first clones panicking once, and of the later ones every seventh
/// (with the feature `long`: each). Returns how many that were, or a little more.
fn each_clone_panics(name: &str, family: bool, call: impl Fn(&Space, &File)) -> u32 {
    let mut outcome = String::new();
    let next = |n: &u32| Some(n + if cfg!(feature = "long") || *n < 12 { 1 } else { 7 });
    for n in std::iter::successors(Some(0), next).map(|n: u32| n.checked_sub(1)) {
        let file = File::new(4);
        let parent = filled(&file);
        let space = if family { parent.fork().unwrap() } else { filled(&file) };
        let before = space.to_string();
        ON_CLONE.set(Some(count_down));
        LEFT.set(n);
        let done = catch_unwind(AssertUnwindSafe(|| call(&space, &file))).is_ok();
        LEFT.set(None);
        let after = space.to_string();
        match n {
            // No clone panics: this is the outcome.
            None => outcome.clone_from(&after),
            _ if SEVERAL.contains(&name) => {}
            _ => assert!(after == before || after == outcome, "{name}: clone {n:?}\n{before}{after}"),
        }
        // Another thread gets every range in time.
        let other = || {
            let mut caller = space.caller().timeout(Duration::from_secs(600));
            for at in [BASE, FAR, FAR + 64 * PAGE] {
                caller.protect(at, PAGE, Prot::READ, None).or_else(|error| match error.errno {
                    Errno::ENOMEM => Ok(Plan::default()),
                    _ => Err(error),
                })?;
            }
            let mut faulter = space.faulter();
            assert!(faulter.try_fault(FAR, Access::Read).is_ok() || done);
            caller.exclusive(|space| Ok((space.len(), Plan::default())))
        };
        let len = std::thread::scope(|scope| scope.spawn(other).join().unwrap());
        assert_eq!(len.map_err(|error| error.errno), Ok(space.len()), "{name}: clone {n:?}");
        space.check().unwrap_or_else(|violation| panic!("{name}: clone {n:?}: {violation}"));
        parent.check().unwrap();
        let brk = space.snapshot().unwrap().layout().brk;
        assert_eq!(after.contains("[heap]"), brk > HEAP, "{name}: clone {n:?}");
        // A child that did not come to be has left nothing.
        let numbers = [space.number(), parent.number()];
        let mapped = file.map.mapped(0..=u64::MAX).unwrap();
        assert!(mapped.iter().all(|mapped| numbers.contains(&mapped.space)), "{name}: clone {n:?}");
        drop(space);
        drop(parent);
        assert!(!file.map.is_mapped(0..=u64::MAX), "{name}: clone {n:?}");
        if let Some(n) = n.filter(|_| done) {
            return n;
        }
    }
    unreachable!("a call ends")
}

type Call = (&'static str, fn(&Space, &File));

#[test]
fn a_clone_that_panics_leaves_the_space_as_it_was() {
    let calls: &[Call] = &[
        ("map", |space, file| drop(space.map(&private(file, BASE + 4 * PAGE, 4, 4 * PAGE)))),
        ("map over", |space, file| drop(space.map(&private(file, BASE + 2 * PAGE, 17, 0)))),
        ("unmap", |space, _| drop(space.unmap(BASE + PAGE, PAGE))),
        ("unmap many", |space, _| drop(space.unmap(BASE + PAGE, 200 * PAGE))),
        ("protect", |space, _| drop(space.protect(BASE + PAGE, PAGE, Prot::READ, None))),
        ("advise", |space, _| drop(space.advise(BASE + PAGE, PAGE, Advice::DontFork))),
        ("lock_all", |space, _| drop(space.lock_all(true, true, LockKind::OnFault))),
        ("policy", |space, _| {
            drop(space.set_policy(BASE, PAGE, Some(Policy { mode: 1, nodes: [1; Policy::WORDS], home: None })))
        }),
        ("mremap", |space, _| {
            let flags = RemapFlags::MAYMOVE | RemapFlags::FIXED;
            drop(space.mremap((BASE + PAGE, 2 * PAGE), 2 * PAGE, flags, FAR + 64 * PAGE, &mut Linux));
        }),
        ("mremap whole", |space, _| {
            let flags = RemapFlags::MAYMOVE | RemapFlags::DONTUNMAP;
            drop(space.mremap((BASE, 4 * PAGE), 4 * PAGE, flags, 0, &mut Linux));
        }),
        ("brk", |space, _| drop(space.brk(HEAP + 63 * PAGE))),
        ("brk back", |space, _| drop(space.brk(HEAP))),
        ("grow", |space, _| drop(space.mremap((BASE, 4 * PAGE), 6 * PAGE, RemapFlags::empty(), 0, &mut Linux))),
        ("fault", |space, _| assert!(space.faulter().fault(BASE, Access::Write).is_ok())),
        ("area", |space, _| {
            assert!(space.faulter().fault(FAR, Access::Read).is_ok_and(|guard| guard.area().is_some()))
        }),
        ("fork", |space, _| drop(space.fork())),
        ("fork eager", |space, _| drop(space.fork_eager())),
        ("snapshot", |space, _| drop(space.snapshot())),
        ("text", |space, _| drop(space.to_string())),
        ("map_image", |space, file| {
            let segment = |addr| ImageSegment { addr, len: PAGE, offset: addr, file_len: PAGE, prot: Prot::READ };
            let (segments, backing) = (vec![segment(0), segment(2 * PAGE), segment(3 * PAGE)], file.clone());
            let image = Image { start: FAR + 64 * PAGE, fixed: true, backing, mode: FileMode::READ, segments };
            drop(space.map_image(&image, &mut Linux));
        }),
    ];
    for family in [false, true] {
        let counts: Vec<_> = calls.iter().map(|(name, call)| (*name, each_clone_panics(name, family, call))).collect();
        println!("clones that panicked, family {family}: {counts:?}");
        let reads = ["fork", "snapshot", "text", "area"];
        assert!(
            counts.iter().all(|(name, n)| *n > 0 || reads.contains(name)),
            "a call that clones nothing tests nothing"
        );
    }
}

/// A file that has no reverse map, so that calls run in one leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Unlinked(File);

impl Backing for Unlinked {
    fn dev(&self) -> (u32, u32) {
        self.0.dev()
    }
    fn inode(&self) -> u64 {
        self.0.inode()
    }
    fn name(&self) -> &str {
        self.0.name()
    }
}

/// Where a change splits a leaf, a clone that panics leaves the areas beside it as they were.
#[test]
fn areas_beside_a_leaf_that_splits() {
    let file = Unlinked(File::new(4));
    let at = |n: u64| BASE + n * 64 * PAGE;
    let n = 69;
    for clones in 0.. {
        let mut one = AddressSpace::<Unlinked>::new(Config::default());
        for n in 0..200 {
            let request = MapRequest::file(at(n), 4 * PAGE, Prot::RW, MapFlags::PRIVATE, file.clone(), n * 64 * PAGE);
            one.map(&request).unwrap();
        }
        let space: SharedAddressSpace<Unlinked> = SharedAddressSpace::from_space(one, FencedDomain::new()).unwrap();
        let mut applying = space.caller_with(|_| Ok(()));
        applying.unmap(at(0), PAGE).unwrap(); // so that it has what calls in one leaf need
        ON_CLONE.set(Some(count_down));
        LEFT.set(Some(clones));
        let call = || applying.protect(at(n) + PAGE, PAGE, Prot::READ, None).map(|_| ());
        let done = catch_unwind(AssertUnwindSafe(call)).is_ok();
        LEFT.set(None);
        space.check().unwrap();
        let end = space.snapshot().unwrap();
        for n in (1..200).filter(|other| *other != n) {
            let area = end.area_at(at(n)).map(|area| (area.start, area.end));
            assert_eq!(area, Some((at(n), at(n) + 4 * PAGE)), "clone {clones}");
        }
        if done {
            assert!(clones > 29 && end.len() == 202, "it splits a leaf");
            return;
        }
    }
}
