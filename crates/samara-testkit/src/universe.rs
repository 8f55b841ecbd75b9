//! Which keys a script uses. Knows nothing of maps.
//!
//! In a small universe ranges overlap often. Most universes reach both ends of the key space.

use crate::key::TestKey;
use arbitrary::{Result, Unstructured};
use samara::Span;

/// Which keys a script uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Universe {
    /// The lowest keys, this many.
    Low(u32),
    /// The highest keys, this many.
    High(u32),
    /// The lowest and the highest keys, this many on each side.
    Both(u32),
    /// Bounds at multiples of 4096, this many pages from key 0.
    Pages(u32),
    /// Around key 2^32, where the upper half of a 64-bit key changes, this many. (Of narrower keys,
    /// around the middle.)
    Middle(u32),
    /// Any key.
    Whole,
}

impl Universe {
    /// A universe of any kind.
    ///
    /// # Errors
    /// As [`Unstructured`]'s methods.
    pub fn arbitrary(u: &mut Unstructured<'_>) -> Result<Self> {
        Ok(match u.int_in_range(0..=5)? {
            0 => Universe::Low(u.int_in_range(2..=255)?),
            1 => Universe::High(u.int_in_range(2..=255)?),
            2 => Universe::Both(u.int_in_range(1..=100)?),
            3 => Universe::Pages(u.int_in_range(2..=4096)?),
            4 => Universe::Middle(u.int_in_range(4..=4096)?),
            _ => Universe::Whole,
        })
    }

    /// A key of the universe; sometimes one beyond its border.
    ///
    /// # Errors
    /// As [`Unstructured`]'s methods.
    pub fn key<K: TestKey>(&self, u: &mut Unstructured<'_>) -> Result<K> {
        let max = K::MAX.to_u128();
        Ok(match *self {
            Universe::Low(n) => K::from_u128(u128::from(u.int_in_range(0..=n)?)),
            Universe::High(n) => K::from_u128(max - u128::from(u.int_in_range(0..=n)?)),
            Universe::Both(n) => {
                let at = u128::from(u.int_in_range(0..=n)?);
                K::from_u128(if u.arbitrary()? { at } else { max - at })
            }
            Universe::Pages(n) => {
                let page = u128::from(u.int_in_range(0..=n)?) << 12;
                K::from_u128(page + u128::from(u.int_in_range(0..=4095_u32)?))
            }
            Universe::Middle(n) => {
                let middle = if max >> 33 == 0 { max / 2 } else { 1 << 32 };
                K::from_u128(middle - u128::from(n / 2) + u128::from(u.int_in_range(0..=n)?))
            }
            Universe::Whole => match u.int_in_range(0..=15_u8)? {
                0 => K::MIN,
                1 => K::MAX,
                // Few bits set, so that lengths of every magnitude come up.
                2..=5 => K::from_u128(1_u128 << u.int_in_range(0..=127_u32)?),
                _ => K::from_u128(u.arbitrary::<u128>()?),
            },
        })
    }

    /// A range of the universe: mostly short, sometimes any, full or empty (its first key after
    /// its last).
    ///
    /// # Errors
    /// As [`Unstructured`]'s methods.
    pub fn span<K: TestKey>(&self, u: &mut Unstructured<'_>) -> Result<Span<K>> {
        let mut first: K = self.key(u)?;
        let shape = u.int_in_range(0..=1023_u16)?;
        // In a universe of many keys these would leave few entries.
        let rare = !matches!(self, Universe::Pages(_)) || u.int_in_range(0..=15_u8)? == 0;
        match shape {
            1023 if rare => return Ok(Span::FULL),
            // Empty in half of the cases.
            1011..1023 => return Ok(Span::new(first, self.key(u)?)),
            981..1011 if rare => {
                let other = self.key(u)?;
                return Ok(Span::new(first.min(other), first.max(other)));
            }
            _ => {}
        }
        // One in eight covers several entries.
        let far = if shape % 8 == 7 { 8 } else { 1 };
        let longest: u128 = match self {
            Universe::Low(_) | Universe::High(_) | Universe::Both(_) | Universe::Middle(_) => {
                far * u128::from(u.int_in_range(1..=4_u8)?)
            }
            Universe::Pages(_) => {
                first = K::from_u128(first.to_u128() & !0xfff);
                (far * 4) << 12
            }
            // Of narrow keys at least one.
            Universe::Whole => (K::MAX.to_u128() >> (12 + u32::from(shape % 16))).max(1) * far,
        };
        let mut extra = u.arbitrary::<u128>()? % longest;
        if matches!(self, Universe::Pages(_)) {
            extra |= 0xfff;
        }
        let last = first.checked_add(K::from_u128(extra)).unwrap_or(K::MAX);
        Ok(Span::new(first, last))
    }
}
