//! Shared spaces keep the reverse maps of their files.

use crate::failing_alloc::fail_after;
use crate::file::File;
use crate::of_spaces::{Space, check};
use crate::rng::Rng;
use crate::{PAGE, seed};
use samara_mm::files::{Links, ReverseMap};
use samara_mm::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, RwLock};

const RX: Prot = Prot::READ.union(Prot::EXEC);

fn shared() -> Space {
    Space::new(Config::default()).unwrap()
}

/// One random call. Refusals are part of it.
fn call(space: &Space, files: &[File], r: &mut Rng) {
    let (at, pages, page) = (16 + r.below(40), 1 + r.below(6), r.below(8));
    let prot = r.pick(&[Prot::READ, Prot::RW, RX]);
    let file = File { open: r.below(2), ..files[r.below(3) as usize].clone() };
    let flags = r.pick(&[MapFlags::PRIVATE, MapFlags::SHARED]);
    let (start, len) = (at * PAGE, pages * PAGE);
    let _refused = match r.below(20) {
        0..=5 => space.map(&file.at(at, pages, page, prot, flags)).map(drop),
        6 => space.map(&MapRequest::anonymous(start, len, prot)).map(drop),
        7..=9 => space.unmap(start, len).map(drop),
        10..=12 => space.protect(start, len, prot, None).map(drop),
        13 => space.mmap(&file.at(0, pages, page, prot, flags), &mut Linux).map(drop),
        14 => {
            let to = RemapMode::Fixed((16 + r.below(40)) * PAGE);
            let mode = r.pick(&[RemapMode::InPlace, to]);
            let new_len = (1 + r.below(6)) * PAGE;
            let request = RemapRequest { old: start, old_len: len, new_len, mode, dontunmap: r.one_in(4) };
            space.remap(&request).map(drop)
        }
        15 => space.map_image(&file.library(Some(at)), &mut Linux).map(drop),
        16 => space.map_image(&file.library(None), &mut Linux).map(drop),
        17 => space.advise(start, len, r.pick(&[Advice::DontFork, Advice::DoFork])).map(drop),
        18 => space.unmap(8 * PAGE, 64 * PAGE).map(drop),
        _ => space.caller_with(|_| Err(Errno::EBUSY)).unmap(start, len).map(drop),
    };
}

#[test]
fn random_calls_by_threads() {
    let seed = seed(11);
    let files: [File; 3] = [1, 4, 32].map(File::new);
    let spaces: Vec<RwLock<Space>> = (0..3).map(|_| RwLock::new(shared())).collect();
    let forked = Mutex::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (files, spaces, forked) = (&files, &spaces, &forked);
            scope.spawn(move || {
                let mut r = Rng(seed ^ (thread << 40));
                for step in 0..600 {
                    let which = r.below(3) as usize;
                    let parent = spaces[which].read().unwrap();
                    call(&parent, files, &mut r);
                    match step % 40 {
                        // A child that calls, and exits or is shared no longer.
                        0 => {
                            let child = parent.fork().unwrap();
                            (0..6).for_each(|_| call(&child, files, &mut r));
                            child.check().unwrap();
                            *forked.lock().unwrap() += child.len();
                            if r.one_in(2) { child.exit() } else { drop(child.into_space()) }
                        }
                        // exec.
                        20 => {
                            let mut program = AddressSpace::new(Config::default());
                            program.map(&files[0].at(30, 4, 0, RX, MapFlags::PRIVATE)).unwrap();
                            program.map_image(&files[1].library(None), &mut Linux).unwrap();
                            parent.replace(program).unwrap();
                        }
                        // A child in the place of its parent.
                        30 => {
                            let child = parent.fork().unwrap();
                            drop(parent);
                            *spaces[which].write().unwrap() = child;
                        }
                        _ => {}
                    }
                }
            });
        }
    });
    assert!(forked.into_inner().unwrap() > 100, "children had areas");
    let spaces: Vec<Space> = spaces.into_iter().map(|space| space.into_inner().unwrap()).collect();
    assert!(files.iter().all(|file| !file.map.is_empty()), "areas are linked at the end");
    check(&files, &spaces.iter().collect::<Vec<_>>());
    drop(spaces);
    check(&files, &[]);
}

/// What is linked under a space's number by another owner, or not linked, is a violation.
#[test]
fn a_check_finds_what_is_linked_wrongly() {
    let (space, file) = (shared(), File::new(4));
    space.map(&file.at(16, 4, 0, RX, MapFlags::PRIVATE)).unwrap();
    space.check().unwrap();
    let number = space.number();
    file.map.batch(number, 1).unwrap().link(crate::area(90, 3, 1)).unwrap();
    assert_eq!(space.check(), Err(SharedViolation::Links(90 * PAGE)));
    file.map.batch(number, 0).unwrap().unlink(crate::area(90, 3, 1)).unwrap();
    file.map.batch(number, 0).unwrap().unlink(crate::area(16, 0, 4)).unwrap();
    assert_eq!(space.check(), Err(SharedViolation::Links(16 * PAGE)));
}

