//! Makes a sequence shorter that shows a difference. Knows nothing of what the difference is.

use crate::compare::{Difference, Verdict};
use samara_probe::op::Op;
use std::io;
use std::time::{Duration, Instant};

/// What is tried takes no longer than this (a run near the limit of areas is slow).
const TIME: Duration = Duration::from_secs(10);

/// Takes ops away as long as a difference remains, and time, and it is not stopped. `None`: the
/// difference did not come again.
pub(crate) fn shrink(
    ops: &[Op],
    stop: &dyn Fn() -> bool,
    mut run: impl FnMut(&[Op]) -> io::Result<Verdict>,
) -> io::Result<Option<(Vec<Op>, Difference)>> {
    let mut differ = |ops: &[Op]| {
        Ok::<_, io::Error>(match run(ops)? {
            Verdict::Differ(difference) => Some(difference),
            _ => None,
        })
    };
    let until = Instant::now() + TIME;
    let Some(mut why) = differ(ops)? else { return Ok(None) };
    // What comes after it does not matter.
    let mut ops = ops[..ops.len().min(why.at + 1)].to_vec();
    let mut chunk = ops.len() / 2;
    while chunk > 0 {
        let mut i = 0;
        while i < ops.len() && Instant::now() < until && !stop() {
            let fewer = fewer(&ops, i, chunk);
            match fewer.as_deref().map_or(Ok(None), &mut differ)?.zip(fewer) {
                Some((w, fewer)) => (why, ops) = (w, fewer),
                None => i += chunk,
            }
        }
        chunk /= 2;
    }
    Ok(Some((ops, why)))
}

/// Without this many ops from the `i`th on; `None` where a later one needs what they return.
fn fewer(ops: &[Op], i: usize, chunk: usize) -> Option<Vec<Op>> {
    let end = (i + chunk).min(ops.len());
    ops[..i].iter().map(|op| Some(*op)).chain(ops[end..].iter().map(|op| op.without(i, end))).collect()
}
