//! The model and the running kernel make the same calls: the kernel in a child process, in a window
//! of its address space. Answers, areas, faults and contents must agree.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod faults;
mod page_contents;
mod rare_calls;

#[allow(dead_code)] // The programs that share it use different parts.
#[path = "../support/child.rs"]
mod child;
#[path = "../support/rng.rs"]
mod rng;
#[allow(unreachable_pub)] // It is public in the test kit.
#[path = "../../../samara-testkit/src/skip.rs"]
mod skip;
#[allow(dead_code)] // An example: its `main`, and what only that uses.
#[path = "../../examples/user_mode_kernel.rs"]
mod user_mode_kernel;
