//! Forks of a space of n areas that were not touched.

use crate::workloads::Effort;
use crate::workloads::engine::{Engine, Fork};
use std::time::Duration;

/// Time of forks, until `effort` is done or they have taken a tenth of a second. In each child the
/// break goes up and down `brks` times.
pub fn run(engine: &mut dyn Engine, n: usize, effort: Effort, how: Fork, brks: usize) -> Option<(Duration, usize)> {
    engine.fill(n);
    let (mut took, mut done) = (Duration::ZERO, 0);
    while done < effort.count && took < Duration::from_millis(100) {
        took += engine.fork(how, brks)?;
        done += 1;
    }
    Some((took, done))
}
