//! The page of `samara report`: its data, gathered in one pass over a trace, and its HTML.
//!
//! The parts: `picture` (the gathered data: `lives`, `cells`, `rects`, `series`, `slow`, each
//! bounded), `data` (the same as JSON, with the `tree` of functions), `page` (HTML). Knows nothing
//! of command lines.

mod cells;
mod data;
mod kinds;
mod lives;
mod page;
mod picture;
mod rects;
mod series;
mod slow;
mod tree;

pub(crate) use data::{Trace, json};
pub(crate) use page::html;
pub(crate) use picture::Picture;
