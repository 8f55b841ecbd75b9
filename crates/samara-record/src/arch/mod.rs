//! Everything that depends on the processor: system call numbers, argument order, the result
//! register. All other modules get it from here.
//!
//! To add an architecture, add a file with the same items.

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

#[cfg(not(target_arch = "x86_64"))]
compile_error!("samara-record records on x86-64 only for now: add a module beside arch/x86_64.rs");
