//! Tests: finding a program, and reading the capabilities of its file.

use super::*;

#[test]
fn path_is_searched_as_execvp_does() {
    let all = candidates(OsStr::new("ls"), Some("/a::/b/".into()));
    assert_eq!(all, ["/a/ls", "./ls", "/b//ls"]);
    assert_eq!(candidates(OsStr::new("./x"), Some("/a".into())), ["./x"]);
    assert_eq!(candidates(OsStr::new("x"), None), ["/bin/x", "/usr/bin/x"]);
}

#[test]
fn capabilities_of_a_file_are_read() {
    // Version 2, effective; CAP_NET_RAW and CAP_PERFMON.
    let words: [u32; 5] = [0x0200_0001, 1 << 13, 0, 1 << 6, 0];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(permitted(&bytes), Some(1 << 13 | 1 << 38));
    assert_eq!((permitted(&bytes[..7]), permitted(&[])), (None, None));
}
