//! The world beside a traced program's address space, as the engine asks for it: its descriptors. Knows no calls.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::statfs::{self, FsType};
use nix::sys::statvfs::FsFlags;
use samara_mm::linux::{Host, OpenFile};
use samara_mm::{Errno, FileMode, Prot, Segment};

use crate::model::Inode;
use crate::sys::Tid;

/// The descriptors of a stopped task.
pub(crate) struct Program {
    pub(crate) tid: Tid,
    /// A file was asked for, whose driver may have a word of its own.
    pub(crate) file: bool,
    /// It is one that the model does not know the rules of.
    pub(crate) unknown: bool,
    /// How long the segment was that was asked for.
    pub(crate) bytes: u64,
}

impl Program {
    pub(crate) fn new(tid: Tid) -> Self {
        Program { tid, file: false, unknown: false, bytes: 0 }
    }
}

impl Host<Inode> for Program {
    fn file(&mut self, fd: i32) -> Result<OpenFile<Inode>, Errno> {
        self.file = true;
        let text = std::fs::read_to_string(format!("/proc/{}/fdinfo/{fd}", self.tid)).map_err(|_| Errno::EBADF)?;
        let field = |name: &str| text.lines().find_map(|l| l.strip_prefix(name)).map_or("", str::trim);
        let flags = i32::from_str_radix(field("flags:"), 8).unwrap_or(0);
        if flags & libc::O_PATH != 0 {
            return Err(Errno::EBADF);
        }
        let path = format!("/proc/{}/fd/{fd}", self.tid);
        let meta = std::fs::metadata(&path).map_err(|_| Errno::EBADF)?;
        let system = statfs::statfs(path.as_str()).ok();
        let mut mode = FileMode::empty();
        mode.set(FileMode::READ, flags & libc::O_ACCMODE != libc::O_WRONLY);
        mode.set(FileMode::WRITE, flags & libc::O_ACCMODE != libc::O_RDONLY);
        mode.set(FileMode::UNMAPPABLE, unmappable(&meta));
        mode.set(FileMode::NOEXEC, system.is_some_and(|s| s.flags().contains(FsFlags::ST_NOEXEC)));
        self.unknown |= system.is_some_and(|s| s.filesystem_type() == statfs::HUGETLBFS_MAGIC);
        let memory = system.is_some_and(|s| s.filesystem_type() == statfs::TMPFS_MAGIC);
        mode.set(FileMode::WRITE_SEALED, memory && meta.is_file() && write_sealed(&path));
        let huge =
            |t: FsType| [statfs::EXT4_SUPER_MAGIC, statfs::XFS_SUPER_MAGIC, statfs::BTRFS_SUPER_MAGIC].contains(&t);
        let seeks_huge = meta.is_file() && system.is_some_and(|s| huge(s.filesystem_type()));
        let dev = (libc::major(meta.dev()), libc::minor(meta.dev()));
        let backing = Inode { dev, inode: meta.ino(), name: "".into(), seeks_huge };
        Ok(OpenFile { backing, mode })
    }

    fn segment(&mut self, id: i32, _prot: Prot) -> Result<Segment<Inode>, Errno> {
        // Who may attach it is the kernel's to say.
        self.file = true;
        let inode = u64::from(id as u32);
        let backing = Inode { dev: (0, 0), inode, name: "/SYSV".into(), seeks_huge: false };
        match segment_bytes(self.tid, inode) {
            Some(bytes) => {
                self.bytes = bytes;
                Ok(Segment { backing, bytes })
            }
            None => {
                self.unknown = true;
                Err(Errno::EINVAL)
            }
        }
    }

    fn segment_bytes(&mut self, segment: &Inode) -> u64 {
        let bytes = segment_bytes(self.tid, segment.inode);
        self.unknown |= bytes.is_none();
        bytes.unwrap_or(0)
    }

    fn shared_memory(&mut self, _bytes: u64) -> Result<Inode, Errno> {
        // No file is like it: nothing merges with it in the trial.
        Ok(Inode { dev: (u32::MAX, u32::MAX), inode: u64::MAX, name: "".into(), seeks_huge: false })
    }
}

/// How long a System V segment is, by its number, which its areas show as their inode. `None` where there is none, or the task has others than we.
fn segment_bytes(tid: Tid, id: u64) -> Option<u64> {
    let space = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/ipc")).ok();
    if space(&tid.to_string()) != space("self") {
        return None;
    }
    let text = std::fs::read_to_string("/proc/sysvipc/shm").ok()?;
    // key, shmid, perms, size, ...
    let size = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        (fields.get(1)?.parse() == Ok(id)).then_some(fields.get(3)?.parse().ok())?
    };
    text.lines().find_map(size)
}

/// Whether a memfd is sealed against writing.
fn write_sealed(path: &str) -> bool {
    let Ok(file) = std::fs::File::open(path) else { return false };
    let seals = fcntl(&file, FcntlArg::F_GET_SEALS).map(SealFlag::from_bits_truncate);
    seals.is_ok_and(|s| s.intersects(SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_FUTURE_WRITE))
}

/// What no driver maps.
fn unmappable(meta: &Metadata) -> bool {
    let kind = meta.file_type();
    kind.is_dir() || kind.is_fifo() || kind.is_socket()
}
