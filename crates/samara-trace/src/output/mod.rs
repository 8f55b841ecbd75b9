//! Output files: resolves names, and makes, replaces and removes files. All commands and
//! [`FileSink`](crate::FileSink) write through this module. Does not know the content.
//!
//! A user may write where others can change names: in a folder of another user, who may exchange an
//! entry for a symbolic link at any moment. So:
//!
//! - **OUTPUT-1** a name is resolved once. Everything later happens by the descriptor of its folder
//!   and its last component, and no step follows a link.
//! - **OUTPUT-2** only files that were opened or made here are removed, moved or put back: device
//!   and inode are compared before. A user who may change entries of the folder can do so between
//!   the comparison and the step. Then another entry *of that folder* is removed or moved; what a
//!   link leads to, and every other folder, stay as they are.
//! - **OUTPUT-3** once `replace` has returned, the name refers to the new file, or to what the
//!   caller has made of it. So a process that is killed then leaves no older file that looks like a
//!   new one.
//! - **OUTPUT-4** until `commit`, the older file is whole, under its own name or beside it. (A file
//!   that cannot be moved is emptied when the new content begins.)
//! - **OUTPUT-5** where samara chose the name, no link is followed, and no file of another user is
//!   replaced. This is checked when the name is chosen, and again just before the file gets it. For
//!   a name that the user gave, an entry that another user may have planted in a sticky folder is
//!   refused in the same way.

#![forbid(unsafe_code)]

mod folder;

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use nix::errno::Errno;

use folder::{Folder, Id, Link, id};

/// Maximum number of links that are followed, as in Linux.
const LINKS: u32 = 40;
/// Maximum number of numbers tried for a name that samara chose.
const NUMBERS: u32 = 1000;

/// Who may read a file that is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Only its owner, with any umask: files are made with mode 0600, directories with 0700.
    /// Traces hold arguments of programs and layouts of memory, as core dumps do.
    #[default]
    Owner,
    /// All users whom the umask allows: files are made with mode 0666, directories with 0777, less
    /// the umask.
    Umask,
}

/// A resolved name: the folder and the entry that it leads to. Nothing has been changed yet.
#[derive(Debug)]
pub struct OutputName {
    /// `None`: the file of a descriptor, which has no name here.
    place: Option<FolderEntry>,
    there: There,
    /// Whether samara chose it.
    chosen: bool,
}

#[derive(Debug)]
struct FolderEntry {
    folder: Folder,
    name: OsString,
}

/// The entry that has the name.
#[derive(Debug)]
enum There {
    /// No entry, or one that may be replaced without a look at it.
    Nothing,
    File(File),
    /// A device or a FIFO, which is written to in place.
    Device(File),
}

impl OutputName {
    /// Resolves a name that the user gave, through symbolic links, and opens what is there. A FIFO
    /// blocks here until it has a reader.
    ///
    /// # Errors
    /// The directory does not exist, or the entry is a directory or may not be written to. A file
    /// or a link of another user in a sticky directory that others may write to (`/tmp`) is
    /// refused.
    pub fn resolve(path: &Path) -> io::Result<OutputName> {
        let (mut folder, mut name) = Folder::of(None, path)?;
        for _ in 0..LINKS {
            let there = match folder.open_there(&name) {
                Ok(file) => There::of(file)?,
                Err(why) if why.kind() == ErrorKind::NotFound => There::Nothing,
                Err(why) if why.raw_os_error() == Some(Errno::ELOOP as i32) => {
                    match folder.follow(&name)? {
                        Some(Link::To(target)) => (folder, name) = Folder::of(Some(&folder), Path::new(&target))?,
                        Some(Link::Open(file)) => {
                            return Ok(OutputName { place: None, there: There::of(file)?, chosen: false });
                        }
                        None => {}
                    }
                    continue;
                }
                Err(why) => return Err(why),
            };
            return Ok(OutputName { place: Some(FolderEntry { folder, name }), there, chosen: false });
        }
        Err(Errno::ELOOP.into())
    }

