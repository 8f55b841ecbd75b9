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
    ] {
        assert_eq!(text.parse(), Ok(moment), "{text}");
    }
    for text in
        ["", "s", "-1", "1.", ".5s", "1.s", "1..2s", "1h", "99999999999999999999", "99999999999s", "1.5", "0x10", "1 s"]
    {
        assert!(text.parse::<Moment>().is_err(), "{text}");
    }
}
