//! Forks the child that becomes the program: between fork and exec it allocates nothing.

#![allow(unsafe_code)]

use std::ffi::{CString, c_long};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::Arc;

use crate::os::origin;
use crate::os::sys::{Tid, check, pipe};

/// A program ready to be run: everything that the child needs, so it allocates nothing.
pub(crate) struct Launch {
    /// Paths to try in order, as `execvp` does.
    pub(crate) paths: Vec<CString>,
    pub(crate) argv: Vec<CString>,
    /// The seccomp filter to install, if any.
    pub(crate) filter: Option<Vec<libc::sock_filter>>,
    /// The standard streams of a program that is kept away from the recorder's terminal.
    pub(crate) apart: Option<Apart>,
}

/// The standard streams of a program in a new session.
pub(crate) struct Apart {
    pub(crate) input: File,
    pub(crate) output: Arc<File>,
}

/// A child that waits for a byte on `go`, and reports failures on `report`.
pub(crate) struct Child {
    pub(crate) pid: Tid,
    pub(crate) go: OwnedFd,
    pub(crate) report: OwnedFd,
}

/// A report is a letter, an errno, and one more byte. This letter: the filter was not installed.
pub(crate) const REPORT_FILTER: u8 = b'F';
/// `execve` failed for good. The last byte of the report is the index of the path.
pub(crate) const REPORT_EXEC: u8 = b'E';

/// Forks the child that will become the program. It waits for a byte on `go`.
pub(crate) fn fork_child(launch: &Launch) -> io::Result<Child> {
    let (go_read, go) = pipe()?;
    let (report, report_write) = pipe()?;
    let null_ended = |list: &[&CString]| -> Vec<*const libc::c_char> {
        list.iter().map(|s| s.as_ptr()).chain([ptr::null()]).collect()
    };
    let argv = null_ended(&launch.argv.iter().collect::<Vec<_>>());
    // execvp runs a file of unknown format with the shell: /bin/sh PATH ARGS...
    let shell = c"/bin/sh".to_owned();
    let shells: Vec<Vec<*const libc::c_char>> = launch
        .paths
        .iter()
        .map(|p| null_ended(&[&shell, p].into_iter().chain(launch.argv.iter().skip(1)).collect::<Vec<_>>()))
        .collect();
    // SAFETY: the child calls only async-signal-safe functions (see `child_main`), so a process
    // with threads may fork.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: this is the forked child, and all pointers lead to live objects of this function.
        unsafe {
            child_main(launch, &argv, &shells, &shell, go_read.as_raw_fd(), go.as_raw_fd(), report_write.as_raw_fd())
        }
    }
    check(c_long::from(pid))?;
    Ok(Child { pid, go, report })
}

/// Runs in the forked child: waits, installs the filter, executes the program. Exits if that fails.
/// Allocates nothing and takes no lock.
///
/// # Safety
/// Only in a freshly forked child. `argv` and each of `shells` must be null-terminated lists of
/// live C strings.
unsafe fn child_main(
    launch: &Launch,
    argv: &[*const libc::c_char],
    shells: &[Vec<*const libc::c_char>],
    shell: &CString,
    go_read: RawFd,
    go_write: RawFd,
    report: RawFd,
) -> ! {
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    // SAFETY: the system calls use our own descriptors and live buffers, and the lists of strings
    // are live and null-terminated, as this function's contract says.
    unsafe {
        libc::close(go_write);
        *libc::__errno_location() = 0; // end of file does not set errno
        let mut byte = 0u8;
        while libc::read(go_read, ptr::from_mut(&mut byte).cast(), 1) != 1 {
            if *libc::__errno_location() != libc::EINTR {
                libc::_exit(127);
            }
        }
        origin::bring_back();
        if let Some(Apart { input, output }) = &launch.apart {
            // These calls cannot fail: a child leads no process group, and the files are open.
            libc::setsid();
            libc::dup2(input.as_raw_fd(), 0);
            libc::dup2(output.as_raw_fd(), 1);
            libc::dup2(output.as_raw_fd(), 2);
        }
        let tell = |letter: u8, which: u8| {
            let errno = (*libc::__errno_location()).to_ne_bytes();
            let message = [letter, errno[0], errno[1], errno[2], errno[3], which];
            libc::write(report, message.as_ptr().cast(), message.len());
        };
        if let Some(filter) = &launch.filter
            && !install_filter(filter)
        {
            tell(REPORT_FILTER, 0);
        }
        let (mut denied, mut which) = (false, 0u8);
        for (i, (path, shell_argv)) in launch.paths.iter().zip(shells).enumerate() {
            libc::execve(path.as_ptr(), argv.as_ptr(), environ);
            match *libc::__errno_location() {
                libc::ENOEXEC => {
                    libc::execve(shell.as_ptr(), shell_argv.as_ptr(), environ);
                    which = i as u8;
                    denied = false;
                    break;
                }
                libc::EACCES => {
                    if !denied {
                        which = i as u8;
                    }
                    denied = true;
                }
                libc::ENOENT | libc::ENOTDIR | libc::ESTALE | libc::ENODEV | libc::ETIMEDOUT => {}
                _ => {
                    which = i as u8;
                    denied = false;
                    break;
                }
            }
        }
        if denied {
            *libc::__errno_location() = libc::EACCES;
        }
        tell(REPORT_EXEC, which);
        libc::_exit(127)
    }
}

/// Installs the filter in this process. Sets no-new-privileges only if the kernel requires it (not
/// for root).
///
/// # Safety
/// Async-signal-safe. Changes the calling process for good.
unsafe fn install_filter(filter: &[libc::sock_filter]) -> bool {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: `program` describes the live slice, which the kernel only reads.
    let install = |flags: libc::c_ulong| unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) == 0
    };
    // SAFETY: reads this thread's errno.
    let errno = || unsafe { *libc::__errno_location() };
    // SPEC_ALLOW: the filter guards nothing, so it need not turn off speculation in the program.
    let both = || install(libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW) || (errno() == libc::EINVAL && install(0));
    if both() {
        return true;
    }
    // SAFETY: all arguments are numbers.
    errno() == libc::EACCES && unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } == 0 && both()
}
