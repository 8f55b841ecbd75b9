//! The content of a node: written by the thread that makes it, read by threads that find it, gone
//! when it is freed. Loom fails a model in which an access and a write are not ordered. A body
//! fails a model that reads it after the free, or frees it twice.

use loom::cell::UnsafeCell;

/// The body of a node.
pub(crate) struct Body<T> {
    cell: UnsafeCell<Option<T>>,
}

impl<T: Copy> Body<T> {
    pub(crate) fn empty() -> Self {
        Body { cell: UnsafeCell::new(None) }
    }

    pub(crate) fn of(value: T) -> Self {
        Body { cell: UnsafeCell::new(Some(value)) }
    }

    fn put(&self, value: Option<T>) -> Option<T> {
        // SAFETY: loom fails the model where another thread accesses the cell at the same time.
        self.cell.with_mut(|at| unsafe { core::mem::replace(&mut *at, value) })
    }

    /// The node is made.
    pub(crate) fn fill(&self, value: T) {
        assert!(self.put(Some(value)).is_none(), "made twice");
    }

    /// Written in place, by the only owner of the node.
    pub(crate) fn set(&self, value: T) {
        assert!(self.put(Some(value)).is_some(), "written to after the free");
    }

    pub(crate) fn read(&self) -> T {
        // SAFETY: loom fails the model where another thread writes at the same time.
        self.cell.with(|at| unsafe { *at }).expect("read after the free")
    }

    pub(crate) fn free(&self) {
        assert!(self.put(None).is_some(), "freed twice");
    }

    pub(crate) fn is_free(&self) -> bool {
        // SAFETY: as in `read`.
        self.cell.with(|at| unsafe { (*at).is_none() })
    }
}
