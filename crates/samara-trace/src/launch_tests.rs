//! Finding a program, and the words for a refusal.

use super::*;

#[test]
fn path_is_searched_as_execvp_does() {
    let all = candidates(OsStr::new("ls"), Some("/a::/b/".into()));
    assert_eq!(all, ["/a/ls", "./ls", "/b//ls"]);
    assert_eq!(candidates(OsStr::new("./x"), Some("/a".into())), ["./x"]);
    assert_eq!(candidates(OsStr::new("x"), None), ["/bin/x", "/usr/bin/x"]);
}

#[test]
fn refusal_names_the_setting() {
    assert!(explain("2", "").contains("ptrace_scope is 2"));
    assert!(explain("3", "").contains("reboot"));
    assert!(explain("1", "Name:\tx\nSeccomp:\t2\n").contains("SYS_PTRACE"));
    assert!(explain("1", "TracerPid:\t77\nSeccomp:\t0\n").contains("itself traced"));
    assert!(explain("", "Seccomp:\t0\n").contains("security module"));
}
