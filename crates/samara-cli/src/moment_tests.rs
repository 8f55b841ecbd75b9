//! Tests: moments as they are typed.

use super::*;

#[test]
fn moments_are_read() {
    for (text, moment) in [
        ("0", Moment::Event(0)),
        ("300", Moment::Event(300)),
        ("1.5s", Moment::Time(1_500_000_000)),
        ("0.000000001s", Moment::Time(1)),
        ("20ms", Moment::Time(20_000_000)),
        ("300us", Moment::Time(300_000)),
        ("2.5µs", Moment::Time(2_500)),
        ("7ns", Moment::Time(7)),
        ("1970-01-01T00:00:02.5Z", Moment::Clock(2_500_000_000)),
        ("1970-01-02 00:00:00", Moment::Clock(86_400_000_000_000)),
    ] {
        assert_eq!(text.parse(), Ok(moment), "{text}");
    }
    for text in [
        "",
        "s",
        "-1",
        "1.",
        ".5s",
        "1.s",
        "1..2s",
        "1h",
        "99999999999999999999",
        "99999999999s",
        "1.5",
        "0x10",
        "1 s",
        "2026-13-01T00:00:00Z",
        "20:15:00",
        "1969-12-31T23:59:59Z",
        "9999-12-31T00:00:00Z",
    ] {
        assert!(text.parse::<Moment>().is_err(), "{text}");
    }
}
