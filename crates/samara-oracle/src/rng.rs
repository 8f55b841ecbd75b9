//! Random numbers from a seed.

#[derive(Clone, Debug)]
pub(crate) struct Rng(fastrand::Rng);

impl Rng {
    /// The numbers of one sequence of one mix: the same for the same three.
    pub(crate) fn new(seed: u64, mix: &str, sequence: u64) -> Rng {
        let parts = mix.bytes().map(u64::from).chain([sequence]);
        let mixed = |seed, part| fastrand::Rng::with_seed(seed).u64(..) ^ part;
        Rng(fastrand::Rng::with_seed(parts.fold(seed, mixed)))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.u64(..)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0.u64(..n)
    }

    pub(crate) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}
