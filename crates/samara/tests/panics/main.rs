//! Clones, drops and callbacks that panic: tests under one panic hook, which hides the panics that
//! a test asked for.

mod compound_verbs;
mod stores;
mod verbs;

#[path = "../support/panics.rs"]
mod support;
