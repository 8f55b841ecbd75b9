//! The header of a trace file for a recording on this machine: the kernel, its settings and the
//! program's limits. Knows no recording.

use std::ffi::{OsStr, OsString};

use samara_probe::Profile;
use samara_trace::file::Header;

use crate::api::{Options, Running};
use crate::inspect::max_map_count;
use crate::nostop::Group;
use crate::os::limits;

impl Options {
    /// The header of a trace file for this recording, begun now.
    ///
    /// ```
    /// let header = samara_record::Options::new("true").header();
    /// assert_eq!((&*header.program, header.page_size % 4096), ("true", 0));
    /// ```
    pub fn header(&self) -> Header {
        now(&self.program, &self.args)
    }
}

impl Running {
    /// The header of a trace file for this recording, begun now, with the limits of the process.
    pub fn header(&self) -> Header {
        let words = self.words();
        let header = words.split_first().map(|(program, args)| now(program, args));
        let limits = i32::try_from(self.pid).map(limits::limits_by_name).unwrap_or_default();
        Header { limits, ..header.unwrap_or_else(|| now(&self.name, &[])) }
    }
}

impl Group {
    /// The header of a trace file for this recording, begun now. It has no limits, because
    /// processes differ in them.
    pub fn header(&self) -> Header {
        let words = self.words();
        let (program, args) = words.split_first().map_or((OsStr::new("--all"), &[][..]), |(p, args)| (p, args));
        Header { limits: Default::default(), ..now(program, args) }
    }
}

/// The header of a recording that begins now, with the limits of this process.
fn now(program: &OsStr, args: &[OsString]) -> Header {
    let profile = Profile::running();
    Header {
        kernel: profile.release.clone(),
        profile: profile.to_string(),
        features: Some(profile.features),
        presumed: profile.presumed,
        page_size: page_size().unwrap_or(4096),
        max_map_count: max_map_count(),
        overcommit: overcommit(),
        limits: limits::own_limits(),
        gate: gate().unwrap_or_default(),
        ..Header::new(program, args)
    }
}

/// `vm.overcommit_memory`.
fn overcommit() -> Option<u64> {
    std::fs::read_to_string("/proc/sys/vm/overcommit_memory").ok()?.trim().parse().ok()
}

/// The page size from the auxiliary vector of this process (`AT_PAGESZ` is 6).
fn page_size() -> Option<u64> {
    let auxv = std::fs::read("/proc/self/auxv").ok()?;
    let word = |b: &[u8]| usize::from_ne_bytes(b.try_into().unwrap_or_default()) as u64;
    let size = size_of::<usize>();
    auxv.chunks_exact(2 * size).find(|pair| word(&pair[..size]) == 6).map(|pair| word(&pair[size..]))
}

fn gate() -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    maps.lines().last().filter(|line| line.ends_with("[vsyscall]")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_has_the_rules_of_the_running_kernel() {
        assert_eq!(Options::new("true").header().rules(), Profile::running().features);
    }
}
