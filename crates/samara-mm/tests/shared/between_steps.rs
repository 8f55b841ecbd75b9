//! What other threads do between the steps of a call: the file of an area tells when it is asked
//! for its reverse map, which is in the middle of a call.

use crate::world::PAGE;
use samara_mm::files::{Links, ReverseMap};
use samara_mm::{Access, Backing, Config, FaultError, Linux, MapFlags, MapRequest, Prot, Refused, SharedAddressSpace};
use std::cell::Cell;
use std::sync::{Arc, Mutex, mpsc};

type Hook = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Inode {
    map: Option<ReverseMap>,
    /// What the armed thread does when it asks next.
    hook: Mutex<Option<Hook>>,
}

#[derive(Clone)]
struct File(Arc<Inode>);

thread_local! {
    static ARMED: Cell<bool> = const { Cell::new(false) };
}

impl File {
    fn new() -> File {
        File(Arc::new(Inode { map: Some(ReverseMap::try_new().unwrap()), hook: Mutex::default() }))
    }

    /// This thread runs `hook` when it asks next.
    fn arm(&self, hook: impl FnOnce() + Send + 'static) {
        *self.0.hook.lock().unwrap() = Some(Box::new(hook));
        ARMED.set(true);
    }

    fn request(&self, at: u64, pages: u64) -> MapRequest<File> {
        MapRequest::file(at, pages * PAGE, Prot::READ, MapFlags::SHARED, self.clone(), 0)
    }

    fn map(&self) -> &ReverseMap {
        self.0.map.as_ref().unwrap()
    }
}

impl PartialEq for File {
    fn eq(&self, other: &File) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for File {}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("File")
    }
}

impl Backing for File {
    fn dev(&self) -> (u32, u32) {
        (8, 1)
    }
    fn inode(&self) -> u64 {
        42
    }
    fn name(&self) -> &str {
        "/file"
    }
    fn links(&self) -> Option<&dyn Links> {
        if ARMED.take() {
            let hook = self.0.hook.lock().unwrap().take();
            hook.into_iter().for_each(|hook| hook());
        }
        self.0.map.as_ref().map(|map| map as &dyn Links)
    }
}

/// A file is revoked while a space that maps it is forked: the child loses it as well.
#[test]
fn a_fork_beside_a_revocation() {
    let file = File::new();
    let parent = Arc::new(SharedAddressSpace::<File>::new(Config::default()).unwrap());
    parent.map(&file.request(0x10000, 4)).unwrap();
    let (hands_over, child) = mpsc::channel::<Arc<SharedAddressSpace<File>>>();
    let (began, begins) = mpsc::channel();
    let revoke = {
        let (parent, file) = (Arc::clone(&parent), file.clone());
        std::thread::spawn(move || {
            begins.recv().unwrap();
            let mut child_is = None;
            loop {
                let mapped = file.map().mapped(..).unwrap();
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
    file.arm(move || began.send(()).unwrap());
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
    let file = File::new();
    let space = Arc::new(SharedAddressSpace::<File>::new(Config::default()).unwrap());
    for page in 1..=32 {
        let prot = if page % 2 == 0 { Prot::READ } else { Prot::RW };
        space.map(&MapRequest::anonymous(TOP - page * PAGE, PAGE, prot)).unwrap();
    }
    let (tells, told) = mpsc::channel();
    let other = Arc::clone(&space);
    file.arm(move || {
        let beside = std::thread::spawn(move || {
            other.unmap(TOP - PAGE, PAGE).unwrap();
            let found = other.faulter().fault(TOP - 33 * PAGE, Access::Read).map(drop);
            tells.send(found).unwrap();
        });
        beside.join().unwrap();
    });
    let (at, _) = space.mmap(&file.request(0, 1), &mut Linux).unwrap();
    assert_eq!(told.recv().unwrap(), Err(FaultError::Refused(Refused::NotMapped)));
    assert_eq!(at, TOP - PAGE, "free before the fault, which was before the map");
    assert_eq!(space.statistics().whole, 0);
    space.check().unwrap();
}
