//! Tests: all bytes survive the conversion, and no output does harm.

use proptest::prelude::*;

use super::*;

#[test]
fn what_does_harm_is_escaped() {
    for (text, shown) in [
        ("plain \\012 ü 漢", "plain \\012 ü 漢"),
        ("a\nb\r\x1b[31m\x7f", "a\\012b\\015\\033[31m\\177"),
        ("\u{9b}31m", "\\302\\23331m"),
        ("x\u{202e}y\u{2066}z\u{200f}", "x\\342\\200\\256y\\342\\201\\246z\\342\\200\\217"),
        ("\u{2028}\u{feff}\u{e0041}", "\\342\\200\\250\\357\\273\\277\\363\\240\\201\\201"),
    ] {
        assert_eq!(Printable(text).to_string(), shown);
        assert_eq!(*name_bytes(text), *text.as_bytes());
        assert_eq!(name_text(text.as_bytes()), text);
    }
    assert_eq!(Printable(&name_text(b"\xff\xc3(\xed\xa0\x80")).to_string(), "\\377\\303(\\355\\240\\200");
    let twice = name_text("\u{10ff80}\u{10ffff}".as_bytes());
    assert_eq!(twice.chars().count(), 8, "a character that stands for a byte does not stand for itself");
    assert_eq!(*name_bytes(&twice), *"\u{10ff80}\u{10ffff}".as_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_bytes_come_back(bytes in prop::collection::vec(any::<u8>(), 0..60), of in any::<char>(), at in 0..60_usize) {
        let mut bytes = bytes;
        let at = at.min(bytes.len());
        bytes.splice(at..at, of.to_string().into_bytes());
        let text = name_text(&bytes);
        prop_assert_eq!(&*name_bytes(&text), &*bytes);
        let shown = Printable(&text).to_string();
        prop_assert!(shown.chars().all(Printable::is_plain), "{:?}", shown);
        prop_assert_eq!(Printable(&shown).to_string(), shown.clone());
    }
}
