//! Does nothing but map and unmap anonymous memory: `samara-bench-mmap-loop PAIRS`.
#![forbid(unsafe_code)]

use memmap2::MmapMut;

fn main() {
    let pairs = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1000);
    for pair in 0..pairs {
        // Mapped, and at the end of the statement unmapped, untouched. Lengths of one to eight pages.
        let len = 4096 * (pair % 8 + 1);
        assert_eq!(MmapMut::map_anon(len).expect("memory to map").len(), len);
    }
}
