//! What the kernel tells of areas, beside what the model tells: PROCMAP_QUERY byte for byte, smaps
//! byte for byte, and odd names.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[path = "../places/import.rs"]
mod import;
mod names;
mod query;
#[path = "../kernel/rng.rs"]
mod rng;
mod smaps;
#[allow(dead_code)]
#[path = "../kernel/sys.rs"]
mod sys;

use std::sync::Mutex;

/// The break must not move between a look at it and a fork: one test at a time.
static ONE: Mutex<()> = Mutex::new(());
