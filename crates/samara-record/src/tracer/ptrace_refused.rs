//! Says which setting refuses ptrace, and how to allow it. Knows no tasks.

use crate::os::proc::{self, Status};

/// The setting that refuses tracing, and how to allow it. `running`: the status of an already
/// running process.
pub(crate) fn why(running: Option<&Status>) -> String {
    let yama = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    explain(yama.trim(), &Status::own(), running, proc::is_rootless())
}

fn explain(yama: &str, own: &Status, running: Option<&Status>, rootless: bool) -> String {
    let may = own.may_trace();
    // The real user.
    let (ours, theirs) = (own.number("Uid:"), running.map(|status| status.number("Uid:")));
    let text = match yama {
        _ if running.is_none() && own.number("TracerPid:") != 0 => {
            "this process is itself traced, by strace, a debugger or another samara, and a process has only one tracer: run samara outside of it"
        }
        "3" => {
            "kernel.yama.ptrace_scope is 3: no process may trace until the next boot. Set it to 1 in /etc/sysctl.d and reboot"
        }
        "2" if !may => {
            "kernel.yama.ptrace_scope is 2: only root (CAP_SYS_PTRACE) may trace. Run as root, or: sysctl kernel.yama.ptrace_scope=1"
        }
        _ if !may && theirs.is_some_and(|theirs| theirs != ours) => {
            return format!(
                "the process belongs to user {}, and this is user {ours}: run samara as that user, or \
                 with CAP_SYS_PTRACE, which root has outside of containers",
                theirs.unwrap_or_default()
            );
        }
        "1" if !may && running.is_some() => {
            "kernel.yama.ptrace_scope is 1: only descendants may be traced. Run as root, or: sysctl kernel.yama.ptrace_scope=0"
        }
        _ if own.is_filtered() => {
            "a seccomp filter is in force here, as in a container: start it with --cap-add=SYS_PTRACE (docker, podman), \
             or with a seccomp profile that allows ptrace"
        }
        _ if !may && running.is_some() => {
            "the process has changed its user, has privileges of its own, may not be read, or belongs to another user \
             namespace: run samara with CAP_SYS_PTRACE, which root has outside of containers"
        }
        _ if rootless && running.is_some() => {
            "the process is outside of this user namespace, and its capabilities do not count for it: run samara outside of it"
        }
        _ => {
            "neither kernel.yama.ptrace_scope nor a seccomp filter explains it: look for a security module's rule (SELinux boolean \
              deny_ptrace, AppArmor) or a sandbox around this process"
        }
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
