//! The machine's huge pages: their sizes, the number of free ones, and the settings of transparent
//! ones. The settings of shared memory are read at each call, because they may change at any time.

use std::fs::File;
use std::os::unix::fs::FileExt;

use samara_mm::{PageSize, SharedHuge};

const DIR: &str = "/sys/kernel/mm/transparent_hugepage";

/// The files of the settings, kept open.
#[derive(Debug)]
pub(crate) struct Settings {
    /// Size of the machine's huge pages.
    huge: Option<PageSize>,
    /// `shmem_enabled`; `None` if this kernel does not have it.
    shared: Option<File>,
    /// `shmem_enabled` of each page size.
    sizes: Vec<(PageSize, File)>,
}

impl Settings {
    pub(crate) fn open() -> Settings {
        let huge = std::fs::read_to_string(format!("{DIR}/hpage_pmd_size")).ok();
        let huge = huge.and_then(|text| PageSize::new(text.trim().parse().ok()?));
        let folders = std::fs::read_dir(DIR).into_iter().flatten().flatten();
        let sizes = folders.filter_map(|folder| {
            let name = folder.file_name();
            let kib: u64 = name.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            let file = File::open(folder.path().join("shmem_enabled")).ok()?;
            Some((PageSize::new(kib.checked_mul(1024)?)?, file))
        });
        Settings { huge, shared: File::open(format!("{DIR}/shmem_enabled")).ok(), sizes: sizes.collect() }
    }

    /// The size of transparent huge pages in bytes; 0 if the machine has none.
    pub(crate) fn huge(&self) -> u64 {
        self.huge.map_or(0, PageSize::bytes)
    }

    /// The current settings of shared memory.
    pub(crate) fn shared(&self) -> SharedHuge {
        let enabled = self.shared.as_ref().map(text).unwrap_or_default();
        SharedHuge::new(&enabled, self.sizes.iter().map(|(size, file)| (*size, text(file))), self.huge)
    }
}

/// The text of a file of at most 128 bytes.
fn text(file: &File) -> String {
    let mut bytes = [0; 128];
    let len = file.read_at(&mut bytes, 0).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..len]).into_owned()
}

/// The sizes of huge pages that processors support.
pub(crate) const HUGE_PAGES: [PageSize; 2] = [PageSize::M2, PageSize::G1];

/// The default size of huge pages.
pub(crate) fn huge_page() -> Option<PageSize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kib = text.lines().find_map(|line| line.strip_prefix("Hugepagesize:"))?.trim().strip_suffix(" kB")?;
    PageSize::new(kib.parse::<u64>().ok()?.checked_mul(1024)?)
}

/// Number of huge pages of this size that a map may use: the free ones that are not reserved, and
/// those that the kernel may add. `None`: this size does not exist.
pub(crate) fn free_huge_pages(size: PageSize) -> Option<u64> {
    let number = |name: &str| {
        let path = format!("/sys/kernel/mm/hugepages/hugepages-{}kB/{name}", size.bytes() >> 10);
        std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()
    };
    let free = number("free_hugepages")?.saturating_sub(number("resv_hugepages")?);
    Some(free.saturating_add(number("nr_overcommit_hugepages")?.saturating_sub(number("surplus_hugepages")?)))
}
