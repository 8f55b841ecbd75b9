//! Replaces an older file by a new one, and can put the older one back. Knows nothing of traces.
//!
//! - **OLDER-1** once `begin` has returned, the name refers to the new file, or to what the caller
//!   has made of it. So a process that is killed then leaves no older file that looks like a new
//!   one.
//! - **OLDER-2** until `forget`, the older file is whole, under its own name or beside it. (A file
//!   that cannot be moved is emptied by `begin`.)

use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// What was there before.
#[derive(Debug, Default)]
pub(crate) enum Before {
    /// Something that stays in place: a device, a FIFO, or a file that could not be moved and was
    /// emptied.
    #[default]
    Kept,
    /// Nothing; the new file has this name.
    Nothing(PathBuf),
    /// A file that was moved: its name, and where it is now.
    Aside(PathBuf, PathBuf),
}

impl Before {
    /// Restores the former state as far as possible.
    pub(crate) fn restore(self) {
        let _ = match self {
            Before::Kept => Ok(()),
            // If it cannot be removed it stays as an empty trace.
            Before::Nothing(path) => path.canonicalize().and_then(std::fs::remove_file),
            // If it cannot be moved it stays beside the new file.
            Before::Aside(path, aside) => std::fs::rename(aside, path),
        };
    }

    /// Removes the older file.
    pub(crate) fn forget(self) {
        if let Before::Aside(_, aside) = self {
            // If this fails, an unused file is left, which does no harm.
            let _ = std::fs::remove_file(aside);
        }
    }
}

/// Opens a new, empty file with this name. An older file is moved aside, through symbolic links;
/// anything that is not a regular file is opened as it is.
pub(crate) fn begin(path: &Path) -> io::Result<(File, Before)> {
    let mut open = File::options();
    open.write(true).create(true).truncate(false);
    let Ok(old) = path.metadata() else {
        return Ok((open.open(path)?, Before::Nothing(path.to_owned())));
    };
    if !old.is_file() {
        return Ok((open.open(path)?, Before::Kept));
    }
    // A user who may not write to the older file may not replace it either.
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

/// Moves a file to an unused name in the same directory. Returns its former path and the new one.
fn move_aside(path: &Path, old: &Metadata) -> io::Result<(PathBuf, PathBuf)> {
    let path = path.canonicalize()?;
    let id = |meta: &Metadata| (meta.dev(), meta.ino());
    // A link of a descriptor in /proc may lead to a file that does not have the name that the link
    // shows.
    if id(&path.symlink_metadata()?) != id(old) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let pid = std::process::id();
    for n in 0..100 {
        let aside = path.with_file_name(format!(".samara-{pid}-{n}.old"));
        // A file of another thread, or one that a killed process with the same id left, must not be
        // overwritten.
        if aside.symlink_metadata().is_err() {
            std::fs::rename(&path, &aside)?;
            return Ok((path, aside));
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Creates a file with the owner and permissions of an older one.
fn like(path: &Path, old: &Metadata) -> io::Result<File> {
    let file = File::options().write(true).create_new(true).mode(old.mode() & 0o600).open(path)?;
    if file.metadata().is_ok_and(|new| (new.uid(), new.gid()) != (old.uid(), old.gid())) {
        // Only root can give a file away. Any other user who may write to the file becomes its
        // owner.
        let _ = fchown(&file, Some(old.uid()), Some(old.gid()));
    }
    file.set_permissions(Permissions::from_mode(old.mode() & 0o777))?;
    Ok(file)
}
