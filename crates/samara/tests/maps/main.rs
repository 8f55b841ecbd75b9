//! Tests of maps that share no process-wide state: one program, so that less is linked.
//!
//! A test that installs a global allocator or a hook, forks, or starts itself again is a program of
//! its own in the folder above. So is `shared_owners`, which `ci/no_std.sh` builds without `std`.

mod complexity;
mod cursor_edits;
mod hole;
mod reentry;
mod serialization;
mod shared_cursor;
mod shared_properties;
mod snapshots;
mod tall_trees;
mod traits;
mod without_clone;

#[path = "../support/epochs.rs"]
mod epochs;
