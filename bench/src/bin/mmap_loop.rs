//! A program for `overhead` that only maps and unmaps anonymous memory: `samara-bench-mmap-loop
//! PAIRS [THREADS]`, PAIRS in each thread.
#![forbid(unsafe_code)]

use memmap2::MmapMut;

fn main() {
    let number = |at: usize| std::env::args().nth(at).and_then(|n| n.parse::<usize>().ok());
    let (pairs, threads) = (number(1).unwrap_or(1000), number(2).unwrap_or(1));
    std::thread::scope(|scope| {
        (1..threads).for_each(|_| drop(scope.spawn(move || work(pairs))));
        work(pairs);
    });
}

fn work(pairs: usize) {
    for pair in 0..pairs {
        // Mapped, and at the end of the statement unmapped, untouched. Lengths of one to eight
        // pages.
        let len = 4096 * (pair % 8 + 1);
        assert_eq!(MmapMut::map_anon(len).expect("memory to map").len(), len);
    }
}
