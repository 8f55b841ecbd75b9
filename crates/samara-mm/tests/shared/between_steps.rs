//! What other threads do between the steps of a call: the file of an area tells when it is asked
//! for its reverse map, which is in the middle of a call.

use crate::file::{File, ON_LINKS};
use crate::world::PAGE;
use samara_mm::{Access, Config, FaultError, Linux, MapFlags, MapRequest, Prot, Refused, SharedAddressSpace};
use std::sync::{Arc, mpsc};

fn request(file: &File, at: u64, pages: u64) -> MapRequest<File> {
    MapRequest::file(at, pages * PAGE, Prot::READ, MapFlags::SHARED, file.clone(), 0)
}

/// This thread runs `hook` when it next asks a file for its map.
fn arm(hook: impl FnOnce() + 'static) {
    ON_LINKS.set(Some(Box::new(hook)));
}

/// A file is revoked while a space that maps it is forked: the child loses it as well.
#[test]
fn a_fork_beside_a_revocation() {
    let file = File::new(4);
    let parent = Arc::new(SharedAddressSpace::<File>::new(Config::default()).unwrap());
    parent.map(&request(&file, 0x10000, 4)).unwrap();
    let (hands_over, child) = mpsc::channel::<Arc<SharedAddressSpace<File>>>();
    let (began, begins) = mpsc::channel();
    let revoke = {
        let (parent, file) = (Arc::clone(&parent), file.clone());
        std::thread::spawn(move || {
            begins.recv().unwrap();
            let mut child_is = None;
            loop {
                let mapped = file.map.mapped(..).unwrap();
                if mapped.is_empty() {
                    return;
                }
                for place in mapped {
                    if place.space == parent.number() {
                        parent.unmap(place.start, place.end - place.start).unwrap();
                    } else {
                        let child = child_is.get_or_insert_with(|| child.recv().unwrap());
                        assert_eq!(child.number(), place.space);
                        child.unmap(place.start, place.end - place.start).unwrap();
                    }
                }
            }
        })
    };
    arm(move || began.send(()).unwrap());
    let child = Arc::new(parent.fork().unwrap());
    hands_over.send(Arc::clone(&child)).unwrap();
    revoke.join().unwrap();
    assert!(child.is_empty() && parent.is_empty(), "the file is revoked");
    child.check().unwrap();
}

/// A thread frees a better place and then finds nothing at the place that a search has chosen. So
/// the search comes after both, and must see the better place.
#[test]
fn a_place_that_a_fault_has_found_empty() {
    const TOP: u64 = 0x7fff_f7ff_f000;
    let file = File::new(4);
    let space = Arc::new(SharedAddressSpace::<File>::new(Config::default()).unwrap());
    for page in 1..=32 {
        let prot = if page % 2 == 0 { Prot::READ } else { Prot::RW };
        space.map(&MapRequest::anonymous(TOP - page * PAGE, PAGE, prot)).unwrap();
    }
    let (tells, told) = mpsc::channel();
    let other = Arc::clone(&space);
    arm(move || {
        let beside = std::thread::spawn(move || {
            other.unmap(TOP - PAGE, PAGE).unwrap();
            let found = other.faulter().fault(TOP - 33 * PAGE, Access::Read).map(drop);
            tells.send(found).unwrap();
        });
        beside.join().unwrap();
    });
    let (at, _) = space.mmap(&request(&file, 0, 1), &mut Linux).unwrap();
    assert_eq!(told.recv().unwrap(), Err(FaultError::Refused(Refused::NotMapped)));
    assert_eq!(at, TOP - PAGE, "free before the fault, which was before the map");
    assert_eq!(space.statistics().whole, 0);
    space.check().unwrap();
}
