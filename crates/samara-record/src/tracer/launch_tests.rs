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
    let explained = |yama, own: &str, running: Option<&str>| {
        let status = |text: &str| Status(text.to_owned());
        explain(yama, &status(own), running.map(status).as_ref(), false)
    };
    assert!(explained("2", "", None).contains("ptrace_scope is 2"));
    assert!(explained("3", "", None).contains("reboot"));
    assert!(explained("1", "Name:\tx\nSeccomp:\t2\n", None).contains("SYS_PTRACE"));
    assert!(explained("1", "TracerPid:\t77\nSeccomp:\t0\n", None).contains("itself traced"));
    assert!(explained("", "Seccomp:\t0\n", None).contains("security module"));
    // A running process.
    let (user, root) = ("Uid:\t7\t7\t7\t7\n", "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n");
    assert!(explained("1", user, Some(root)).contains("belongs to user 0"));
    assert!(explained("1", user, Some(user)).contains("ptrace_scope is 1"));
    assert!(explained("2", user, Some(user)).contains("ptrace_scope is 2"));
    assert!(explained("0", user, Some(user)).contains("with CAP_SYS_PTRACE"));
    assert!(explained("2", root, Some(user)).contains("security module"));
    let (root, user) = (Status(root.to_owned()), Status(user.to_owned()));
    assert!(explain("0", &root, Some(&user), true).contains("user namespace"));
}