    /// A name for a file that [`whole`](OutputName::whole) writes, and that samara chose: `first`,
    /// or, if that is taken, the first one of `NAME-2.EXT`, `NAME-3.EXT`, ... that is free. A file
    /// of this user that is not write-protected is replaced; any other entry takes its name.
    /// Returns the path, too.
    ///
    /// # Errors
    /// The directory does not exist, or all names are taken.
    pub fn choose(first: &Path) -> io::Result<(OutputName, PathBuf)> {
        let (folder, name) = Folder::of(None, first)?;
        let free = numbered(&name).find(|name| folder.may_take(name)).ok_or(ErrorKind::AlreadyExists)?;
        let path = first.with_file_name(&free);
        Ok((OutputName { place: Some(FolderEntry { folder, name: free }), there: There::Nothing, chosen: true }, path))
    }

    /// The existing file, opened for writing. `None`: no file exists.
    pub fn existing(&self) -> Option<&File> {
        match &self.there {
            There::Nothing => None,
            There::File(file) | There::Device(file) => Some(file),
        }
    }

    /// Whether a write to one of the two would spoil the other: they are one name, or one file.
    /// (Any number of outputs may go to a device such as `/dev/null`.)
    pub fn is_same(&self, other: &OutputName) -> bool {
        let of = |name: &OutputName| name.existing().and_then(|file| file.metadata().ok());
        match (of(self), of(other)) {
            (Some(a), Some(b)) => !a.file_type().is_char_device() && id(&a) == id(&b),
            _ => match (&self.place, &other.place) {
                (Some(a), Some(b)) => a.name == b.name && a.folder.id().is_some_and(|id| b.folder.id() == Some(id)),
                _ => false,
            },
        }
    }

    /// Makes a new, empty file that has the name from now on. An older one is moved aside, to
    /// `.samara-PID-NUMBER.old` beside it, and removed by [`commit`](OutputFile::commit). If the
    /// folder may not be changed, or the file is a mount point, it is emptied.
    ///
    /// # Errors
    /// The file cannot be made. Then all is as it was.
    pub fn replace(self, access: Access) -> io::Result<OutputFile> {
        let (place, old) = match (self.place, self.there) {
            (_, There::Device(file)) => return Ok(OutputFile::as_it_is(file)),
            (None, There::File(file)) => {
                file.set_len(0)?;
                return Ok(OutputFile::as_it_is(file));
            }
            (None, There::Nothing) => return Err(ErrorKind::NotFound.into()),
            (Some(place), There::Nothing) => {
                let file = place.folder.create(&place.name, access)?;
                let made = id(&file.metadata()?);
                return Ok(OutputFile { file, state: State::Named { place, made, older: None } });
            }
            (Some(place), There::File(old)) => (place, old),
        };
        let of = old.metadata()?;
        if place.folder.id_of(&place.name) != Some(id(&of)) {
            return Err(io::Error::new(ErrorKind::AlreadyExists, "the file was replaced meanwhile: try again"));
        }
        let aside = match place.folder.move_aside(&place.name) {
            Ok(aside) => aside,
            Err(why) if is_fixed(&why) => {
                old.set_len(0)?;
                return Ok(OutputFile::as_it_is(old));
            }
            Err(why) => return Err(why),
        };
        let older = Older { aside, id: id(&of) };
        let made = place.folder.create(&place.name, access).and_then(|file| {
            let made = id(&file.metadata()?);
            Ok((file, made))
        });
        match made {
            Ok((file, made)) => {
                place.keep_permissions(&of, &file);
                Ok(OutputFile { file, state: State::Named { place, made, older: Some(older) } })
            }
            Err(why) => {
                place.put_back(None, &older);
                Err(why)
            }
        }
    }

    /// Makes a file that gets the name by [`commit`](OutputFile::commit), in place of an older one.
    /// If the directory may not be written to, or the older file is a mount point, that file is
    /// written to itself, and emptied by the first write.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn whole(self, access: Access) -> io::Result<OutputFile> {
        let chosen = self.chosen;
        let (place, old) = match (self.place, self.there) {
            (_, There::Device(file)) => return Ok(OutputFile::as_it_is(file)),
            (None, There::File(file)) => return Ok(OutputFile { file, state: State::Older }),
            (None, There::Nothing) => return Err(ErrorKind::NotFound.into()),
            (Some(place), There::Nothing) => (place, None),
            (Some(place), There::File(old)) if place.folder.has_mounted(&old) => {
                return Ok(OutputFile { file: old, state: State::Older });
            }
            (Some(place), There::File(old)) => (place, Some(old)),
        };
        let of = old.as_ref().and_then(|old| old.metadata().ok());
        let (file, part) = match place.folder.unnamed(access) {
            Ok(file) => (file, None),
            Err(_) => match (place.folder.part(access), old) {
                (Ok((part, file)), _) => (file, Some(part)),
                (Err(_), Some(old)) => return Ok(OutputFile { file: old, state: State::Older }),
                (Err(why), None) => return Err(why),
            },
        };
        if let Some(of) = of {
            place.keep_permissions(&of, &file);
        }
        Ok(OutputFile { file, state: State::Unseen { place, part, chosen } })
    }
}

