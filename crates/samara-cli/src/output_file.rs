//! A file that appears under its name when it is whole, or standard output. Knows nothing of what
//! is written.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// Where something is written that others read when it is whole.
pub(crate) struct Output {
    to: To,
}

enum To {
    Stdout(BufWriter<io::Stdout>),
    /// A device or a FIFO, which cannot be replaced.
    Device(BufWriter<File>),
    File(BufWriter<NamedTempFile>, PathBuf),
}

impl Output {
    /// Opens an output; `-` is standard output. A file is written beside its name.
    pub(crate) fn create(path: &Path) -> io::Result<Output> {
        if path == Path::new("-") {
            return Ok(Output { to: To::Stdout(BufWriter::new(io::stdout())) });
        }
        let there = path.metadata().ok();
        if there.as_ref().is_some_and(|there| there.is_dir()) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if there.as_ref().is_some_and(|there| !there.is_file()) {
            let file = File::options().write(true).open(path)?;
            return Ok(Output { to: To::Device(BufWriter::new(file)) });
        }
        // A symbolic link stays, and a file keeps its permissions.
        let path = if there.is_some() { path.canonicalize()? } else { path.to_owned() };
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut how = tempfile::Builder::new();
        let open_to_all = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        let file = how.prefix(".samara-").suffix(".part").permissions(open_to_all).tempfile_in(dir)?;
        if let Some(there) = there {
            file.as_file().set_permissions(there.permissions())?;
        }
        Ok(Output { to: To::File(BufWriter::with_capacity(1 << 16, file), path) })
    }

    /// Makes the file appear under its name.
    pub(crate) fn finish(self) -> io::Result<()> {
        match self.to {
            To::Stdout(mut out) => out.flush(),
            To::Device(mut out) => out.flush(),
            To::File(out, path) => {
                let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
                file.persist(path).map(drop).map_err(|error| error.error)
            }
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            To::Stdout(out) => out.write(bytes),
            To::Device(out) => out.write(bytes),
            To::File(out, _) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Stdout(out) => out.flush(),
            To::Device(out) => out.flush(),
            To::File(out, _) => out.flush(),
        }
    }
}
