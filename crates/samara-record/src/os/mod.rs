//! Services of the kernel: system calls, `/proc`, limits, signals.

pub(crate) mod child;
pub(crate) mod closing;
pub(crate) mod huge_pages;
pub(crate) mod limits;
mod origin;
pub(crate) mod proc;
pub(crate) mod ptrace;
pub(crate) mod resident;
pub(crate) mod segments;
pub(crate) mod signals;
pub(crate) mod sys;
