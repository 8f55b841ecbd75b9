//! Reads files of `/proc`, and adds the current action to errors.

use samara_mm::Flags;
use std::io;

/// Adds the current action to an error.
pub fn during(what: &str) -> impl Fn(io::Error) -> io::Error {
    move |e| io::Error::new(e.kind(), format!("{what}: {e}"))
}

/// The text of a file that the kernel makes.
pub fn read(path: &str) -> io::Result<String> {
    std::fs::read_to_string(path).map_err(during(path))
}

/// VmFlags and protection keys of areas, from smaps; without the flag that depends on the kernel's
/// build.
pub fn vm_flags(smaps: &str) -> Vec<(u64, Flags)> {
    let (mut at, mut key, mut out) = (None, Flags::empty(), Vec::new());
    for line in smaps.lines() {
        if let Some(letters) = line.strip_prefix("VmFlags:") {
            out.extend(at.take().map(|a| (a, (Flags::from_letters(letters) - Flags::SOFTDIRTY) | key)));
        } else if let Some(number) = line.strip_prefix("ProtectionKey:") {
            let number: u64 = number.trim().parse().unwrap_or(0);
            key = Flags::PKEY & Flags::from_bits_retain(number << Flags::PKEY.bits().trailing_zeros());
        } else if let Some((start, _)) = line.split_once('-')
            && let Ok(start) = u64::from_str_radix(start, 16)
        {
            (at, key) = (Some(start), Flags::empty());
        }
    }
    out
}
