//! Runs the command in a terminal: a pseudo terminal, and an emulator that has the screen's
//! content.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::libc;
use nix::pty::{Winsize, grantpt, openpty, posix_openpt, ptsname_r, unlockpt};
use nix::sys::termios::{Termios, tcgetattr};

/// Time limit for a text to be on the screen, on the busiest machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The command in a terminal.
pub(crate) struct Terminal {
    child: Child,
    master: File,
    /// Keeps the terminal open when the command has ended.
    slave: OwnedFd,
    before: Termios,
    seen: Arc<Mutex<Seen>>,
}

struct Seen {
    parser: vt100::Parser,
    bytes: Vec<u8>,
}

fn number(n: u16) -> NonZeroU16 {
    NonZeroU16::new(n).unwrap()
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Starts `samara` with this terminal, in a new session. `controls`: it is the controlling
/// terminal, so its end sends a signal.
fn spawn(dir: &Path, terminal: &OwnedFd, controls: bool, args: &[&str], environment: &[(&str, &str)]) -> Child {
    let slave = || Stdio::from(terminal.try_clone().unwrap());
    let mut command = crate::samples::samara();
    command.current_dir(dir).args(args).env("TERM", "xterm-256color").envs(environment.iter().copied());
    command.stdin(slave()).stdout(slave()).stderr(slave());
    // SAFETY: the closure makes async-signal-safe calls only, with numbers. It makes the terminal,
    // which is standard input by then, that of the child's own session.
    unsafe {
        command.pre_exec(move || {
            libc::setsid();
            if controls {
                libc::ioctl(0, libc::TIOCSCTTY, 0);
            }
            Ok(())
        });
    }
    command.spawn().unwrap()
}

/// Runs `samara` in a terminal without a reader, and closes it after `when` has returned. Returns
/// the command's exit status. `controls`: as in `spawn`.
pub(crate) fn run_in_closed(dir: &Path, controls: bool, args: &[&str], when: impl FnOnce()) -> ExitStatus {
    // Not inherited by any child, unlike one of `openpty`: it would stay open.
    let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let slave = File::options().read(true).write(true).custom_flags(libc::O_NOCTTY).open(ptsname_r(&master).unwrap());
    let mut child = spawn(dir, &slave.unwrap().into(), controls, args, &[]);
    when();
    drop(master);
    child.wait().unwrap()
}

impl Terminal {
    /// Runs `samara` in `dir`, in a terminal of this size.
    pub(crate) fn run(
        dir: &Path,
        (rows, columns): (u16, u16),
        args: &[&str],
        environment: &[(&str, &str)],
    ) -> Terminal {
        let pair = openpty(&size(rows, columns), None).unwrap();
        let before = tcgetattr(&pair.slave).unwrap();
        let child = spawn(dir, &pair.slave, true, args, environment);
        let parser = vt100::Parser::new(number(rows), number(columns), 0);
        let seen = Arc::new(Mutex::new(Seen { parser, bytes: Vec::new() }));
        let (mut master, theirs) = (File::from(pair.master.try_clone().unwrap()), Arc::clone(&seen));
        std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(n @ 1..) = master.read(&mut some) {
                let mut seen = theirs.lock().unwrap();
                seen.parser.process(&some[..n]);
                seen.bytes.extend_from_slice(&some[..n]);
            }
        });
        Terminal { child, master: File::from(pair.master), slave: pair.slave, before, seen }
    }

    /// The content of the screen.
    pub(crate) fn screen(&self) -> String {
        self.seen.lock().unwrap().parser.screen().contents()
    }

    /// All bytes that were written to it.
    pub(crate) fn bytes(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap().bytes).into_owned()
    }

    /// Waits until all of these texts are on the screen.
    #[track_caller]
    pub(crate) fn shows(&self, texts: &[&str]) -> String {
        self.until(&format!("{texts:?}"), |screen| texts.iter().all(|text| screen.contains(text)))
    }

    /// Waits until the screen is as it should be.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, is_right: impl Fn(&str) -> bool) -> String {
        let began = Instant::now();
        loop {
            let screen = self.screen();
            if is_right(&screen) {
                return screen;
            }
            assert!(began.elapsed() < PATIENCE, "{what} did not come on the screen:\n{screen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn types(&self, keys: &str) {
        (&self.master).write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn resize(&self, rows: u16, columns: u16) {
        self.seen.lock().unwrap().parser.set_size(number(rows), number(columns));
        let size = size(rows, columns);
        // SAFETY: the request reads one `Winsize`.
        let done = unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        assert_eq!(done, 0);
    }

    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Whether its settings are those that it had before.
    pub(crate) fn is_as_before(&self) -> bool {
        tcgetattr(&self.slave).unwrap() == self.before
    }

    /// Types a key again and again until the command has ended. (Crossterm 0.29 may keep a key that
    /// comes together with a change of size until the next key.)
    pub(crate) fn types_until_it_ends(&mut self, key: &str) {
        let began = Instant::now();
        while self.child.try_wait().unwrap().is_none() && began.elapsed() < PATIENCE {
            self.types(key);
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Waits for the end, and checks that the terminal is as it was.
    #[track_caller]
    pub(crate) fn ends(&mut self) -> ExitStatus {
        let began = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(began.elapsed() < PATIENCE, "it does not end:\n{}", self.screen());
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!(self.is_as_before(), "the settings of the terminal");
        self.until("the first screen, with a cursor", |_| {
            let seen = self.seen.lock().unwrap();
            !seen.parser.screen().alternate_screen() && !seen.parser.screen().hide_cursor()
        });
        status
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It has ended, unless a test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
