//! The queue of range locks: who may change which addresses, first come, first served.
//!
//! A plain data structure: the lock around it, and waiting, are the caller's (`update`). Does not
//! know what is done under a range lock.
//!
//! - **RANGE-1** Two requests *meet* if their ranges do and at least one of them is to change its
//!   range ([`Mode`]). A request waits for exactly those earlier requests that meet it and have not
//!   left. `blockers` counts them. It is granted when the count is 0. So two granted requests never
//!   meet, requests that meet are granted in the order of their arrival, and one that meets no
//!   other is granted at once.
//! - **RANGE-2** A request waits only for earlier ones, so no cycle of waiting requests exists. A
//!   thread has at most one request in the queue.

use alloc::sync::Arc;
use alloc::vec::Vec;
use samara::Span;

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The range may change.
    Change,
    /// The range stays as it is. Others may keep it so too.
    Read,
}

/// A request in the queue, and what its owner says of it.
#[derive(Debug)]
pub(crate) struct Request<E, T> {
    id: u64,
    /// The addresses, both ends inclusive.
    span: Span,
    mode: Mode,
    /// RANGE-1.
    blockers: usize,
    /// Set when the request is granted after it had to wait.
    event: Arc<E>,
    /// What the owner keeps here.
    pub(crate) note: T,
}

/// Requests in the order of their arrival.
#[derive(Debug)]
pub(crate) struct RangeQueue<E, T> {
    requests: Vec<Request<E, T>>,
    next: u64,
}

impl<E, T> RangeQueue<E, T> {
    pub(crate) const fn new() -> Self {
        RangeQueue { requests: Vec::new(), next: 0 }
    }

    /// Makes room for one more request. `None`: out of memory.
    pub(crate) fn reserve(&mut self) -> Option<()> {
        self.requests.try_reserve(1).ok()
    }

    /// Adds a request for `span`; room was reserved. Returns its number, and whether it is granted
    /// at once. If not, `event` will be passed to the `grant` of a later [`RangeQueue::leave`].
    /// O(requests).
    pub(crate) fn enter(&mut self, span: Span, mode: Mode, event: &Arc<E>, note: T) -> (u64, bool) {
        let blockers = self.requests.iter().filter(|r| r.meets(span, mode)).count();
        let id = self.next;
        self.next = id.wrapping_add(1);
        self.requests.push(Request { id, span, mode, blockers, event: Arc::clone(event), note });
        (id, blockers == 0)
    }

    /// Removes a request, granted or not. Calls `grant` for each request that is granted by it.
    /// O(requests).
    pub(crate) fn leave(&mut self, id: u64, mut grant: impl FnMut(&E)) -> Option<T> {
        let at = self.position(id)?;
        let gone = self.requests.remove(at);
        for later in self.requests.iter_mut().skip(at).filter(|r| r.meets(gone.span, gone.mode)) {
            later.blockers -= 1;
            if later.blockers == 0 {
                grant(&later.event);
            }
        }
        Some(gone.note)
    }

    /// Whether the request is granted.
    pub(crate) fn is_granted(&self, id: u64) -> bool {
        self.position(id).and_then(|at| self.requests.get(at)).is_some_and(|r| r.blockers == 0)
    }

    /// What the owner keeps in the request.
    pub(crate) fn note_mut(&mut self, id: u64) -> Option<&mut T> {
        let at = self.position(id)?;
        self.requests.get_mut(at).map(|r| &mut r.note)
    }

    /// What the owners of all requests keep there.
    pub(crate) fn notes(&self) -> impl Iterator<Item = &T> {
        self.requests.iter().map(|r| &r.note)
    }

    /// Number of requests.
    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    /// Numbers ascend in the queue.
    fn position(&self, id: u64) -> Option<usize> {
        self.requests.iter().position(|r| r.id == id)
    }

    /// Checks RANGE-1.
    pub(crate) fn check(&self) -> bool {
        self.requests.iter().enumerate().all(|(at, r)| {
            r.blockers == self.requests.iter().take(at).filter(|earlier| earlier.meets(r.span, r.mode)).count()
        })
    }
}

impl<E, T> Request<E, T> {
    /// RANGE-1.
    fn meets(&self, span: Span, mode: Mode) -> bool {
        let ranges = self.span.first <= span.last && span.first <= self.span.last;
        ranges && (self.mode == Mode::Change || mode == Mode::Change)
    }
}
