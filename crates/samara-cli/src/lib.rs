//! The command `samara`: one file per command. It is a library so that tests and fuzz targets can
//! read a trace in their own process, as `show` and `events` do.
#![forbid(unsafe_code)]

mod call_arguments;
mod cli;
mod commands;
mod crash;
mod diff;
mod exit;
mod export;
mod fail_if;
mod format;
mod json;
mod kernel;
mod line;
mod moment;
mod only;
mod output;
mod output_file;
mod pace;
mod refused;
mod report;
mod sentence;
mod summary;
mod survey;
mod top;
mod watch;
mod why;

pub use commands::{run, testing};

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;

/// The examples of the project's README, of all libraries.
#[doc = include_str!("../../../README.md")]
#[cfg(doctest)]
struct ProjectReadme;

/// The examples of the book's pages on the libraries.
#[doc = include_str!("../../../book/src/libraries/address-spaces.md")]
#[doc = include_str!("../../../book/src/libraries/range-maps.md")]
#[cfg(doctest)]
struct BookOfLibraries;
