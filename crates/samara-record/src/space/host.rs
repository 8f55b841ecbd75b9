//! The environment of a traced program's address space: [`Program`] answers the model's queries to
//! a [`Host`]: file descriptors, memory, segments, memory nodes.
//!
//! It knows no calls. It asks `/proc` and the file system, and sets `unknown` if they do not show
//! the answer. Neighbours: `memory` keeps the memory that a call read; `os` reads `/proc`.

use std::cell::OnceCell;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::rc::Rc;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::statfs;
use samara_mm::linux::{Host, OpenFile};
use samara_mm::{Errno, FileMode, HugePlaces, PageSize, Prot, Segment, SharedHuge};

use crate::os::huge_pages;
use crate::os::huge_pages::Settings;
use crate::os::proc::{self, Descriptor};
use crate::os::segments;
use crate::os::sys::Tid;
use crate::space::memory::Memory;
use crate::space::model::{self, Inode};

/// The environment of a stopped task.
pub(crate) struct Program {
    pub(crate) tid: Tid,
    memory: Memory,
    /// A task of the process that the call acts on: that of `tid`, or one that `tid` advises.
    pub(crate) of: Tid,
    /// A file was queried. Its driver may refuse a call that the model grants.
    pub(crate) file: bool,
    /// A query had no answer: the model does not know the rules.
    pub(crate) unknown: bool,
    /// Length in bytes of the queried segment.
    pub(crate) bytes: u64,
    /// The memory nodes that the task may use.
    nodes: OnceCell<Vec<u64>>,
    /// Page size of the queried object, if it is in huge pages of hugetlbfs.
    pub(crate) huge: Option<PageSize>,
    /// The last queried descriptor, and its file.
    opened: Option<(i32, OpenFile<Inode>)>,
    /// The machine's settings of huge pages, which decide which places suit them. `None`: no place
    /// is searched for.
    pub(crate) settings: Option<Rc<Settings>>,
}

impl Program {
    pub(crate) fn new(tid: Tid) -> Self {
        Program::seen(Memory::now(tid))
    }

    /// The environment of a task at the time of one of its calls.
    pub(crate) fn seen(memory: Memory) -> Self {
        Program {
            tid: memory.tid,
            of: memory.tid,
            memory,
            file: false,
            unknown: false,
            bytes: 0,
            nodes: OnceCell::new(),
            huge: None,
            opened: None,
            settings: None,
        }
    }

    /// The settings of shared memory.
    fn shared(&self) -> SharedHuge {
        self.settings.as_ref().map(|settings| settings.shared()).unwrap_or_default()
    }

    /// Refuses, and notes that the rules are unknown.
    fn not_known<T>(&mut self, errno: Errno) -> Result<T, Errno> {
        self.unknown = true;
        Err(errno)
    }

    /// Finds the file behind a descriptor.
    fn ask_file(&mut self, fd: i32) -> Result<OpenFile<Inode>, Errno> {
        let Descriptor { flags, mount } = match proc::descriptor(self.tid, fd) {
            Ok(descriptor) => descriptor,
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Err(Errno::EBADF),
            Err(_) => return self.not_known(Errno::EBADF), // the process is hidden from the recorder
        };
        if flags & libc::O_PATH != 0 {
            return Err(Errno::EBADF);
        }
        let path = format!("/proc/{}/fd/{fd}", self.tid);
        let Ok(name) = std::fs::read_link(&path) else { return self.not_known(Errno::EBADF) };
        let name = name.to_string_lossy();
        let mut mode = FileMode::empty();
        mode.set(FileMode::READ, flags & libc::O_ACCMODE != libc::O_WRONLY);
        mode.set(FileMode::WRITE, flags & libc::O_ACCMODE != libc::O_RDONLY);
        let backing = if name.starts_with("/memfd:") {
            self.huge = match statfs::statfs(path.as_str()) {
                Ok(system) if system.filesystem_type() == statfs::TMPFS_MAGIC => None,
                Ok(system) if system.filesystem_type() == statfs::HUGETLBFS_MAGIC => {
                    PageSize::new(system.block_size() as u64)
                }
                _ => return self.not_known(Errno::EINVAL),
            };
            mode.set(FileMode::WRITE_SEALED, write_sealed(&path));
            let meta = std::fs::metadata(&path).map_err(|_| Errno::EBADF)?;
            Inode { huge: self.huge, ..named(&meta, self.shared().files) }
        } else if name == model::SECRET && file_system(&path) == Some(SECRETMEM_MAGIC) {
            let meta = std::fs::metadata(&path).map_err(|_| Errno::EBADF)?;
            Inode { name: model::SECRET.into(), ..named(&meta, HugePlaces::Plain) }
        } else {
            // A file system that may depend on another process is not queried: that process may
            // wait for the recorder.
            let mount = find_mount(self.tid, |m| m.id == mount).filter(|m| LOCAL.contains(&m.kind.as_str()));
            let Some(mount) = mount else {
                return self.not_known(Errno::EINVAL);
            };
            let Ok(meta) = std::fs::metadata(&path) else { return self.not_known(Errno::EINVAL) };
            let kind = meta.file_type();
            if !kind.is_file() && !kind.is_dir() && !kind.is_fifo() {
                return self.not_known(Errno::EINVAL); // a driver
            }
            mode.set(FileMode::UNMAPPABLE, !kind.is_file());
            mode.set(FileMode::NOEXEC, mount.noexec);
            mode.set(FileMode::SWAP_FILE, is_swap_file(&meta));
            named(&meta, mount.places(self))
        };
        Ok(OpenFile { backing, mode })
    }
}

