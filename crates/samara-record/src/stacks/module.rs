//! A module of a stack: the parts of an ELF file that a walk and the symbols need. Knows nothing of
//! processes but the places of their files.

use std::cell::OnceCell;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::sys::statfs::{self, FsType};
use object::{Object, ObjectSection, ObjectSegment, SegmentFlags, elf};
use samara_trace::file::name_bytes;

use super::memory_budget::{Budget, Source};
use super::tables::Index;
use crate::os::sys::Tid;

/// Most files that are kept open. The recorder also keeps one open for each process.
pub(super) const OPEN: usize = 256;

/// Most bytes of one section.
const MAX_SECTION_BYTES: u64 = 64 << 20;

/// A file with code, or code without a file.
#[derive(Debug, Default)]
pub(crate) struct Module {
    /// The name in the maps line.
    pub(crate) name: String,
    pub(crate) build_id: Option<String>,
    /// Open until the end of the recording, so that symbols can be read even if the file was
    /// deleted or replaced.
    pub(crate) file: Option<File>,
    /// The process whose code it is, if it has no file.
    pub(crate) process: Option<Tid>,
    /// The user that the process belonged to.
    pub(crate) owner: Option<u32>,
    pub(crate) sections: Sections,
    segments: Vec<Segment>,
    /// The last process in which its file could not be opened, and the number of such processes.
    pub(crate) failed: Option<(Tid, u32)>,
    /// The time of the last write to its file, and its length, when it was read.
    written: Option<(i64, i64, u64)>,
}

/// A part of the file that is mapped.
#[derive(Debug)]
struct Segment {
    offsets: Range<u64>,
    address: u64,
    is_code: bool,
}

/// A section: its addresses, and its content.
pub(super) type Section = Option<(Range<u64>, Arc<[u8]>)>;

/// The sections that a walk needs.
#[derive(Debug, Default)]
pub(crate) struct Sections {
    pub(super) text: Option<Range<u64>>,
    pub(super) got: Option<Range<u64>>,
    pub(super) eh_frame: Section,
    pub(super) eh_frame_hdr: Section,
    pub(super) debug_frame: Section,
    /// Made on first use.
    pub(super) eh_index: OnceCell<Index>,
    pub(super) debug_index: OnceCell<Index>,
    /// The address where the kernel starts it, if it is a program or a loader.
    pub(crate) entry: u64,
}

impl Sections {
    /// Bytes of the sections and indexes. An index takes no more bytes than its section.
    fn bytes(&self) -> u64 {
        let len = |section: &Section| section.as_ref().map_or(0, |(_, content)| content.len() as u64);
        len(&self.eh_frame_hdr) + 2 * (len(&self.eh_frame) + len(&self.debug_frame))
    }
}

impl Module {
    /// A module of code without a file.
    pub(crate) fn without_file(name: &str, process: Option<Tid>) -> Self {
        let owner = process.and_then(|tid| std::fs::metadata(format!("/proc/{tid}")).ok()).map(|of| of.uid());
        Module { name: name.to_owned(), process, owner, ..Module::default() }
    }

    /// The module of a file that a task has mapped here. Parts that cannot be read are absent.
    pub(crate) fn of_file(
        tid: Tid,
        (start, end): (u64, u64),
        (dev, inode, name): ((u32, u32), u64, &str),
        runs: bool,
        budget: &Budget,
    ) -> Self {
        let mut module = Module { name: name.to_owned(), ..Module::default() };
        let mapped = open_mapped(tid, (start, end), name, runs);
        module.file = mapped.or_else(|| open_itself(dev, inode, name));
        if let Some(file) = &module.file {
            let left = budget.left();
            let source = Source::new(file, budget);
            if let Ok(elf) = object::File::parse(&source) {
                module.build_id = elf.build_id().ok().flatten().map(hex);
                module.segments = segments(&elf);
                module.sections = sections(&elf, &source);
            }
            module.written = file.metadata().ok().as_ref().map(written);
            // Only the sections for the walk are kept.
            budget.give_back(left, module.sections.bytes());
            if source.refused() {
                budget.leave_out(name);
            }
        }
        module
    }

    /// Whether its ELF file, which is open, was written since it was read.
    pub(crate) fn is_written(&self) -> bool {
        let now = self.file.as_ref().filter(|_| !self.segments.is_empty()).and_then(|file| file.metadata().ok());
        now.is_some_and(|now| self.written.is_some_and(|then| written(&now) != then))
    }

