//! Page sizes, and rounding to them.

/// A page size in bytes: a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageSize(u64);

impl PageSize {
    /// 4 KiB.
    pub const K4: PageSize = PageSize(4096);
    /// 2 MiB.
    pub const M2: PageSize = PageSize(1 << 21);
    /// 1 GiB.
    pub const G1: PageSize = PageSize(1 << 30);

    /// `bytes` as a page size; `None` unless it is a power of two from 256 to 2^40.
    pub const fn new(bytes: u64) -> Option<PageSize> {
        if bytes.is_power_of_two() && bytes >= 256 && bytes <= 1 << 40 { Some(PageSize(bytes)) } else { None }
    }

    /// The size in bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// Whether `x` is a multiple of the page size.
    pub(crate) fn holds(self, x: u64) -> bool {
        x & (self.0 - 1) == 0
    }

    /// `x` rounded down to a multiple of the page size.
    pub(crate) fn down(self, x: u64) -> u64 {
        x & !(self.0 - 1)
    }

    /// `x` rounded up to a multiple of the page size, wrapping to 0.
    pub(crate) fn up(self, x: u64) -> u64 {
        x.wrapping_add(self.0 - 1) & !(self.0 - 1)
    }
}
