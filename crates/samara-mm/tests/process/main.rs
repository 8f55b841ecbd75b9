//! The model of a whole process against the running kernel: the text of `maps` and `smaps` and the
//! answers of PROCMAP_QUERY to the byte, the heap, the kernel's own pages, and the layout at exec.
//!
//! A program of its own, in which one test runs at a time ([`PROCESS_LOCK`]): the tests read the
//! process's own layout and then fork.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod exec;
mod import;
mod maps_lines;
mod procmap_query;
mod smaps;
mod special_maps;
mod vdso;

#[allow(dead_code)] // The programs that share it use different parts.
#[path = "../support/child.rs"]
mod child;
#[path = "../support/rng.rs"]
mod rng;
#[allow(unreachable_pub)] // It is public in the test kit.
#[path = "../../../samara-testkit/src/skip.rs"]
mod skip;

use std::sync::Mutex;

/// Held by each test from beginning to end: another one could move the break between a look at it
/// and a fork, or fork while `exec` has its program open for writing.
static PROCESS_LOCK: Mutex<()> = Mutex::new(());