/// One acquisition for each file, however many of its areas a call changes.
#[test]
fn one_acquisition_for_each_file() {
    let files: [File; 2] = [32, 1].map(File::new);
    let space = shared();
    let mut before = [0, 0];
    let mut took = |what: &str, want: [u64; 2]| {
        let now = [files[0].batches(), files[1].batches()];
        assert_eq!([now[0] - before[0], now[1] - before[1]], want, "{what}");
        before = now;
    };
    let both = || {
        for at in 0..20 {
            let file = &files[at as usize % 2];
            space.map(&file.at(16 + 2 * at, 1, at, RX, MapFlags::PRIVATE)).unwrap();
        }
    };
    both();
    took("ten maps of each", [10, 10]);
    let child = space.fork().unwrap();
    took("fork", [1, 1]);
    child.exit();
    took("exit", [1, 1]);
    drop(space.fork().unwrap().into_space());
    took("a space that is shared no longer", [2, 2]);
    space.unmap(16 * PAGE, 40 * PAGE).unwrap();
    took("munmap of many", [1, 1]);
    space.map_image(&files[0].library(Some(16)), &mut Linux).unwrap();
    took("a fixed image", [1, 0]);
    let ranged = space.statistics().ranged;
    space.map_image(&files[0].library(Some(64)), &mut Linux).unwrap();
    assert_eq!(space.statistics().ranged, ranged + 1, "under a range lock");
    space.map_image(&files[1].library(None), &mut Linux).unwrap();
    took("two images", [1, 1]);
    space.protect(17 * PAGE, PAGE, Prot::READ, None).unwrap();
    took("a split in three", [1, 0]);
    assert_eq!(files[0].map.stats().unwrap().areas[samara_mm::files::LockStats::size(3)], 3, "and those of two images");
    space.protect(17 * PAGE, PAGE, RX, None).unwrap();
    took("a merge", [1, 0]);
    space.protect(16 * PAGE, 4 * PAGE, Prot::READ, None).unwrap();
    took("a change and a merge of two", [1, 0]);
    space.protect(64 * PAGE, 4 * PAGE, Prot::EXEC, None).unwrap();
    took("a change of flags alone", [0, 0]);
    let faulted = space.faulter().fault(24 * PAGE, Access::Write).is_ok();
    assert!(faulted);
    took("a write", [0, 0]);
    let mode = RemapMode::Fixed(200 * PAGE);
    let all = 12 * PAGE;
    space.remap(&RemapRequest { old: 64 * PAGE, old_len: all, new_len: all, mode, dontunmap: false }).ok();
    space.map(&MapRequest::anonymous(16 * PAGE, PAGE, Prot::RW)).unwrap();
    took("a move at most, and a trim", [2, 0]);
    let mut program = AddressSpace::new(Config::default());
    program.map_image(&files[1].library(Some(16)), &mut Linux).unwrap();
    program.map(&files[0].at(100, 4, 0, RX, MapFlags::SHARED)).unwrap();
    took("a space that is not shared", [0, 0]);
    space.replace(program).unwrap();
    took("exec", [1, 1]);
    check(&files, &[&space]);
    space.unmap(16 * PAGE, 200 * PAGE).unwrap();
    took("the end of all", [1, 1]);
    drop(space);
    took("an exit without areas", [0, 0]);
    check(&files, &[]);
}

