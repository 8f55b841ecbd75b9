//! Numbers of areas and bytes over time, by kind, and calls over time, in bounded memory.
//!
//! - **SERIES-1** a series has at most [`BINS`] moments. If there would be more, each two
//!   neighbours are merged, with the values of the one with the larger total.

use std::collections::BTreeMap;

use super::kinds::KINDS;

/// Most moments.
pub(super) const BINS: u64 = 512;

/// Areas and bytes of each kind.
pub(super) type Size = [(u64, u64); KINDS];

/// The sizes of each kind for each moment: at its time of most areas, and at its time of most
/// bytes.
#[derive(Debug, Default)]
pub(super) struct Series {
    bins: Vec<Bin>,
    last: Size,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    areas: [u64; KINDS],
    bytes: [u64; KINDS],
}

fn sum(values: &[u64; KINDS]) -> u64 {
    values.iter().fold(0, |sum, value| sum.saturating_add(*value))
}

impl Bin {
    fn see(&mut self, other: &Bin) {
        if sum(&other.areas) >= sum(&self.areas) {
            self.areas = other.areas;
        }
        if sum(&other.bytes) >= sum(&self.bytes) {
            self.bytes = other.bytes;
        }
    }
}

impl Series {
    fn set(&mut self, bin: usize, size: &Size) {
        let of = |size: &Size| Bin { areas: size.map(|(areas, _)| areas), bytes: size.map(|(_, bytes)| bytes) };
        let bin = bin.max(self.bins.len().saturating_sub(1));
        // The former size lasted until now.
        while self.bins.len() <= bin {
            self.bins.push(of(&self.last));
        }
        self.bins[bin].see(&of(size));
        self.last = *size;
    }

    fn halve(&mut self) {
        let pair = |pair: &[Bin]| {
            let mut one = pair[0];
            pair[1..].iter().for_each(|other| one.see(other));
            one
        };
        self.bins = self.bins.chunks(2).map(pair).collect();
    }

    /// Most areas at one moment.
    pub(super) fn most(&self) -> u64 {
        self.bins.iter().map(|bin| sum(&bin.areas)).max().unwrap_or(0)
    }

    /// The areas and the bytes of a kind, of each moment.
    pub(super) fn of(&self, kind: usize) -> (Vec<u64>, Vec<u64>) {
        self.bins.iter().map(|bin| (bin.areas[kind], bin.bytes[kind])).unzip()
    }
}

/// All series, with moments of the same length.
#[derive(Debug)]
pub(super) struct Times {
    /// Nanoseconds in a moment.
    pub(super) bin_ns: u64,
    last_ns: u64,
    /// Of all spaces together.
    pub(super) all: Series,
    pub(super) spaces: BTreeMap<u64, Series>,
    /// Calls by name.
    pub(super) calls: BTreeMap<&'static str, Vec<u64>>,
}

impl Default for Times {
    fn default() -> Self {
        Times { bin_ns: 1 << 10, last_ns: 0, all: Series::default(), spaces: BTreeMap::new(), calls: BTreeMap::new() }
    }
}

impl Times {
    /// Number of moments.
    pub(super) fn bins(&self) -> u64 {
        self.last_ns / self.bin_ns + 1
    }

    /// The moment of a time; extends the series to it.
    fn bin(&mut self, ns: u64) -> usize {
        self.last_ns = self.last_ns.max(ns);
        while self.last_ns / self.bin_ns >= BINS {
            self.bin_ns = self.bin_ns.saturating_mul(2);
            self.all.halve();
            self.spaces.values_mut().for_each(Series::halve);
            for calls in self.calls.values_mut() {
                *calls = calls.chunks(2).map(|pair| pair.iter().sum()).collect();
            }
        }
        (ns / self.bin_ns) as usize
    }

    /// Notes the sizes from this time on, of all spaces and optionally of one space.
    pub(super) fn size(&mut self, ns: u64, all: &Size, space: Option<(u64, &Size)>) {
        let bin = self.bin(ns);
        self.all.set(bin, all);
        if let Some((space, size)) = space {
            self.spaces.entry(space).or_default().set(bin, size);
        }
    }

    /// Counts a call.
    pub(super) fn call(&mut self, ns: u64, name: &'static str) {
        let bin = self.bin(ns);
        let calls = self.calls.entry(name).or_default();
        if calls.len() <= bin {
            calls.resize(bin + 1, 0);
        }
        calls[bin] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_of_every_moment_is_kept() {
        let mut times = Times::default();
        let mut sizes = Vec::new();
        let mut rng = fastrand::Rng::with_seed(11);
        let mut ns = 0;
        for i in 0..20_000_u64 {
            ns += rng.u64(0..(1 + i));
            let mut size = Size::default();
            size[rng.usize(0..KINDS)] = (rng.u64(0..1000), rng.u64(0..1000));
            size[rng.usize(0..KINDS)] = (rng.u64(0..1000), rng.u64(0..1000));
            times.size(ns, &size, Some((i % 3, &size)));
            times.call(ns, if i % 2 == 0 { "mmap" } else { "brk" });
            sizes.push((ns, size));
            assert!(times.bins() <= BINS);
        }
        assert_eq!(times.calls.values().flatten().sum::<u64>(), 20_000);
        for (bin, seen) in times.all.bins.iter().enumerate() {
            let mut of: Vec<&Size> =
                sizes.iter().filter(|(ns, _)| (ns / times.bin_ns) as usize == bin).map(|(_, size)| size).collect();
            // The size at the previous moment lasts into this one.
            if of.is_empty() {
                of = sizes
                    .iter()
                    .rev()
                    .find(|(ns, _)| ((ns / times.bin_ns) as usize) < bin)
                    .map(|(_, size)| size)
                    .into_iter()
                    .collect();
            }
            let most = of.iter().map(|size| size.iter().map(|(areas, _)| areas).sum::<u64>()).max().unwrap_or(0);
            assert!(sum(&seen.areas) >= most, "{bin}");
        }
        let most = sizes.iter().map(|(_, size)| size.iter().map(|(areas, _)| areas).sum::<u64>()).max().unwrap();
        assert_eq!(times.all.most(), most);
        times.size(u64::MAX, &Size::default(), None);
        assert!(times.bins() <= BINS);
    }
}
