//! The model alone: rules that need no kernel to compare with, or that only another kernel follows.

mod below_stacks;
mod fault_errors;
mod features;
mod hostile_arguments;
mod learn;
mod limits;
mod probes;
mod raw_calls;
mod releases;
mod smaps;
mod transparent_huge;

#[path = "../support/rng.rs"]
mod rng;
