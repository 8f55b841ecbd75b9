//! `spaces`: address spaces that threads share, which serve faults while others change them.
//!
//! [`space`] is the trait of a measured space; [`samara`], [`rwlock`], [`area_locks`] and
//! [`skiplist`] have it. [`cases`] names the cases; [`faults`], [`updates`], [`forks`],
//! [`maps_readers`], [`breaks`] and [`allocations`] measure it, with other threads [`mod@beside`].
//! [`lookup_pinned`] is the yardstick. [`loaded`] chooses among them. [`links`] has the cases of
//! reverse maps, with separate subjects. [`suite`] runs all cases for all spaces. lab/benchmarks.md
//! has the methods.

pub mod allocations;
pub mod area_arena;
pub mod area_lock;
pub mod area_locks;
pub mod beside;
pub mod breaks;
pub mod cases;
pub mod faults;
pub mod forks;
pub mod kinds;
pub mod links;
pub mod loaded;
pub mod lookup_pinned;
pub mod maps_readers;
pub mod rwlock;
pub mod samara;
pub mod skiplist;
pub mod space;
pub mod suite;
pub mod updates;
