//! The trace file's reader on arbitrary bytes: it gives whole batches, then at most one error, and
//! never panics.
//!
//! Arbitrary bytes seldom pass the checksums. So most inputs are a list of changes to a valid file,
//! whose checksums are corrected afterwards.
#![no_main]

use arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

#[path = "../../crates/samara-trace/tests/file/samples.rs"]
mod file_samples;
#[path = "../../crates/samara-trace/tests/file/seal.rs"]
mod seal;

static RIGHT: LazyLock<Vec<u8>> = LazyLock::new(|| file_samples::file(3, 9));

/// The valid file, changed.
fn changed(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let mut file = RIGHT.clone();
    while !u.is_empty() && !file.is_empty() {
        let at = u.int_in_range(0..=file.len() - 1)?;
        match u.int_in_range(0..=7_u8)? {
            0 => file.truncate(at),
            1 => {
                let bytes: [u8; 8] = u.arbitrary()?;
                file.splice(at..at, bytes);
            }
            2 => {
                let end = (at + u.int_in_range(1..=64)?).min(file.len());
                file.drain(at..end);
            }
            3 => {
                // Lengths and offsets are of four or eight bytes.
                let number = u.arbitrary::<u64>()? >> u.int_in_range(0..=63_u32)?;
                let end = (at / 8 * 8 + 8).min(file.len());
                file[end - 8..end].copy_from_slice(&number.to_le_bytes());
            }
            4 => {
                let number = u.arbitrary::<u32>()? >> u.int_in_range(0..=31_u32)?;
                let end = (at / 4 * 4 + 4).min(file.len());
                file[end - 4..end].copy_from_slice(&number.to_le_bytes());
            }
            _ => file[at] = u.arbitrary()?,
        }
        if file.len() < 8 {
            break;
        }
    }
    seal::seal(&mut file);
    Ok(file)
}

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, rest)) = bytes.split_first() else { return };
    if choice % 4 == 0 {
        file_samples::read(rest);
    } else if let Ok(file) = changed(&mut Unstructured::new(rest)) {
        file_samples::read(&file);
    }
});