/// Whatever call maps the first file of a space links it: nothing is linked yet that could tell
/// others to look.
#[test]
fn the_first_area_of_a_file_is_linked() {
    type Act = fn(&Space, &File);
    let acts: [(&str, Act); 6] = [
        ("map", |space, file| drop(space.map(&file.at(300, 2, 0, RX, MapFlags::PRIVATE)).unwrap())),
        ("mmap", |space, file| drop(space.mmap(&file.at(0, 2, 0, RX, MapFlags::PRIVATE), &mut Linux).unwrap())),
        ("a fixed image", |space, file| drop(space.map_image(&file.library(Some(300)), &mut Linux).unwrap())),
        ("an image", |space, file| drop(space.map_image(&file.library(None), &mut Linux).unwrap())),
        ("import", |space, file| {
            let mut other = AddressSpace::new(Config::default());
            other.map(&file.at(300, 2, 0, RX, MapFlags::PRIVATE)).unwrap();
            let placed = other.areas().next().unwrap();
            space.import(placed.start, placed.end, placed.area.clone()).unwrap();
        }),
        ("exec", |space, file| {
            let mut program = AddressSpace::new(Config::default());
            program.map_image(&file.library(Some(300)), &mut Linux).unwrap();
            space.replace(program).unwrap();
        }),
    ];
    for (what, act) in acts {
        let (file, space) = (File::new(4), shared());
        // The tree has several leaves then, with room, and the thread has credit: a call can be one
        // leaf's.
        for at in 0..128 {
            space.map(&MapRequest::anonymous((8 + 8 * at) * PAGE, PAGE, RX)).unwrap();
        }
        for at in (0..128).filter(|at| at % 4 > 0) {
            space.unmap((8 + 8 * at) * PAGE, PAGE).unwrap();
        }
        act(&space, &file);
        assert!(!file.map.is_empty(), "{what}");
        check(&[file], &[&space]);
    }
}

/// Reverse maps count pages of 4096 bytes, and take no area that smaller pages leave unaligned.
/// What a call cuts of such an area is linked where it is aligned.
#[test]
fn parts_of_unaligned_areas_are_linked() {
    const SMALL: u64 = 1024;
    let page_size = PageSize::new(SMALL).unwrap();
    let file = File::new(4);
    let space = Space::new(Config { page_size, ..Config::default() }).unwrap();
    // Leaves with room, and credit, as above.
    for at in 0..128 {
        space.map(&MapRequest::anonymous((8 + 8 * at) * PAGE, SMALL, RX)).unwrap();
    }
    for at in (0..128).filter(|at| at % 4 > 0) {
        space.unmap((8 + 8 * at) * PAGE, SMALL).unwrap();
    }
    let at = 300 * PAGE + SMALL;
    let request = MapRequest { start: at, len: 7 * SMALL, offset: SMALL, ..file.at(0, 1, 0, RX, MapFlags::PRIVATE) };
    space.map(&request).unwrap();
    assert!(file.map.is_empty());
    space.protect(at, 7 * SMALL, Prot::READ, None).unwrap();
    space.unmap(at, 3 * SMALL).unwrap();
    assert_eq!(file.map.len(), 1);
    check(&[file], &[&space]);
}

/// What is refused or panics has changed no link, and keeps no memory set aside.
#[test]
fn what_is_refused_leaves_the_links() {
    let file = File::new(1);
    let space = shared();
    let areas = || (0..5).for_each(|n| drop(space.map(&file.at(16 + 2 * n, 1, n, RX, MapFlags::PRIVATE)).unwrap()));
    areas();
    let (linked, bytes, batches) = (file.map.areas(..).unwrap(), file.map.bytes(), file.batches());
    for round in 0..200 {
        let mut refusing = space.caller_with(|_| Err(Errno::EBUSY));
        let image = file.library(Some(64));
        assert_eq!(refusing.map_image(&image, &mut Linux).unwrap_err().errno, Errno::EBUSY);
        let far = refusing.mmap(&file.at(0, 1, 0, RX, MapFlags::PRIVATE), &mut Linux);
        assert_eq!(far.unwrap_err().errno, Errno::EBUSY);
        if round < 3 {
            let mut panicking = space.caller_with(|_| panic!("apply"));
            let ranged = catch_unwind(AssertUnwindSafe(|| panicking.map_image(&image, &mut Linux)));
            let whole = catch_unwind(AssertUnwindSafe(|| panicking.map_image(&file.library(None), &mut Linux)));
            assert!(ranged.is_err() && whole.is_err());
        }
    }
    assert_eq!((file.map.areas(..).unwrap(), file.map.bytes(), file.batches()), (linked, bytes, batches));
    check(&[file], &[&space]);
}

