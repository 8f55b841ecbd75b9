//! A folder that was opened once, and operations on its entries. No operation follows a link, and
//! one that removes or moves an entry takes the entry's identity. Does not know the files' content.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, Permissions};
use std::io::{self, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Component, Path};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, openat, readlinkat, renameat};
use nix::sys::stat::{FileStat, Mode, fstatat, mkdirat};
use nix::sys::statfs::{PROC_SUPER_MAGIC, fstatfs};
use nix::unistd::{UnlinkatFlags, geteuid, linkat, unlinkat};

use super::Access;

/// Device and inode.
pub(super) type Id = (u64, u64);

/// Maximum number of names tried for a file beside another one.
const NAMES: u32 = 100;

pub(super) fn id(of: &Metadata) -> Id {
    (of.dev(), of.ino())
}

/// The error for another user's entry in a folder where all users may make entries.
const PLANTED: &str = "another user has put this in a folder where all users may make files: give another name";

/// A folder by its descriptor (`O_PATH`).
#[derive(Debug)]
pub(super) struct Folder(File);

/// The target of a link.
pub(super) enum Link {
    /// Another name.
    To(OsString),
    /// A file that has been opened: that of a descriptor, in `/proc`.
    Open(File),
}

impl Folder {
    /// Opens the folder of a name, which is relative to `base`, or to the current directory.
    /// Returns the name's last component, too. Links before that are followed, by the kernel.
    pub(super) fn of(base: Option<&Folder>, path: &Path) -> io::Result<(Folder, OsString)> {
        let path = path.as_os_str().as_bytes();
        let at = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let (folder, name) = path.split_at(at);
        match name {
            b"" if path.is_empty() => Err(ErrorKind::NotFound.into()),
            b"" | b"." | b".." => Err(Errno::EISDIR.into()),
            _ => Ok((Folder::open(base, Path::new(OsStr::from_bytes(folder)))?, OsStr::from_bytes(name).to_owned())),
        }
    }