impl Host<Inode> for Program {
    fn file(&mut self, fd: i32) -> Result<OpenFile<Inode>, Errno> {
        self.file = true;
        if let Some((_, file)) = self.opened.as_ref().filter(|(of, _)| *of == fd) {
            return Ok(file.clone());
        }
        let file = self.ask_file(fd)?;
        self.opened = Some((fd, file.clone()));
        Ok(file)
    }

    fn segment(&mut self, id: i32, _prot: Prot) -> Result<Segment<Inode>, Errno> {
        // The rights to attach it are not modelled.
        self.file = true;
        let inode = u64::from(id as u32);
        let places = self.shared().files;
        // The length comes first: it shows that the segment is in our own IPC namespace.
        let Some(bytes) = segment_bytes(self.tid, inode) else { return self.not_known(Errno::EINVAL) };
        let Ok(huge) = segments::segment_page(id) else { return self.not_known(Errno::EINVAL) };
        (self.bytes, self.huge) = (bytes, huge);
        Ok(Segment { backing: Inode { dev: (0, 0), inode, name: "/SYSV".into(), places, huge }, bytes })
    }

    fn segment_bytes(&mut self, segment: &Inode) -> u64 {
        let bytes = segment_bytes(self.tid, segment.inode);
        self.unknown |= bytes.is_none();
        bytes.unwrap_or(0)
    }

    fn read(&mut self, addr: u64, to: &mut [u8]) -> Result<(), Errno> {
        if self.memory.read(addr, to) { Ok(()) } else { Err(Errno::EFAULT) }
    }

    fn is_self(&mut self, pidfd: i32) -> Result<bool, Errno> {
        if let Some(own) = self.memory.own() {
            return own;
        }
        // PIDFD_SELF_THREAD and PIDFD_SELF_THREAD_GROUP, which not every kernel knows.
        if matches!(pidfd, -10_001..=-10_000) {
            self.unknown = true;
            return Ok(true);
        }
        match proc::process_of(self.tid, pidfd) {
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => Err(Errno::EBADF),
            Err(_) | Ok(Some(0)) => self.not_known(Errno::EBADF), // hidden from the recorder, or in another namespace
            Ok(None) => Err(Errno::EBADF),
            Ok(Some(..0)) => Err(Errno::ESRCH),
            Ok(Some(pid)) => Ok(proc::thread_group(pid) == proc::thread_group(self.of)),
        }
    }

    fn nodes(&self) -> &[u64] {
        self.nodes.get_or_init(|| proc::nodes(self.tid))
    }

    fn shared_memory(&mut self, _bytes: u64) -> Result<Inode, Errno> {
        // No file equals it: nothing merges with it in the trial.
        let places = self.shared().anonymous;
        Ok(Inode { dev: (u32::MAX, u32::MAX), inode: u64::MAX, name: "".into(), places, huge: None })
    }

    fn huge_memory(&mut self, page: Option<PageSize>) -> Result<Inode, Errno> {
        // Only the kernel knows a control group's limit on such pages.
        self.file = true;
        let page = page.or_else(huge_pages::huge_page).filter(|page| huge_pages::free_huge_pages(*page).is_some());
        self.huge = Some(page.ok_or(Errno::EINVAL)?);
        Ok(Inode { huge: self.huge, ..self.shared_memory(0)? })
    }

    fn huge_places(&mut self, file: &Inode, moved: bool) -> HugePlaces {
        if !moved {
            return file.places;
        }
        match find_mount(self.tid, |mount| mount.dev == file.dev) {
            // overlayfs maps files of another file system.
            Some(mount) if LOCAL.contains(&mount.kind.as_str()) && mount.kind != "overlay" => mount.places(self),
            None if SHARED_MEMORY.iter().any(|name| file.name.starts_with(name)) => self.shared().files,
            _ => {
                self.unknown = true;
                HugePlaces::Plain
            }
        }
    }
}

