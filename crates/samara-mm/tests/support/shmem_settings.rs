//! Linux's settings of huge pages for shared memory: reads them, and changes them for a moment.
//! They hold for the whole machine, so a test that changes them holds a lock on their file, and
//! restores them at once.

use samara_mm::{PageSize, SharedHuge};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;

const DIR: &str = "/sys/kernel/mm/transparent_hugepage";
/// Global, and of pages of 64 KiB.
const FILES: [&str; 2] = ["shmem_enabled", "hugepages-64kB/shmem_enabled"];

/// Values of these two.
pub(crate) const VALUES: [[&str; 2]; 7] = [
    ["always", "never"],
    ["within_size", "always"],
    ["advise", "inherit"],
    ["never", "always"],
    ["never", "advise"],
    ["force", "never"],
    ["deny", "always"],
];

fn text(name: &str) -> String {
    std::fs::read_to_string(format!("{DIR}/{name}")).unwrap_or_default()
}

/// What the settings say now.
pub(crate) fn now() -> SharedHuge {
    let huge = text("hpage_pmd_size").trim().parse().ok().and_then(PageSize::new);
    let folders = std::fs::read_dir(DIR).into_iter().flatten().flatten();
    let sizes = folders.filter_map(|folder| {
        let name = folder.file_name().into_string().ok()?;
        let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        Some((PageSize::new(kib * 1024)?, text(&format!("{name}/shmem_enabled"))))
    });
    SharedHuge::new(&text(FILES[0]), sizes, huge)
}

fn write(name: &str, value: &str) -> std::io::Result<()> {
    File::options().write(true).open(PathBuf::from(DIR).join(name))?.write_all(value.as_bytes())
}

/// The former settings, which dropping it restores.
pub(crate) struct Changed {
    former: [String; 2],
    /// Locked.
    _file: File,
}

impl Changed {
    /// Changes both.
    ///
    /// # Errors
    /// They cannot be written here.
    pub(crate) fn to(values: [&str; 2]) -> std::io::Result<Changed> {
        let file = File::options().write(true).open(PathBuf::from(DIR).join(FILES[0]))?;
        file.lock()?;
        let chosen = |name| text(name).split(['[', ']']).nth(1).unwrap_or_default().to_owned();
        // Dropped, which restores both, if the second write fails.
        let changed = Changed { former: FILES.map(chosen), _file: file };
        for (name, value) in FILES.iter().zip(values) {
            write(name, value)?;
        }
        Ok(changed)
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        for (name, value) in FILES.iter().zip(&self.former) {
            let _ = write(name, value); // it was written a moment ago
        }
    }
}
