//! What a node holds: written by who makes it, read by who finds it, gone when it is freed. Loom
//! fails a model in which two accesses of which one writes are not ordered; a body fails one that
//! reads what is not there, or frees it twice.

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
        // SAFETY: loom sees to it that nobody else is at it.
        self.cell.with_mut(|at| unsafe { core::mem::replace(&mut *at, value) })
    }

    /// The node is made.
    pub(crate) fn fill(&self, value: T) {
        assert!(self.put(Some(value)).is_none(), "made twice");
    }

    /// Written in place, by who has the node alone.
    pub(crate) fn set(&self, value: T) {
        assert!(self.put(Some(value)).is_some(), "written to, but free");
    }

    pub(crate) fn read(&self) -> T {
        // SAFETY: loom sees to it that nobody writes meanwhile.
        self.cell.with(|at| unsafe { *at }).expect("read, but free")
    }

    pub(crate) fn free(&self) {
        assert!(self.put(None).is_some(), "freed twice");
    }

    pub(crate) fn is_free(&self) -> bool {
        // SAFETY: as in `read`.
        self.cell.with(|at| unsafe { (*at).is_none() })
    }
}
