use std::collections::BTreeMap;
use std::fs::File;

use object::ReadRef;

use super::{Budget, ENTRY_BYTES, NAME_BYTES, Nearest, Source, unpacked};

/// The same result as a map of all entries in which later ones replace earlier ones.
#[test]
fn the_nearest_is_found_in_one_pass() {
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..500 {
        let mut wanted: Vec<u64> = (0..random.usize(0..20)).map(|_| random.u64(0..100)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let (mut nearest, mut all) = (Nearest::new(&wanted), BTreeMap::new());
        for i in 0..random.u32(0..60) {
            let start = random.u64(0..100);
            nearest.add(start, |at| {
                assert!(start <= at);
                Some(i)
            });
            all.insert(start, i);
        }
        let before = |at: &u64| all.range(..=*at).next_back().map(|(start, i)| (*at, *start, *i));
        let expected: Vec<_> = wanted.iter().filter_map(before).collect();
        assert_eq!(nearest.all().map(|(at, start, i)| (at, start, *i)).collect::<Vec<_>>(), expected);
    }
}

/// A name costs its length, once. A name that is too long or does not end costs nothing.
#[test]
fn names_are_taken() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::write(&path, [b"four\0".to_vec(), vec![b'x'; 5000], b"\0end".to_vec()].concat()).unwrap();
    let file = File::open(&path).unwrap();
    let budget = Budget::of(1 << 20);
    let source = Source::new(&file, &budget);
    for _ in 0..2 {
        assert_eq!((&source).read_bytes_at_until(0..100, 0), Ok(&b"four"[..]));
        assert_eq!(budget.left(), (1 << 20) - 4 - ENTRY_BYTES);
    }
    let left = budget.left();
    assert!((&source).read_bytes_at_until(5006..5009, 0).is_err() && !source.refused(), "it does not end");
    assert!((&source).read_bytes_at_until(5..5009, 0).is_err() && source.refused(), "it is too long");
    assert_eq!(budget.left(), left);
    assert!(budget.take(budget.left() - NAME_BYTES));
    assert!((&source).read_bytes_at_until(2..100, 0).is_err());
    assert_eq!((&source).read_bytes_at_until(0..100, 0), Ok(&b"four"[..]), "it is there already");
}

/// Bytes are taken once, before they are read, and a file that claims a large size costs nothing.
#[test]
fn what_is_read_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let file = File::create_new(&path).unwrap();
    file.set_len(1 << 30).unwrap();
    let file = File::open(&path).unwrap();
    let budget = Budget::of(1000 + ENTRY_BYTES);
    let source = Source::new(&file, &budget);
    assert_eq!((&source).read_bytes_at(5, 600).unwrap().len(), 600);
    assert_eq!((&source).read_bytes_at(5, 600).unwrap().len(), 600);
    assert!(budget.left() == 400 && !source.refused());
    assert!((&source).read_bytes_at(0, 1 << 31).is_err() && !source.refused(), "the file has less");
    assert!((&source).read_bytes_at(0, 1 << 30).is_err() && source.refused());
    assert_eq!(budget.left(), 400);
}

/// A section that declares a smaller size than it has.
#[test]
fn no_more_is_unpacked_than_a_section_says() {
    let packed = ruzstd::encoding::compress_to_vec(&[7; 300_000][..], ruzstd::encoding::CompressionLevel::Fastest);
    assert_eq!(unpacked(&packed, 300_000), Some(vec![7; 300_000]));
    for size in [0, 1, 299_999, 300_001] {
        assert_eq!(unpacked(&packed, size), None);
    }
    let twice = [&packed[..], &packed].concat();
    assert_eq!(unpacked(&twice, 600_000).map(|all| all.len()), Some(600_000));
    assert_eq!(unpacked(&twice, 300_000), None);
    assert_eq!(unpacked(&packed[..packed.len() / 2], 300_000), None);
}
