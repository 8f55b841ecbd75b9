//! Rounds, shared by all suites. They are interleaved: each round measures every subject once, in
//! rotated order, so a disturbance of the machine affects all subjects. Does not know what is
//! measured.

use indicatif::ProgressBar;

/// From this size on, caches do not hold the maps: a round is long, and a warm-up has no effect.
const LARGE: usize = 500_000;

/// Number of warm-up rounds of a case, and of counted rounds.
pub fn rounds(n: usize, quick: bool) -> (usize, usize) {
    match (n >= LARGE, quick) {
        (false, false) => (1, 7),
        (false, true) => (1, 3),
        (true, false) => (0, 7),
        (true, true) => (0, 1),
    }
}

/// The result of `turn` for each subject in each counted round. The first `warm` rounds are not
/// counted.
pub fn interleaved<S, T>(
    subjects: &mut [S],
    (warm, rounds): (usize, usize),
    mut turn: impl FnMut(&mut S, u64) -> T,
) -> Vec<Vec<T>> {
    let mut results: Vec<Vec<T>> = subjects.iter().map(|_| Vec::with_capacity(rounds)).collect();
    for round in 0..warm + rounds {
        for at in 0..subjects.len() {
            let which = (at + round) % subjects.len();
            settle();
            let result = turn(&mut subjects[which], round as u64);
            if round >= warm {
                results[which].push(result);
            }
        }
    }
    results
}

/// The subjects of `n` ranges in groups that are measured side by side, one group after another.
/// Prints a message if there are several groups.
pub fn groups<'a, K>(n: usize, kinds: &'a [K], bar: &ProgressBar) -> std::slice::Chunks<'a, K> {
    let together = side_by_side(n, kinds.len());
    if together < kinds.len() {
        let why = "one subject after another, for memory does not hold all maps of this size at once";
        bar.suspend(|| eprintln!("samara-bench: n = {n}: {why}"));
    }
    kinds.chunks(together)
}

/// Bytes of memory that the maps of one range take at most in a subject.
const BYTES_A_RANGE: u64 = 400;

/// Number of subjects of `n` ranges that are measured side by side: all, or one if memory does not
/// hold them at once.
fn side_by_side(n: usize, subjects: usize) -> usize {
    let together = n as u64 * BYTES_A_RANGE * subjects as u64 <= available() / 2;
    if together { subjects.max(1) } else { 1 }
}

/// Bytes of available memory; 8 GiB if that is unknown.
fn available() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.map_or(8 << 30, |kib| kib << 10)
}

/// Makes the allocator sort the blocks that other subjects freed. glibc's does so at the next large
/// requests, 10,000 blocks at each.
fn settle() {
    for _ in 0..1_000 {
        std::hint::black_box(Vec::<u8>::with_capacity(1 << 16));
    }
}

#[cfg(test)]
#[path = "rounds_tests.rs"]
mod tests;
