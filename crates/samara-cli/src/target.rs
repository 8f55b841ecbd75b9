//! A file that is written when the program has ended, and left as it was if the program is not run.

use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// An open file that has not been changed yet.
pub(crate) struct Target {
    path: PathBuf,
    file: File,
    /// Whether the file did not exist before.
    made: bool,
}

impl Target {
    /// Opens the file early, so that a wrong name is reported before the program runs.
    pub(crate) fn open(path: &Path) -> io::Result<Target> {
        let made = !path.exists();
        let file = File::options().write(true).create(true).truncate(false).open(path)?;
        Ok(Target { path: path.to_owned(), file, made })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether writing to `path` would overwrite this file: it is the same file, and not a device
    /// such as `/dev/null`.
    pub(crate) fn is(&self, path: &Path) -> bool {
        let id = |m: &Metadata| (m.dev(), m.ino());
        let Ok(ours) = self.file.metadata() else { return false };
        !ours.file_type().is_char_device() && path.metadata().is_ok_and(|theirs| id(&theirs) == id(&ours))
    }

    /// Replaces the content of the file.
    pub(crate) fn write(mut self, text: &str) -> io::Result<()> {
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.file.write_all(text.as_bytes())
    }

    /// Leaves everything as it was.
    pub(crate) fn discard(self) {
        if self.made {
            // If it cannot be removed it stays as an empty file. A symbolic link to it stays in any
            // case.
            let _ = self.path.canonicalize().and_then(std::fs::remove_file);
        }
    }
}