impl There {
    fn of(file: File) -> io::Result<There> {
        match file.metadata()?.is_file() {
            true => Ok(There::File(file)),
            false => Ok(There::Device(file)),
        }
    }
}

/// An older file that was moved.
#[derive(Debug)]
struct Older {
    aside: OsString,
    id: Id,
}

impl FolderEntry {
    /// Gives a new file the permissions of the older one, if that was this user's, in a folder
    /// where only this user makes entries. Elsewhere another user could choose the readers.
    fn keep_permissions(&self, old: &Metadata, file: &File) {
        let Ok(new) = file.metadata() else { return };
        if old.uid() != new.uid() || !self.folder.is_private() {
            return;
        }
        let group = old.gid() == new.gid() || fchown(file, None, Some(old.gid())).is_ok();
        let kept = if group { 0o777 } else { 0o707 };
        // If this fails, the file is for its owner alone.
        let _ = file.set_permissions(Permissions::from_mode(old.mode() & kept));
    }

    /// Puts an older file back, unless a foreign file has taken its name. `ours`, which may have
    /// the name, is removed even if the older file has gone.
    fn put_back(&self, ours: Option<Id>, older: &Older) {
        let now = self.folder.id_of(&self.name);
        if now.is_some() && now != ours {
            return;
        }
        let is_there = self.folder.id_of(&older.aside) == Some(older.id);
        // If it cannot be moved it stays under the other name.
        if !(is_there && self.folder.rename(&older.aside, &self.name).is_ok())
            && let Some(ours) = ours
        {
            self.folder.remove(&self.name, ours);
        }
    }
}

/// Whether an entry cannot be moved because its folder may not be changed, because it is a mount
/// point, or because the file system moves nothing.
fn is_fixed(why: &io::Error) -> bool {
    let fixed = [Errno::EACCES, Errno::EPERM, Errno::EROFS, Errno::EBUSY, Errno::ENOSYS, Errno::EOPNOTSUPP];
    why.raw_os_error().is_some_and(|why| fixed.contains(&Errno::from_raw(why)))
}

/// The name, and those with a number before the extension.
fn numbered(name: &OsStr) -> impl Iterator<Item = OsString> {
    let (stem, extension) = (Path::new(name).file_stem().unwrap_or(name), Path::new(name).extension());
    let with = move |number: u32| {
        let mut name = stem.to_owned();
        name.push(format!("-{number}"));
        if let Some(extension) = extension {
            name.push(".");
            name.push(extension);
        }
        name
    };
    std::iter::once(name.to_owned()).chain((2..=NUMBERS).map(with))
}

/// A file that is being written. Dropped without [`commit`](OutputFile::commit), it is discarded.
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Nothing is left to do: the file is written in place, was committed, or was discarded.
    Settled,
    /// An older file that has not been written to.
    Older,
    /// It has its name; an older file has been moved aside.
    Named { place: FolderEntry, made: Id, older: Option<Older> },
    /// It has no name yet, or a temporary one. `chosen`: samara chose its final name.
    Unseen { place: FolderEntry, part: Option<OsString>, chosen: bool },
}

impl OutputFile {
    fn as_it_is(file: File) -> OutputFile {
        OutputFile { file, state: State::Settled }
    }