    /// Memory address minus the address in the module, if the file's byte at `offset` is mapped at
    /// `start` as code. `None`: it is in no segment.
    pub(crate) fn bias(&self, start: u64, offset: u64) -> Option<u64> {
        // An area begins at a page boundary, a segment perhaps within a page.
        let holds = |segment: &&Segment| offset < segment.offsets.end && segment.offsets.start < offset + 4096;
        // Several segments may share one page of the file.
        let last = |segment: &&Segment| (segment.is_code, segment.offsets.start);
        let segment = self.segments.iter().filter(holds).max_by_key(last)?;
        Some(start.wrapping_sub(offset).wrapping_add(segment.offsets.start).wrapping_sub(segment.address))
    }
}

/// Opens the file of this name that a task has mapped at these addresses, if it is a regular file.
/// `runs`: the task runs, so the map may be of another file by now.
pub(super) fn open_mapped(tid: Tid, (start, end): (u64, u64), name: &str, runs: bool) -> Option<File> {
    // The link leads to the mapped file itself, but needs a capability. The name may lead to
    // another file by now, which the search for symbols detects by the build id.
    let link = PathBuf::from(format!("/proc/{tid}/map_files/{start:x}-{end:x}"));
    let bytes = name_bytes(name);
    let inside = Path::new(OsStr::from_bytes(&bytes));
    let named = PathBuf::from(format!("/proc/{tid}/root")).join(inside.strip_prefix("/").unwrap_or(inside));
    let is_there = !runs || std::fs::read_link(&link).is_ok_and(|to| to == inside);
    let mapped = if is_there { open_regular(&link) } else { None };
    mapped.or_else(|| open_regular(&named))
}

/// Opens the file of this name if it has this device and inode: for a task that has ended.
fn open_itself(dev: (u32, u32), inode: u64, name: &str) -> Option<File> {
    let file = open_regular(Path::new(OsStr::from_bytes(&name_bytes(name))))?;
    let found = file.metadata().ok()?;
    ((libc::major(found.dev()), libc::minor(found.dev())) == dev && found.ino() == inode).then_some(file)
}

/// File systems whose files are not content on a disk: a read runs code of the kernel, which may
/// wait or change something (`/proc/kmsg`, `trace_pipe`, registers of a device in `/sys`), or code
/// of a process.
const LIVE: &[FsType] = &[
    statfs::PROC_SUPER_MAGIC,
    statfs::SYSFS_MAGIC,
    statfs::DEBUGFS_MAGIC,
    statfs::TRACEFS_MAGIC,
    statfs::SECURITYFS_MAGIC,
    statfs::CGROUP_SUPER_MAGIC,
    statfs::CGROUP2_SUPER_MAGIC,
    statfs::BPF_FS_MAGIC,
    statfs::FUSE_SUPER_MAGIC,
];

/// Opens a regular file with content for reading. Nothing else is opened, because a traced program
/// chooses names: a FIFO would wait for a writer, and opening a device may have effects. Files of
/// [`LIVE`] file systems look regular and are refused.
pub(crate) fn open_regular(path: &Path) -> Option<File> {
    let found = File::options().read(true).custom_flags(libc::O_PATH | libc::O_CLOEXEC).open(path).ok()?;
    let is_regular = found.metadata().is_ok_and(|file| file.is_file());
    let is_live = || statfs::fstatfs(&found).map_or(true, |system| LIVE.contains(&system.filesystem_type()));
    (is_regular && !is_live()).then(|| File::open(format!("/proc/self/fd/{}", found.as_raw_fd())).ok())?
}

fn written(file: &Metadata) -> (i64, i64, u64) {
    (file.mtime(), file.mtime_nsec(), file.len())
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn segments<'d>(elf: &impl Object<'d>) -> Vec<Segment> {
    elf.segments()
        .map(|segment| {
            let (offset, len) = segment.file_range();
            let is_code = matches!(segment.flags(), SegmentFlags::Elf { p_flags } if p_flags & elf::PF_X != 0);
            Segment { offsets: offset..offset.saturating_add(len), address: segment.address(), is_code }
        })
        .collect()
}

fn sections<'d>(elf: &impl Object<'d>, source: &Source<'_>) -> Sections {
    let addresses = |name: &str| {
        let section = elf.section_by_name(name)?;
        Some(section.address()..section.address().saturating_add(section.size()))
    };
    let section = |name: &str| {
        let section = elf.section_by_name(name)?;
        let content = source.content(&section, MAX_SECTION_BYTES).filter(|content| !content.is_empty())?;
        Some((section.address()..section.address().saturating_add(section.size()), content))
    };
    // In a file with only debug information this section has no content.
    let eh_frame = section(".eh_frame").filter(|(_, content)| content.iter().any(|byte| *byte != 0));
    let eh_frame_hdr = eh_frame.as_ref().and_then(|_| section(".eh_frame_hdr"));
    Sections {
        text: addresses(".text"),
        got: addresses(".got"),
        eh_frame,
        eh_frame_hdr,
        debug_frame: section(".debug_frame"),
        entry: elf.entry(),
        ..Sections::default()
    }
}