    fn open(base: Option<&Folder>, path: &Path) -> io::Result<Folder> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let how = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let opened = match base {
            Some(base) => openat(&base.0, path, how, Mode::empty()),
            None => openat(AT_FDCWD, path, how, Mode::empty()),
        };
        Ok(Folder(opened?.into()))
    }

    /// Opens a folder, and makes it and its parents if they are missing.
    pub(super) fn make(path: &Path, access: Access) -> io::Result<Folder> {
        // The user gave the name, so links in it are followed. Only empty folders are made, and
        // `mkdir` does not follow a link in the last component.
        use std::os::unix::fs::DirBuilderExt;
        let was_there = path.symlink_metadata().is_ok();
        if was_there {
            // Before it is followed, which the kernel may refuse (fs.protected_symlinks).
            let above = Folder::open(None, path.parent().unwrap_or(Path::new(".")))?;
            if let Some(link) = path.file_name().and_then(|name| above.stat(name)).filter(is_link) {
                above.refuse_planted(link.st_uid)?;
            }
        }
        std::fs::DirBuilder::new().recursive(true).mode(access.of_folders()).create(path)?;
        if was_there {
            return Folder::open(None, path);
        }
        let how = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let folder = Folder(openat(AT_FDCWD, path, how, Mode::empty())?.into());
        folder.open_to_owner(access);
        Ok(folder)
    }

    /// Enters folders below this one, and makes those that are missing. None may be a link.
    pub(super) fn enter(&self, path: &Path, access: Access) -> io::Result<Folder> {
        let mut folder = Folder(self.0.try_clone()?);
        for part in path.components() {
            let Component::Normal(name) = part else { return Err(ErrorKind::InvalidInput.into()) };
            let made = match mkdirat(&folder.0, name, Mode::from_bits_truncate(access.of_folders())) {
                Ok(()) => true,
                Err(Errno::EEXIST) => false,
                Err(why) => return Err(why.into()),
            };
            let how = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            let opened = openat(&folder.0, name, how, Mode::empty()).map_err(|why| match why {
                Errno::ENOTDIR | Errno::ELOOP => {
                    let what = format!("{} in it is no directory (links are not followed)", Path::new(name).display());
                    io::Error::new(ErrorKind::NotADirectory, what)
                }
                why => why.into(),
            });
            folder = Folder(opened?.into());
            if made {
                folder.open_to_owner(access);
            }
        }
        Ok(folder)
    }

    /// Gives the owner of a new folder the access that the umask may have taken.
    fn open_to_owner(&self, access: Access) {
        if access == Access::Owner {
            // If this fails, the next steps fail too.
            let again = format!("/proc/self/fd/{}", self.0.as_raw_fd());
            let _ = std::fs::set_permissions(again, Permissions::from_mode(access.of_folders()));
        }
    }

    pub(super) fn id(&self) -> Option<Id> {
        self.0.metadata().ok().map(|of| id(&of))
    }

    /// The status of an entry; a link is not followed. `None`: it does not exist or is not visible.
    pub(super) fn stat(&self, name: &OsStr) -> Option<FileStat> {
        fstatat(&self.0, name, AtFlags::AT_SYMLINK_NOFOLLOW).ok()
    }

    /// Whether a device, a FIFO or a socket has this name.
    pub(super) fn is_special(&self, name: &OsStr) -> bool {
        let kind = self.stat(name).map(|of| of.st_mode & libc::S_IFMT);
        kind.is_some_and(|kind| ![libc::S_IFREG, libc::S_IFLNK, libc::S_IFDIR].contains(&kind))
    }

    pub(super) fn is_link(&self, name: &OsStr) -> bool {
        self.stat(name).is_some_and(|of| is_link(&of))
    }

    pub(super) fn id_of(&self, name: &OsStr) -> Option<Id> {
        self.stat(name).map(|of| (of.st_dev, of.st_ino))
    }

    /// Whether a name that samara chose may be taken: it is free, or names a file of this user that
    /// is not write-protected.
    pub(super) fn may_take(&self, name: &OsStr) -> bool {
        self.stat(name).is_none_or(|of| {
            of.st_mode & libc::S_IFMT == libc::S_IFREG && of.st_uid == geteuid().as_raw() && of.st_mode & 0o200 != 0
        })
    }

    /// Whether only this user may make entries here.
    pub(super) fn is_private(&self) -> bool {
        self.0.metadata().is_ok_and(|of| of.uid() == geteuid().as_raw() && of.mode() & 0o022 == 0)
    }

    /// Whether this name belongs to a file that another user may have planted.
    pub(super) fn is_planted(&self, name: &OsStr) -> bool {
        let file = self.stat(name).filter(|of| of.st_mode & libc::S_IFMT == libc::S_IFREG);
        file.is_some_and(|of| self.refuse_planted(of.st_uid).is_err())
    }

    /// Refuses an entry that another user may have planted, by the rules of `fs.protected_symlinks`
    /// and `fs.protected_regular` (proc_sys_fs(5)), even if those are off. The kernel would not
    /// apply them: no link is followed and no file is created here.
    fn refuse_planted(&self, owner: u32) -> io::Result<()> {
        let of = self.0.metadata()?;
        let anybody = of.mode() & 0o1000 != 0 && of.mode() & 0o022 != 0;
        match anybody && owner != geteuid().as_raw() && owner != of.uid() {
            true => Err(io::Error::new(ErrorKind::PermissionDenied, PLANTED)),
            false => Ok(()),
        }
    }

    /// Opens an entry for writing and does not change it. (`ELOOP`: it is a link.) It is checked
    /// before it is opened: opening another user's FIFO would block instead of being refused.
    pub(super) fn open_there(&self, name: &OsStr) -> io::Result<File> {
        let look = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let entry = File::from(openat(&self.0, name, look, Mode::empty())?);
        let of = entry.metadata()?;
        if of.is_symlink() {
            return Err(Errno::ELOOP.into());
        }
        self.refuse_planted(of.uid())?;
        let again = format!("/proc/self/fd/{}", entry.as_raw_fd());
        let how = OFlag::O_WRONLY | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        match openat(AT_FDCWD, &*again, how, Mode::empty()) {
            // Nothing is mounted on `/proc`.
            Err(Errno::ENOENT) => Ok(openat(&self.0, name, how | OFlag::O_NOFOLLOW, Mode::empty())?.into()),
            opened => Ok(opened?.into()),
        }
    }

    /// Follows a link by one step. `None`: it has gone.
    pub(super) fn follow(&self, name: &OsStr) -> io::Result<Option<Link>> {
        if fstatfs(&self.0).is_ok_and(|of| of.filesystem_type() == PROC_SUPER_MAGIC) {
            // The link's text need not be a path, so the kernel follows it.
            let file = openat(&self.0, name, OFlag::O_WRONLY | OFlag::O_NOCTTY | OFlag::O_CLOEXEC, Mode::empty())?;
            return Ok(Some(Link::Open(file.into())));
        }
        let how = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let link = match openat(&self.0, name, how, Mode::empty()) {
            Ok(link) => File::from(link),
            Err(Errno::ENOENT) => return Ok(None),
            Err(why) => return Err(why.into()),
        };
        let of = link.metadata()?;
        if !of.is_symlink() {
            return Ok(None);
        }
        self.refuse_planted(of.uid())?;
        Ok(Some(Link::To(readlinkat(&link, "")?)))
    }

    /// Makes a file. An error if the name is taken, also by a link.
    pub(super) fn create(&self, name: &OsStr, access: Access) -> io::Result<File> {
        let how = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Ok(access.given(openat(&self.0, name, how, access.of_files())?.into()))
    }

    /// Makes a file without a name: nothing is left of it if this process is killed.
    pub(super) fn unnamed(&self, access: Access) -> io::Result<File> {
        let how = OFlag::O_RDWR | OFlag::O_TMPFILE | OFlag::O_CLOEXEC;
        let file = File::from(openat(&self.0, ".", how, access.of_files())?);
        // `link` gives the file its name through this path: without `/proc` it could not.
        std::fs::symlink_metadata(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
        Ok(access.given(file))
    }

    /// Makes a file with a temporary name, for file systems without `O_TMPFILE`.
    pub(super) fn part(&self, access: Access) -> io::Result<(OsString, File)> {
        let how = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let (name, file) = unused(part_name, |name| openat(&self.0, name, how, access.of_files()))?;
        Ok((name, access.given(file.into())))
    }

    /// Gives an unnamed file an unused name, and returns the name.
    pub(super) fn link(&self, file: &File) -> io::Result<OsString> {
        let fd = format!("/proc/self/fd/{}", file.as_raw_fd());
        let link = |name: &OsStr| linkat(AT_FDCWD, &*fd, &self.0, name, AtFlags::AT_SYMLINK_FOLLOW);
        Ok(unused(part_name, link)?.0)
    }

    /// Renames an entry, and replaces an entry that has the new name.
    pub(super) fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.0, from, &self.0, to)?)
    }

    /// Moves an entry to an unused name, which is returned.
    pub(super) fn move_aside(&self, name: &OsStr) -> io::Result<OsString> {
        // No two threads of this process try the same name.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let pid = std::process::id();
        let next = || format!(".samara-{pid}-{}.old", NUMBER.fetch_add(1, Relaxed)).into();
        // A file that a killed process with the same id left must not be overwritten.
        let rename = |aside: &OsStr| match self.rename_to_unused(name, aside) {
            // The file system does not know the flag, or the kernel not the call.
            Err(Errno::EINVAL | Errno::ENOSYS) => match self.stat(aside) {
                Some(_) => Err(Errno::EEXIST),
                None => renameat(&self.0, name, &self.0, aside),
            },
            done => done,
        };
        Ok(unused(next, rename)?.0)
    }

    /// Renames an entry in one step. `EEXIST`: another entry has the new name.
    #[cfg(target_env = "gnu")]
    fn rename_to_unused(&self, from: &OsStr, to: &OsStr) -> nix::Result<()> {
        nix::fcntl::renameat2(&self.0, from, &self.0, to, nix::fcntl::RenameFlags::RENAME_NOREPLACE)
    }

    /// `nix` has this call for glibc only.
    #[cfg(not(target_env = "gnu"))]
    fn rename_to_unused(&self, _from: &OsStr, _to: &OsStr) -> nix::Result<()> {
        Err(Errno::ENOSYS)
    }

    /// Removes an entry if it is this file. `unlinkat` removes a link itself, so even if the
    /// folder's owner exchanges the entry meanwhile, only an entry of this folder is lost.
    pub(super) fn remove(&self, name: &OsStr, is: Id) {
        if self.id_of(name) == Some(is) {
            // If it fails, an unused file remains, which does no harm.
            let _ = unlinkat(&self.0, name, UnlinkatFlags::NoRemoveDir);
        }
    }

    /// Whether a file of this folder is mounted there, so that it cannot be replaced.
    pub(super) fn has_mounted(&self, file: &File) -> bool {
        mount(file).is_some_and(|its| mount(&self.0).is_some_and(|ours| its != ours))
    }
}

