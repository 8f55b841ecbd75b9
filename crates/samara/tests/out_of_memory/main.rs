//! Memory that runs out: tests under one global allocator, which fails where the test's own thread
//! asks it to.

mod reservations;
mod shared_map;
mod snapshot_sharing;
mod stores;
mod verbs;

#[path = "../support/alloc.rs"]
mod alloc;

#[global_allocator]
static ALLOCATOR: alloc::Failing = alloc::Failing;
