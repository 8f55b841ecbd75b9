//! `serde`: what is written is read again; what is wrong is refused with a reason.

use samara::testing::TinyMap;
use samara::{RangeMap, RangeSet, Span, key_newtype};
use serde::de::value::{Error as ValueError, SeqDeserializer};
use serde::{Deserialize, Serialize};

key_newtype! {
    #[derive(Serialize, Deserialize)]
    struct Frame(u32);
}

#[test]
fn written_and_read_again() {
    let map: RangeMap<u64, String> = [(0..=9, "a".to_owned()), (10..=u64::MAX, "b".to_owned())].into();
    let text = serde_json::to_string(&map).unwrap();
    assert_eq!(text, r#"[[0,9,"a"],[10,18446744073709551615,"b"]]"#);
    assert_eq!(serde_json::from_str::<RangeMap<u64, String>>(&text).unwrap(), map);
    assert_eq!(serde_json::to_string(&Span::new(1u64, 2)).unwrap(), "[1,2]");
    assert_eq!(serde_json::from_str::<Span>("[1,2]").unwrap(), Span::new(1, 2));
    let wide: RangeMap<u128, ()> = [(1..=u128::MAX, ())].into();
    let text = serde_json::to_string(&wide).unwrap();
    assert_eq!(serde_json::from_str::<RangeMap<u128, ()>>(&text).unwrap(), wide);
    let frames: RangeMap<Frame, u8> = [(Frame(1)..=Frame(2), 3)].into();
    assert_eq!(serde_json::to_string(&frames).unwrap(), "[[1,2,3]]");
    assert_eq!(serde_json::from_str::<RangeMap<Frame, u8>>("[[1,2,3]]").unwrap(), frames);
    assert!(serde_json::from_str::<RangeMap<u64, u8>>("[]").unwrap().is_empty());
}

#[test]
fn sets() {
    let set: RangeSet = [0..=9, 20..=29, u64::MAX..=u64::MAX].into();
    let text = serde_json::to_string(&set).unwrap();
    assert_eq!(text, "[[0,9],[20,29],[18446744073709551615,18446744073709551615]]");
    let read = serde_json::from_str::<RangeSet>(&text).unwrap();
    read.check().unwrap();
    assert_eq!(read, set);
    // Ranges that touch are one range.
    let joined = serde_json::from_str::<RangeSet<u8>>("[[0,9],[10,19],[21,21],[22,255]]").unwrap();
    joined.check().unwrap();
    assert!(joined.iter().eq([0..=19, 21..=255]));
    assert!(serde_json::from_str::<RangeSet>("[]").unwrap().is_empty());
    for (text, why) in [
        ("[[0,9],[9,12]]", "item 1: 0x9..=0xc starts before the end of the item before it"),
        ("[[0,9],[10,12],[20,29],[0,3]]", "item 3: 0x0..=0x3 starts before the end of the item before it"),
        ("[[0,1],[3,2]]", "item 1: the range 0x3..=0x2 holds no key"),
        ("[[0,1,2]]", "trailing"),
        (r#"{"first":0}"#, "expected a sequence of (first key, last key), ascending and without overlaps"),
    ] {
        let error = serde_json::from_str::<RangeSet>(text).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn many_entries_make_a_valid_map() {
    let map: TinyMap<u64, u64> = RangeMap::from_sorted((0..1000).map(|n| (Span::new(n * 10, n * 10 + 5), n))).unwrap();
    let text = serde_json::to_string(&map).unwrap();
    let read: TinyMap<u64, u64> = serde_json::from_str(&text).unwrap();
    read.check().unwrap();
    assert_eq!(read, map);
}

#[test]
fn what_is_wrong_is_refused() {
    for (text, why) in [
        ("[[0,9,1],[9,12,1]]", "item 1: 0x9..=0xc starts before the end of the item before it"),
        ("[[20,29,1],[0,9,1]]", "item 1: 0x0..=0x9 starts before the end of the item before it"),
        ("[[0,1,1],[3,2,1]]", "item 1: the range 0x3..=0x2 holds no key"),
        ("[[0,1]]", "invalid length 2"),
        ("[[-1,1,1]]", "invalid value: integer `-1`"),
        (r#"{"first":0}"#, "expected a sequence of (first key, last key, value), ascending and without overlaps"),
        ("[[0,1,1],[3,4,5]", "EOF"),
    ] {
        let error = serde_json::from_str::<RangeMap<u64, u32>>(text).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
    assert!(serde_json::from_str::<RangeMap<u32, u32>>("[[0,4294967296,1]]").is_err());
}

/// A sequence that claims to be endless costs no memory for the claim.
#[test]
fn a_claimed_length_is_not_believed() {
    struct Claims(u8);
    impl Iterator for Claims {
        type Item = (u64, u64, u32);
        fn next(&mut self) -> Option<Self::Item> {
            self.0 = self.0.checked_sub(1)?;
            let key = u64::from(100 - self.0) * 2;
            Some((key, key, 7))
        }
        fn size_hint(&self) -> (usize, Option<usize>) {
            (usize::MAX / 2, Some(usize::MAX / 2))
        }
    }
    impl ExactSizeIterator for Claims {}
    let entries =
        SeqDeserializer::<_, ValueError>::new(Claims(50).map(|(first, last, value)| Item(first, last, value)));
    let map = RangeMap::<u64, u32>::deserialize(entries).unwrap();
    assert_eq!(map.len(), 50);
    map.check().unwrap();
}

/// A triple as a deserializer.
struct Item(u64, u64, u32);

impl<'de> serde::de::IntoDeserializer<'de, ValueError> for Item {
    type Deserializer = SeqDeserializer<std::array::IntoIter<u64, 3>, ValueError>;
    fn into_deserializer(self) -> Self::Deserializer {
        SeqDeserializer::new([self.0, self.1, u64::from(self.2)].into_iter())
    }
}
