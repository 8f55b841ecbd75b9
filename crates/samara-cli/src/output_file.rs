//! A file that appears under its name when it is whole, or standard output. Knows nothing of what
//! is written.

use std::fs::{File, Metadata, Permissions};
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::fcntl::{AT_FDCWD, AtFlags, OFlag};
use nix::unistd::linkat;
use tempfile::{Builder, NamedTempFile};

/// Whether two names are those of one file that has content: no device, and no FIFO.
pub(crate) fn is_same(a: &Path, b: &Path) -> bool {
    let id = |path: &Path| path.metadata().ok().filter(Metadata::is_file).map(|file| (file.dev(), file.ino()));
    id(a).is_some_and(|a| id(b) == Some(a))
}

/// Where something is written that others read when it is whole.
pub(crate) struct Output {
    to: To,
}

enum To {
    Stdout(BufWriter<io::Stdout>),
    /// A device or a FIFO, which cannot be replaced.
    Device(BufWriter<File>),
    /// A file without a name: nothing is left of it if this process is killed.
    Unnamed(BufWriter<File>, PathBuf),
    /// Where the file system has no such files.
    Named(BufWriter<NamedTempFile>, PathBuf),
}

impl Output {
    /// Opens an output; `-` is standard output. From now on a limit of file sizes (`ulimit -f`) is
    /// an error like any other, where its signal would end this process.
    pub(crate) fn create(path: &Path) -> io::Result<Output> {
        let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
        if path == Path::new("-") {
            return Ok(Output { to: To::Stdout(BufWriter::new(io::stdout())) });
        }
        let there = path.metadata().ok();
        if there.as_ref().is_some_and(|there| there.is_dir()) {
            return Err(ErrorKind::IsADirectory.into());
        }
        if there.as_ref().is_some_and(|there| !there.is_file()) {
            let file = File::options().write(true).open(path)?;
            return Ok(Output { to: To::Device(BufWriter::new(file)) });
        }
        // A symbolic link to a file stays, and a file keeps its permissions.
        let path = if there.is_some() { path.canonicalize()? } else { path.to_owned() };
        let dir = directory(&path);
        let unnamed = File::options().write(true).mode(0o666).custom_flags(OFlag::O_TMPFILE.bits()).open(dir);
        let to = match unnamed {
            Ok(file) => To::Unnamed(BufWriter::with_capacity(1 << 16, file), path),
            Err(why) if matches!(why.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) => return Err(why),
            Err(_) => {
                let file = part().permissions(Permissions::from_mode(0o666)).tempfile_in(dir)?;
                To::Named(BufWriter::with_capacity(1 << 16, file), path)
            }
        };
        if let Some(there) = there {
            match &to {
                To::Unnamed(file, _) => file.get_ref().set_permissions(there.permissions())?,
                To::Named(file, _) => file.get_ref().as_file().set_permissions(there.permissions())?,
                To::Stdout(_) | To::Device(_) => {}
            }
        }
        Ok(Output { to })
    }

    /// Whether it would go to a terminal.
    pub(crate) fn is_terminal(path: &Path) -> bool {
        path == Path::new("-") && io::stdout().is_terminal()
    }

    /// Makes the file appear under its name.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self.to {
            To::Stdout(mut out) => out.flush(),
            To::Device(mut out) => out.flush(),
            To::Unnamed(out, path) => {
                let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
                // A link cannot replace a file, but a rename can.
                let link = |name: &Path| {
                    let fd = format!("/proc/self/fd/{}", file.as_raw_fd());
                    Ok(linkat(AT_FDCWD, &*fd, AT_FDCWD, name, AtFlags::AT_SYMLINK_FOLLOW)?)
                };
                part().make_in(directory(&path), link)?.persist(&path).map_err(|error| error.error)
            }
            To::Named(out, path) => {
                let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
                file.persist(path).map(drop).map_err(|error| error.error)
            }
        }
    }
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The name of a file that is not whole yet.
fn part() -> Builder<'static, 'static> {
    let mut name = Builder::new();
    name.prefix(".samara-").suffix(".part");
    name
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            To::Stdout(out) => out.write(bytes),
            To::Device(out) | To::Unnamed(out, _) => out.write(bytes),
            To::Named(out, _) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Stdout(out) => out.flush(),
            To::Device(out) | To::Unnamed(out, _) => out.flush(),
            To::Named(out, _) => out.flush(),
        }
    }
}
