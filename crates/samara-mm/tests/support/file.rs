//! A file with a reverse map, for spaces under test. A test can do something in the middle of a
//! call: where it clones a file, or asks one for its map.

use samara_mm::Backing;
use samara_mm::files::{Counted, Links, ReverseMap};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

pub(crate) type Map = ReverseMap<samara_mm::Sleep, Counted>;

thread_local! {
    /// What this thread does before each clone of a file.
    pub(crate) static ON_CLONE: Cell<Option<fn()>> = const { Cell::new(None) };
    /// What this thread does once, when it next asks a file for its map.
    pub(crate) static ON_LINKS: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// An open file, and the reverse map of its inode.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) open: u64,
    pub(crate) map: Arc<Map>,
}

impl File {
    pub(crate) fn new(shards: usize) -> File {
        File { open: 0, map: Arc::new(Map::with_shards(shards).unwrap()) }
    }
}

impl Clone for File {
    fn clone(&self) -> File {
        if let Some(before) = ON_CLONE.get() {
            before();
        }
        File { open: self.open, map: Arc::clone(&self.map) }
    }
}

impl PartialEq for File {
    fn eq(&self, other: &File) -> bool {
        self.open == other.open && Arc::ptr_eq(&self.map, &other.map)
    }
}
impl Eq for File {}

impl Backing for File {
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
        let before = ON_LINKS.take();
        before.into_iter().for_each(|before| before());
        Some(&*self.map)
    }
}
