//! A new file in the place of an older one, which can be put back for a while. Knows nothing of
//! traces.
//!
//! - **OLDER-1** from the moment that `begin` returns, what is under the name is the new file, or
//!   what the caller made of it: whoever is killed then leaves no older file that passes for a new
//!   one.
//! - **OLDER-2** the older file is whole, under its own name or beside it, until `forget`.

use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// What was there before.
#[derive(Debug, Default)]
pub(crate) enum Before {
    /// Something that is left as it is: a device, a FIFO, a file that could not be moved.
    #[default]
    Kept,
    /// Nothing: the new file.
    Nothing(PathBuf),
    /// A file that lies aside: its name, and where it is now.
    Aside(PathBuf, PathBuf),
}

impl Before {
    /// Makes everything as it was, as far as that can be.
    pub(crate) fn restore(self) {
        let _ = match self {
            Before::Kept => Ok(()),
            // It stays as an empty trace if it cannot be removed.
            Before::Nothing(path) => path.canonicalize().and_then(std::fs::remove_file),
            // It stays beside the new one if it cannot be moved.
            Before::Aside(path, aside) => std::fs::rename(aside, path),
        };
    }

    /// Nothing will be put back.
    pub(crate) fn forget(self) {
        if let Before::Aside(_, aside) = self {
            // A name too many is no harm.
            let _ = std::fs::remove_file(aside);
        }
    }
}

/// Opens a new, empty file of this name. An older one is moved aside, through symbolic links; what
/// is no file is opened as it is.
pub(crate) fn begin(path: &Path) -> io::Result<(File, Before)> {
    let mut open = File::options();
    open.write(true).create(true).truncate(false);
    let Ok(old) = path.metadata() else {
        return Ok((open.open(path)?, Before::Nothing(path.to_owned())));
    };
    if !old.is_file() {
        return Ok((open.open(path)?, Before::Kept));
    }
    // Whoever may not write to it may not replace it either.
    let file = open.open(path)?;
    match move_aside(path, &old) {
        Ok((path, aside)) => match like(&path, &old) {
            Ok(file) => Ok((file, Before::Aside(path, aside))),
            Err(error) => {
                std::fs::rename(&aside, &path)?;
                Err(error)
            }
        },
        Err(_) => {
            file.set_len(0)?;
            Ok((file, Before::Kept))
        }
    }
}

/// Moves a file to a name of its own beside it: where it was, and where it is.
fn move_aside(path: &Path, old: &Metadata) -> io::Result<(PathBuf, PathBuf)> {
    let path = path.canonicalize()?;
    let id = |meta: &Metadata| (meta.dev(), meta.ino());
    // A descriptor's link in /proc leads to a file that need not be under the name that it tells.
    if id(&path.symlink_metadata()?) != id(old) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let pid = std::process::id();
    for n in 0..100 {
        let aside = path.with_file_name(format!(".samara-{pid}-{n}.old"));
        // Another thread's, or one that a killed process of this number left: it is not written over.
        if aside.symlink_metadata().is_err() {
            std::fs::rename(&path, &aside)?;
            return Ok((path, aside));
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// A new file with an older one's owner and permissions.
fn like(path: &Path, old: &Metadata) -> io::Result<File> {
    let file = File::options().write(true).create_new(true).mode(old.mode() & 0o600).open(path)?;
    if file.metadata().is_ok_and(|new| (new.uid(), new.gid()) != (old.uid(), old.gid())) {
        // Only root may give a file away. Whoever else may write to it finds it his own.
        let _ = fchown(&file, Some(old.uid()), Some(old.gid()));
    }
    file.set_permissions(Permissions::from_mode(old.mode() & 0o777))?;
    Ok(file)
}
