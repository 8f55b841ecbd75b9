//! Lines of `smaps` that depend on the processor.

use samara_mm::{AddressSpace, Config, FileId, MapRequest, Prot, Usage};

#[test]
fn every_area_shows_its_key_if_there_are_keys() {
    for protection_keys in [false, true] {
        let mut space = AddressSpace::<FileId>::new(Config { protection_keys, vsyscall: true, ..Config::default() });
        space.map(&MapRequest::anonymous(0x10000, 0x1000, Prot::READ)).unwrap();
        space.map(&MapRequest::anonymous(0x20000, 0x1000, Prot::EXEC)).unwrap();
        let text = space.smaps(|_| Usage::default()).to_string();
        let keys: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("ProtectionKey:")).map(str::trim).collect();
        let want: &[&str] = if protection_keys { &["0", "1", "0"] } else { &[] };
        assert_eq!(keys, want, "with keys: {protection_keys}");
    }
}