    /// Makes a new file with a name that samara chose: `first`, or, if that is taken, the first one
    /// of `NAME-2.EXT`, `NAME-3.EXT`, ... that is not. Returns its path, too.
    ///
    /// # Errors
    /// The file cannot be made, or all names are taken.
    pub fn create_new(first: &Path, access: Access) -> io::Result<(OutputFile, PathBuf)> {
        let (folder, name) = Folder::of(None, first)?;
        for name in numbered(&name) {
            match folder.create(&name, access) {
                Ok(file) => {
                    let (made, path) = (id(&file.metadata()?), first.with_file_name(&name));
                    let place = FolderEntry { folder, name };
                    return Ok((OutputFile { file, state: State::Named { place, made, older: None } }, path));
                }
                Err(why) if why.kind() == ErrorKind::AlreadyExists => {}
                Err(why) => return Err(why),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// A file without a name in the same folder, to read and write, that is gone when it is closed.
    ///
    /// # Errors
    /// There is no folder (a device), or no file can be made in it.
    pub fn scratch(&self) -> io::Result<File> {
        let (State::Named { place, .. } | State::Unseen { place, .. }) = &self.state else {
            return Err(ErrorKind::Unsupported.into());
        };
        place.folder.unnamed(Access::Owner).or_else(|_| {
            let (name, file) = place.folder.part(Access::Owner)?;
            place.folder.remove(&name, id(&file.metadata()?));
            Ok(file)
        })
    }

    /// Ends the writing: a file that had no name gets it, and an older one is removed.
    ///
    /// # Errors
    /// The file cannot have its name. Then it is removed, and an older one stays.
    pub fn commit(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.state, State::Settled) {
            State::Settled => Ok(()),
            State::Older => self.file.set_len(0),
            State::Named { place, older, .. } => {
                if let Some(Older { aside, id }) = older {
                    place.folder.remove(&aside, id);
                }
                Ok(())
            }
            State::Unseen { place, part, chosen } => {
                // A link cannot replace a file, but a rename can. It replaces a link itself.
                let part = part.map_or_else(|| place.folder.link(&self.file), Ok)?;
                let (folder, name) = (&place.folder, &place.name);
                let taken = chosen && !folder.is_link(name) && !folder.may_take(name);
                if folder.is_special(name) || folder.is_planted(name) || taken {
                    self.remove_part(&place, &part);
                    let what = "something else has the name of the file now; it was not replaced";
                    return Err(io::Error::new(io::ErrorKind::AlreadyExists, what));
                }
                place.folder.rename(&part, &place.name).inspect_err(|_| self.remove_part(&place, &part))
            }
        }
    }

    /// Leaves everything as it was before: a new file is removed, and an older one put back.
    pub fn discard(&mut self) {
        match std::mem::replace(&mut self.state, State::Settled) {
            State::Settled | State::Older | State::Unseen { part: None, .. } => {}
            State::Named { place, made, older: None } => place.folder.remove(&place.name, made),
            State::Named { place, made, older: Some(older) } => place.put_back(Some(made), &older),
            State::Unseen { place, part: Some(part), .. } => self.remove_part(&place, &part),
        }
    }

    fn remove_part(&self, place: &FolderEntry, part: &OsStr) {
        if let Ok(of) = self.file.metadata() {
            place.folder.remove(part, id(&of));
        }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if matches!(self.state, State::Older) {
            self.file.set_len(0)?;
            self.state = State::Settled;
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for OutputFile {
    /// Discards it here, because it is owned by layers of writers that fail at any step.
    fn drop(&mut self) {
        self.discard();
    }
}

/// A directory of files whose names samara chose, such as that of a fleet.
#[derive(Debug)]
pub struct OutputFolder(Folder, Access);

impl OutputFolder {
    /// Opens the directory, through symbolic links. It is made where it is missing.
    ///
    /// # Errors
    /// It cannot be opened or made.
    pub fn make(path: &Path, access: Access) -> io::Result<OutputFolder> {
        Ok(OutputFolder(Folder::make(path, access)?, access))
    }

    /// Makes a file that gets its name by [`commit`](OutputFile::commit), in place of an older one
    /// of this user. Directories on the way are made where they are missing.
    ///
    /// # Errors
    /// A directory on the way, or the file, cannot be made; there is a symbolic link on the way; or
    /// something else than a file of this user has the name, or a write-protected one.
    pub fn whole(&self, path: &Path) -> io::Result<OutputFile> {
        let OutputFolder(folder, access) = self;
        let name = path.file_name().ok_or(ErrorKind::InvalidInput)?.to_owned();
        let folder = folder.enter(path.parent().unwrap_or(Path::new("")), *access)?;
        if !folder.may_take(&name) {
            let what = "something else than a file that you may write to and own has this name: remove it, or give another folder";
            return Err(io::Error::new(ErrorKind::AlreadyExists, what));
        }
        OutputName { place: Some(FolderEntry { folder, name }), there: There::Nothing, chosen: true }.whole(*access)
    }
}
