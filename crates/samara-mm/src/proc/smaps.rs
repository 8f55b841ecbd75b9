//! Displays a space as `/proc/PID/smaps`, to the byte. The model supplies the attributes of the
//! areas; the caller supplies the numbers from page tables ([`Usage`]).

use crate::area::Backing;
use crate::area::flags::Flags;
use crate::proc::maps::{Line, VSYSCALL};
use crate::space::index::AreaIndex;
use crate::space::{AddressSpace, Config, Placed};
use core::fmt;

/// The numbers from an area's page tables, in kB, each under the name of its line. All zero means
/// that nothing was touched yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // proc_pid_smaps(5) says what each is.
pub struct Usage {
    pub rss: u64,
    pub pss: u64,
    pub pss_dirty: u64,
    pub shared_clean: u64,
    pub shared_dirty: u64,
    pub private_clean: u64,
    pub private_dirty: u64,
    pub referenced: u64,
    pub anonymous: u64,
    pub ksm: u64,
    pub lazy_free: u64,
    pub anon_huge_pages: u64,
    pub shmem_pmd_mapped: u64,
    pub file_pmd_mapped: u64,
    pub shared_hugetlb: u64,
    pub private_hugetlb: u64,
    pub swap: u64,
    pub swap_pss: u64,
    pub locked: u64,
    /// Whether the area may get transparent huge pages.
    pub thp_eligible: bool,
}

impl Usage {
    /// The lines that end in kB, in the order of the file.
    fn lines(&self) -> [(&'static str, u64); 19] {
        [
            ("Rss:", self.rss),
            ("Pss:", self.pss),
            ("Pss_Dirty:", self.pss_dirty),
            ("Shared_Clean:", self.shared_clean),
            ("Shared_Dirty:", self.shared_dirty),
            ("Private_Clean:", self.private_clean),
            ("Private_Dirty:", self.private_dirty),
            ("Referenced:", self.referenced),
            ("Anonymous:", self.anonymous),
            ("KSM:", self.ksm),
            ("LazyFree:", self.lazy_free),
            ("AnonHugePages:", self.anon_huge_pages),
            ("ShmemPmdMapped:", self.shmem_pmd_mapped),
            ("FilePmdMapped:", self.file_pmd_mapped),
            ("Shared_Hugetlb:", self.shared_hugetlb),
            ("Private_Hugetlb:", self.private_hugetlb),
            ("Swap:", self.swap),
            ("SwapPss:", self.swap_pss),
            ("Locked:", self.locked),
        ]
    }
}

/// Displays the whole `/proc/PID/smaps`; made by [`AddressSpace::smaps`], and for shared spaces by
/// [`SharedAddressSpace::smaps`](crate::SharedAddressSpace::smaps).
#[derive(Clone, Debug)]
pub struct Smaps<'a, S, F> {
    pub(crate) space: &'a S,
    pub(crate) usage: F,
}

/// Displays the record of one area in `/proc/PID/smaps`; made by [`Line::with_usage`].
#[derive(Clone, Debug)]
pub struct SmapsRecord<'a, B> {
    line: Line<'a, B>,
    usage: Usage,
}

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// Displays the space as `/proc/PID/smaps`. `usage` returns the numbers from an area's page
    /// tables. With [`protection_keys`](crate::Config::protection_keys) each area's key is shown.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, FileId, MapRequest, Prot, Usage};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.map(&MapRequest::anonymous(0x10000, 0x3000, Prot::READ)).unwrap();
    /// let text = space.smaps(|_area| Usage::default()).to_string();
    /// let lines: Vec<&str> = text.lines().collect();
    /// assert_eq!(
    ///     lines[..3],
    ///     [
    ///         "00010000-00013000 r--p 00000000 00:00 0 ",
    ///         "Size:                 12 kB",
    ///         "KernelPageSize:        4 kB"
    ///     ]
    /// );
    /// assert_eq!(lines.last(), Some(&"VmFlags: rd mr mw me "));
    /// ```
    pub fn smaps<F: Fn(&Placed<'_, B>) -> Usage>(&self, usage: F) -> Smaps<'_, Self, F> {
        Smaps { space: self, usage }
    }
}

impl<'a, B: Backing> Line<'a, B> {
    /// The area's record in `/proc/PID/smaps`, with this usage.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, FileId, MapRequest, Prot, Usage};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.map(&MapRequest::anonymous(0x10000, 0x3000, Prot::READ)).unwrap();
    /// let text = space.line(0x10000).unwrap().with_usage(Usage::default()).to_string();
    /// assert_eq!(text, space.smaps(|_area| Usage::default()).to_string());
    /// ```
    pub fn with_usage(self, usage: Usage) -> SmapsRecord<'a, B> {
        SmapsRecord { line: self, usage }
    }
}

impl<B: Backing, I: AreaIndex<B>, F: Fn(&Placed<'_, B>) -> Usage> fmt::Display for Smaps<'_, AddressSpace<B, I>, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.space.lines().try_for_each(|line| write_record(f, line, &self.usage))?;
        write_end(f, &self.space.config)
    }
}

/// Writes the record of an area.
pub(crate) fn write_record<B: Backing>(
    f: &mut fmt::Formatter<'_>,
    line: Line<'_, B>,
    usage: impl Fn(&Placed<'_, B>) -> Usage,
) -> fmt::Result {
    let usage = usage(&line.placed());
    write!(f, "{}", line.with_usage(usage))
}

/// Writes the text after the records of areas.
pub(crate) fn write_end(f: &mut fmt::Formatter<'_>, config: &Config) -> fmt::Result {
    if !config.vsyscall {
        return Ok(());
    }
    let page = config.page_size.bytes();
    f.write_str(VSYSCALL)?;
    write_fields(f, config, (page, page), &Usage::default(), Flags::EXEC)
}

impl<B: Backing> fmt::Display for SmapsRecord<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, at) = (&self.line, self.line.placed());
        writeln!(f, "{line}")?;
        write_fields(f, line.config, (at.end - at.start, line.page_size()), &self.usage, at.area.flags)
    }
}

/// Writes all lines of an area except the first.
fn write_fields(
    f: &mut fmt::Formatter<'_>,
    config: &Config,
    (size, page): (u64, u64),
    usage: &Usage,
    flags: Flags,
) -> fmt::Result {
    let sizes = [("Size:", size >> 10), ("KernelPageSize:", page >> 10), ("MMUPageSize:", page >> 10)];
    for (name, kb) in sizes.into_iter().chain(usage.lines()) {
        writeln!(f, "{name:16}{kb:8} kB")?;
    }
    writeln!(f, "{:16}{:8}", "THPeligible:", u8::from(usage.thp_eligible))?;
    if config.protection_keys {
        writeln!(f, "{:16}{:8}", "ProtectionKey:", (flags & Flags::PKEY).bits() >> 32)?;
    }
    // A space follows each word. Without words, the space after the colon stays alone.
    let end = if (flags - Flags::PKEY).is_empty() { "" } else { " " };
    writeln!(f, "VmFlags: {}{end}", flags.letters())
}