fn is_link(of: &FileStat) -> bool {
    of.st_mode & libc::S_IFMT == libc::S_IFLNK
}

/// The number of the mount that a file was opened on.
fn mount(file: &File) -> Option<u64> {
    let mut text = String::new();
    File::open(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?.read_to_string(&mut text).ok()?;
    text.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()
}

/// Tries names until one is unused.
fn unused<T>(
    mut next: impl FnMut() -> OsString,
    mut make: impl FnMut(&OsStr) -> nix::Result<T>,
) -> io::Result<(OsString, T)> {
    for _ in 0..NAMES {
        let name = next();
        match make(&name) {
            Ok(made) => return Ok((name, made)),
            Err(Errno::EEXIST) => {}
            Err(why) => return Err(why.into()),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// A name for a file that is not whole yet.
fn part_name() -> OsString {
    let random: String = std::iter::repeat_with(fastrand::alphanumeric).take(8).collect();
    format!(".samara-{random}.part").into()
}

impl Access {
    fn of_folders(self) -> u32 {
        match self {
            Access::Owner => 0o700,
            Access::Umask => 0o777,
        }
    }

    fn of_files(self) -> Mode {
        match self {
            Access::Owner => Mode::from_bits_truncate(0o600),
            Access::Umask => Mode::from_bits_truncate(0o666),
        }
    }

    /// The file, to which its owner has access whatever the umask takes away.
    fn given(self, file: File) -> File {
        if self == Access::Owner {
            // A file system without permissions may refuse, and then the umask took none away.
            let _ = file.set_permissions(Permissions::from_mode(0o600));
        }
        file
    }
}
