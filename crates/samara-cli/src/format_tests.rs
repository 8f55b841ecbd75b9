//! Tests: numbers, bytes and times as they are printed.

use super::*;

#[test]
fn numbers_read_well() {
    assert_eq!((count(0), count(999), count(1_234_567)), ("0".into(), "999".into(), "1,234,567".into()));
    assert_eq!(
        (plural(1, "process"), plural(2, "process"), plural(0, "area")),
        ("1 process".into(), "2 processes".into(), "0 areas".into())
    );
    assert_eq!(
        (bytes(0), bytes(4096), bytes(1536), bytes(u64::MAX)),
        ("0 B".into(), "4 KiB".into(), "1.50 KiB".into(), "16 EiB".into())
    );
    assert_eq!(
        (time(7), time(1_500), time(12_345_678), time(u64::MAX)),
        ("7 ns".into(), "1.50 us".into(), "12.3 ms".into(), "18446744074 s".into())
    );
    assert_eq!((sparkline(&[]), sparkline(&[0, 1, 7, u64::MAX])), (String::new(), "▁▂▂█".into()));
}
