//! Loops that edit while they walk: what the cursor points to after each edit, and that every entry
//! is met once.

use samara::testing::TinyMap;
use samara::{RangeMap, Span};

const N: u64 = if cfg!(miri) { 100 } else { 5000 };

macro_rules! loops {
    ($($module:ident: $map:ty;)*) => {$(
        mod $module {
            use super::*;

            /// Entries of six keys, ten apart.
            fn map() -> $map {
                RangeMap::from_sorted((0..N).map(|n| (Span::new(n * 10, n * 10 + 5), n))).unwrap()
            }

            /// Every second entry goes. Steps: one an entry, none over again.
            #[test]
            fn erase() {
                let mut map = map();
                let mut cursor = map.cursor_mut(0);
                let (mut steps, mut met) = (0, Vec::new());
                let mut here = cursor.current().is_some();
                while here {
                    let (span, value) = cursor.current().map(|(span, value)| (span, *value)).unwrap();
                    met.push(value);
                    if value % 2 == 1 {
                        assert_eq!(cursor.erase(), Some((span, value)));
                        // On the whole gap that is left, from the entry before to the one behind.
                        assert!(cursor.current().is_none() && cursor.erase().is_none());
                        let last = if value + 1 == N { u64::MAX } else { value * 10 + 9 };
                        assert_eq!(cursor.span(), Span::new(value * 10 - 4, last));
                    }
                    here = cursor.next().is_some();
                    steps += 1;
                }
                assert_eq!(steps, N);
                assert!(met.into_iter().eq(0..N));
                map.check().unwrap();
                assert!(map.values().copied().eq((0..N).step_by(2)));
            }

            /// The same from behind.
            #[test]
            fn erase_backwards() {
                let mut map = map();
                let mut cursor = map.cursor_mut(u64::MAX);
                let mut steps = 0;
                while let Some((span, value)) = cursor.prev().map(|(span, value)| (span, *value)) {
                    if value % 3 == 0 {
                        assert_eq!(cursor.erase(), Some((span, value)));
                    }
                    steps += 1;
                }
                assert_eq!(steps, N);
                map.check().unwrap();
                assert!(map.values().copied().eq((0..N).filter(|n| n % 3 > 0)));
            }

            /// Each entry is cut in three, which splits every leaf on the way: the cursor points to
            /// the new entry, the next one is the upper part, and the one after that is an entry
            /// that has not been met.
            #[test]
            fn store_inside() {
                let mut map = map();
                let mut cursor = map.cursor_mut(0);
                let mut steps = 0;
                while let Some((span, value)) = cursor.current().map(|(span, value)| (span, *value)) {
                    assert_eq!((span, value), (Span::new(steps * 10, steps * 10 + 5), steps));
                    cursor.store(Span::new(span.first + 2, span.first + 3), N + value).unwrap();
                    assert_eq!(cursor.current(), Some((Span::new(span.first + 2, span.first + 3), &(N + value))));
                    assert_eq!(cursor.next(), Some((Span::new(span.first + 4, span.last), &value)));
                    steps += 1;
                    if cursor.next().is_none() {
                        break;
                    }
                }
                assert_eq!(steps, N);
                assert_eq!(map.len() as u64, 3 * N);
                map.check().unwrap();
            }

            /// Each entry is stored over itself and the next one: the cursor points to the new
            /// entry, and goes on after it.
            #[test]
            fn store_over_the_next() {
                let mut map = map();
                let mut cursor = map.cursor_mut(0);
                let mut steps = 0;
                while let Some((span, _)) = cursor.current() {
                    cursor.store(Span::new(span.first, span.first + 15), steps).unwrap();
                    assert_eq!(cursor.span(), Span::new(span.first, span.first + 15));
                    steps += 1;
                    if cursor.next().is_none() {
                        break;
                    }
                }
                assert_eq!(steps, N / 2);
                assert!(map.values().copied().eq(0..N / 2));
                map.check().unwrap();
            }

            /// Gaps are filled on the way, and boundaries moved.
            #[test]
            fn fill_and_move() {
                let mut map = map();
                let mut cursor = map.cursor_mut(0);
                let mut gaps = 0;
                while cursor.next_range() {
                    if cursor.current().is_some() {
                        let last = cursor.span().last;
                        cursor.set_last(last - 1).unwrap();
                    } else {
                        let gap = cursor.span();
                        if gap.last == u64::MAX {
                            break;
                        }
                        cursor.store(gap, N + gaps).unwrap();
                        assert_eq!(cursor.span(), gap);
                        gaps += 1;
                    }
                }
                // The first gap is behind an entry that kept its end; all others are one key wider.
                assert!(gaps >= N - 1);
                map.check().unwrap();
                assert_eq!(map.len() as u64, N + gaps);
            }
        }
    )*};
}

loops! {
    real: RangeMap<u64, u64>;
    tiny: TinyMap<u64, u64>;
}