/// Length in bytes of a System V segment by its number, which is the inode of its areas. `None`:
/// the segment does not exist, or the task is in another IPC namespace than the recorder.
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

/// The magic number of the file system of `memfd_secret`.
const SECRETMEM_MAGIC: statfs::FsType = statfs::FsType(0x5345_434d);

fn file_system(path: &str) -> Option<statfs::FsType> {
    statfs::statfs(path).ok().map(|s| s.filesystem_type())
}

/// Whether a file is in use as swap space.
fn is_swap_file(meta: &Metadata) -> bool {
    let text = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    // Filename, Type, Size, ...; a blank in a name is \040.
    let files =
        text.lines().filter_map(|l| l.split_once(' ').filter(|(_, rest)| rest.trim_start().starts_with("file")));
    let same = |swap: Metadata| (swap.dev(), swap.ino()) == (meta.dev(), meta.ino());
    files.into_iter().any(|(name, _)| std::fs::metadata(name.replace("\\040", " ")).is_ok_and(same))
}

/// Whether a memfd is sealed against writing. False for a file that only has a memfd's name, such
/// as a FIFO on a tmpfs in the program's mount namespace. Opening does not block.
pub(crate) fn write_sealed(path: &str) -> bool {
    let open = std::fs::File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path);
    let Ok(file) = open else { return false };
    let seals = fcntl(&file, FcntlArg::F_GET_SEALS).map(SealFlag::from_bits_truncate);
    seals.is_ok_and(|s| s.intersects(SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_FUTURE_WRITE))
}

/// File systems that answer without asking other processes, and map files by the usual rules.
const LOCAL: &[&str] = &[
    "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs", "ramfs", "overlay", "squashfs", "erofs", "iso9660",
    "vfat", "zfs",
];

/// Those that choose places that suit huge pages.
const HUGE: &[&str] = &["ext4", "xfs", "btrfs"];

/// Prefixes of the names of shared memory that is on no mount: memfds, System V segments, shared
/// anonymous memory.
const SHARED_MEMORY: &[&str] = &["/memfd:", "/SYSV", "/dev/zero"];

/// A mounted file system: the properties that maps depend on.
struct Mount {
    /// Its number.
    id: String,
    dev: (u32, u32),
    kind: String,
    noexec: bool,
    /// The value of the option `huge`, if it is set.
    huge: Option<String>,
}

impl Mount {
    fn read(line: &str) -> Option<Mount> {
        // id parent dev root place options [tags...] - kind source options
        let (own, system) = line.split_once(" - ")?;
        let (own, system): (Vec<&str>, Vec<&str>) = (own.split(' ').collect(), system.split(' ').collect());
        let (major, minor) = own.get(2)?.split_once(':')?;
        Some(Mount {
            id: (*own.first()?).to_owned(),
            dev: (major.parse().ok()?, minor.parse().ok()?),
            kind: (*system.first()?).to_owned(),
            noexec: own.get(5)?.split(',').any(|option| option == "noexec"),
            huge: system.get(2)?.split(',').find_map(|option| Some(option.strip_prefix("huge=")?.to_owned())),
        })
    }

    /// The places that suit its files.
    fn places(&self, host: &Program) -> HugePlaces {
        match self.kind.as_str() {
            "tmpfs" => host.shared().mounted(self.huge.as_deref()),
            kind if HUGE.contains(&kind) => HugePlaces::FileSystem,
            _ => HugePlaces::Plain,
        }
    }
}

/// A mount as the task sees it, or else as the recorder sees it. `None`: neither sees it, as for
/// pipes, sockets and drivers.
fn find_mount(tid: Tid, is: impl Fn(&Mount) -> bool) -> Option<Mount> {
    let find = |of: &str| {
        let text = std::fs::read_to_string(format!("/proc/{of}/mountinfo")).ok()?;
        text.lines().filter_map(Mount::read).find(&is)
    };
    find(&tid.to_string()).or_else(|| find("self"))
}

/// Whether a read of a file on this device may wait for a process (FUSE), which may wait for the
/// recorder.
pub(crate) fn may_wait(tid: Tid, dev: (u32, u32)) -> bool {
    find_mount(tid, |m| m.dev == dev).is_some_and(|m| m.kind.starts_with("fuse"))
}

fn named(meta: &Metadata, places: HugePlaces) -> Inode {
    let dev = (libc::major(meta.dev()), libc::minor(meta.dev()));
    Inode { dev, inode: meta.ino(), name: "".into(), places, huge: None }
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
