//! The page of `samara report`: what it shows, gathered in one pass over a trace, and its HTML.
//!
//! The parts: `picture` (what is gathered: `lives`, `cells`, `rects`, `series`, `slow`, each
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