/// A call that finds no memory has changed neither the space nor a link.
#[test]
fn without_memory_nothing_changes() {
    /// What calls need that takes memory to make: a fixed image, another one, and a program.
    type Given = (Image<File>, Image<File>, Option<AddressSpace<File>>);
    type Act = fn(&Space, &[File], &mut Given) -> Result<(), Errno>;
    fn errno<T>(done: Result<T, Error>) -> Result<(), Errno> {
        done.map(drop).map_err(|error| error.errno)
    }
    let acts: [(&str, Act); 8] = [
        ("a map", |space, files, _| errno(space.map(&files[0].at(100, 2, 0, RX, MapFlags::SHARED)))),
        ("a split", |space, files, _| errno(space.map(&files[1].at(41, 1, 0, RX, MapFlags::SHARED)))),
        ("an unmap of many", |space, _, _| errno(space.unmap(17 * PAGE, 30 * PAGE))),
        ("a fixed image", |space, _, given| errno(space.map_image(&given.0, &mut Linux))),
        ("an image", |space, _, given| errno(space.map_image(&given.1, &mut Linux))),
        ("fork", |space, _, _| space.fork().map(drop)),
        ("exec", |space, _, given| errno(space.replace(given.2.take().ok_or(Errno::EINVAL)?))),
        ("an end that joins", |space, files, _| errno(space.map(&files[0].at(36, 2, 0, RX, MapFlags::PRIVATE)))),
    ];
    for (what, act) in acts {
        let mut failed = 0;
        for allowed in 0..2000 {
            let files: [File; 3] = [1, 4, 32].map(File::new);
            let space = shared();
            for at in 0..10 {
                let file = &files[at as usize % 2];
                space.map(&file.at(16 + 2 * at, 1, at, RX, MapFlags::PRIVATE)).unwrap();
            }
            space.map(&files[0].at(38, 8, 2, RX, MapFlags::PRIVATE)).unwrap();
            let before = space.snapshot().unwrap().to_string();
            let linked = || files.iter().map(|file| file.map.areas(..).unwrap()).collect::<Vec<_>>();
            let links = linked();
            let mut program = AddressSpace::new(Config::default());
            program.map_image(&files[2].library(Some(16)), &mut Linux).unwrap();
            let mut given = (files[2].library(Some(100)), files[2].library(None), Some(program));
            let (done, _) = fail_after(allowed, || act(&space, &files, &mut given));
            match done {
                Ok(()) => {
                    check(&files, &[&space]);
                    drop(space);
                    check(&files, &[]);
                    break;
                }
                Err(errno) => {
                    assert_eq!(errno, Errno::ENOMEM, "{what}, {allowed} allocations");
                    assert_eq!(space.snapshot().unwrap().to_string(), before, "{what}, {allowed} allocations");
                    assert_eq!(linked(), links, "{what}, {allowed} allocations");
                    check(&files, &[&space]);
                    failed += 1;
                }
            }
        }
        println!("{what}: {failed} failures");
        assert!((1..1999).contains(&failed), "{what}: {failed} failures");
    }
}

/// Exit unlinks without memory too.
#[test]
fn exit_needs_no_memory() {
    let files: [File; 2] = [1, 32].map(File::new);
    let space = shared();
    for at in 0..10 {
        space.map(&files[at as usize % 2].at(16 + 2 * at, 1, at, RX, MapFlags::PRIVATE)).unwrap();
    }
    let batches = files[0].batches();
    let ((), _) = fail_after(0, || space.exit());
    check(&files, &[]);
    assert_eq!(files[0].batches() - batches, 5, "one for each area");
}

/// A backing that breaks its promise: it names one map, then the other.
#[derive(Clone, Debug)]
struct Inconstant {
    maps: [Arc<ReverseMap>; 2],
    asked: Arc<AtomicUsize>,
}

impl PartialEq for Inconstant {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.asked, &other.asked)
    }
}
impl Eq for Inconstant {}

impl Backing for Inconstant {
    fn dev(&self) -> (u32, u32) {
        (8, 1)
    }
    fn inode(&self) -> u64 {
        7
    }
    fn name(&self) -> &str {
        "/file"
    }
    fn links(&self) -> Option<&dyn Links> {
        Some(&*self.maps[self.asked.fetch_add(1, Ordering::Relaxed) % 2])
    }
}

/// Its links are of no use, and memory is set aside in the wrong map; but no call panics.
#[test]
fn a_backing_that_breaks_its_promise() {
    let seed = seed(1);
    for round in 0..50 {
        let mut r = Rng(seed.wrapping_add(round));
        let maps = [(); 2].map(|()| Arc::new(ReverseMap::try_new().unwrap()));
        let file = Inconstant { maps, asked: Arc::default() };
        let mut space = SharedAddressSpace::<Inconstant>::new(Config::default()).unwrap();
        for _ in 0..100 {
            let (start, len) = ((16 + r.below(40)) * PAGE, (1 + r.below(6)) * PAGE);
            let kind = r.pick(&[MapFlags::PRIVATE, MapFlags::SHARED]);
            let _refused = match r.below(6) {
                0..=2 => space.map(&MapRequest::file(start, len, Prot::RW, kind, file.clone(), 0)).map(drop),
                3 => space.unmap(start, len).map(drop),
                4 => space.protect(start, len, Prot::READ, None).map(drop),
                _ => space.fork().map(|child| drop(std::mem::replace(&mut space, child))).map_err(Error::from),
            };
        }
        drop(space);
    }
}
