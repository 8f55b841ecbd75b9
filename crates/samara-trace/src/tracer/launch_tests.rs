//! Tests: finding a program, and explaining refusals.

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

#[test]
fn refusal_names_the_setting() {
    assert!(explain("2", "").contains("ptrace_scope is 2"));
    assert!(explain("3", "").contains("reboot"));
    assert!(explain("1", "Name:\tx\nSeccomp:\t2\n").contains("SYS_PTRACE"));
    assert!(explain("1", "TracerPid:\t77\nSeccomp:\t0\n").contains("itself traced"));
    assert!(explain("", "Seccomp:\t0\n").contains("security module"));
}
