//! The progress bar, on standard error.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar of `len` steps; it is hidden if standard error is no terminal.
pub fn progress(len: u64) -> ProgressBar {
    let bar = ProgressBar::new(len);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} (eta {eta}) {msg}") {
        bar.set_style(style);
    }
    bar
}
