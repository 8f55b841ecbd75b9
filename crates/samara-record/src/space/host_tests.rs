use std::sync::mpsc;
use std::time::Duration;

use nix::sys::stat::Mode;

use super::write_sealed;

/// A FIFO with the name of a memfd: the recorder does not wait for a writer, which may be the
/// stopped program.
#[test]
fn a_fifo_is_no_sealed_memfd_and_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("memfd:x");
    nix::unistd::mkfifo(&path, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    let (answer, answered) = mpsc::channel();
    std::thread::spawn(move || answer.send(write_sealed(path.to_str().unwrap())));
    assert_eq!(answered.recv_timeout(Duration::from_secs(60)), Ok(false), "it waits");
}
