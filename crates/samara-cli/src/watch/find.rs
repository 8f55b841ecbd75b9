//! Selects the watched processes. Knows their numbers and names, nothing of their areas.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use samara_record::processes;
use samara_trace::file::name_text;

/// Bytes that Linux keeps of a process's name.
const NAME: usize = 15;

/// The selection of processes: all, or those that one of these chooses.
#[derive(Clone, Debug, Default)]
pub(crate) struct Which {
    pub(crate) pids: Vec<u32>,
    pub(crate) names: Vec<String>,
    pub(crate) groups: Vec<PathBuf>,
}

impl Which {
    /// Whether every process is watched.
    pub(crate) fn is_all(&self) -> bool {
        self.pids.is_empty() && self.names.is_empty() && self.groups.is_empty()
    }

    /// Whether only processes of these numbers are watched.
    pub(crate) fn is_pids(&self) -> bool {
        !self.pids.is_empty() && self.names.is_empty() && self.groups.is_empty()
    }

    /// The candidates, now. With names these are all processes, and their names decide later.
    pub(crate) fn processes(&self) -> io::Result<BTreeSet<u32>> {
        if self.is_all() || !self.names.is_empty() {
            return processes::all();
        }
        let mut found: BTreeSet<u32> = self.pids.iter().copied().collect();
        for group in &self.groups {
            found.extend(processes::in_group(&processes::group_folder(group))?);
        }
        Ok(found)
    }

    /// The processes that are chosen by number or group, whatever their name.
    pub(crate) fn sure(&self) -> io::Result<BTreeSet<u32>> {
        Which { names: Vec::new(), ..self.clone() }.some()
    }

    fn some(&self) -> io::Result<BTreeSet<u32>> {
        if self.is_all() { Ok(BTreeSet::new()) } else { self.processes() }
    }

    /// Whether a process of this name is chosen. Linux keeps the first 15 bytes of a name.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.names.iter().any(|asked| asked == name || (asked.len() > NAME && asked.get(..NAME) == Some(name)))
    }
}

/// In words, such as `process 7 (sleep), processes named java`.
impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_all() {
            return f.write_str("all processes");
        }
        let pid = |pid: &u32| format!("process {pid} ({})", name(*pid));
        let group = |group: &PathBuf| format!("processes of {}", name_text(group.as_os_str().as_bytes()));
        let names = self.names.iter().map(|name| format!("processes named {name}"));
        let all = self.pids.iter().map(pid).chain(names).chain(self.groups.iter().map(group));
        f.write_str(&all.collect::<Vec<_>>().join(", "))
    }
}

/// The name of a process, in the form of [`name_text`].
pub(crate) fn name(pid: u32) -> String {
    let bytes = fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    name_text(bytes.strip_suffix(b"\n").unwrap_or(&bytes))
}

/// Start time of a process, in clock ticks since boot; 0 if it cannot be read.
pub(crate) fn started(pid: u32) -> u64 {
    let text = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name stands in brackets and may contain anything. Field 3 follows it; this one is 22.
    let text = String::from_utf8_lossy(&text);
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_ascii_whitespace().nth(19).and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// Time since the start of a process; the maximum if it cannot be read.
pub(crate) fn age(pid: u32) -> Duration {
    /// Clock ticks of a second, to programs.
    const TICKS: f64 = 100.0;
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let now: Option<f64> = text.split(' ').next().and_then(|seconds| seconds.parse().ok());
    let started = Some(started(pid)).filter(|ticks| *ticks > 0).map(|ticks| ticks as f64 / TICKS);
    let age = now.zip(started).and_then(|(now, started)| Duration::try_from_secs_f64(now - started).ok());
    age.unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_chosen_by_number_name_and_group() {
        let own = std::process::id();
        assert!(Which::default().processes().unwrap().contains(&own));
        assert!(started(own) > started(1) && started(u32::MAX) == 0);
        assert!(age(own) < age(1) && age(1) < Duration::MAX && age(u32::MAX) == Duration::MAX);
        let pids = Which { pids: vec![own, 7], ..Which::default() };
        assert_eq!(pids.processes().unwrap(), [7, own].into());
        let mixed = Which { pids: vec![u32::MAX], names: vec!["a".into(), "b".into()], groups: vec!["/c".into()] };
        let told = "process 4294967295 (), processes named a, processes named b, processes of /c";
        assert_eq!(mixed.to_string(), told);
        assert_eq!(Which::default().to_string(), "all processes");
        let names = Which { names: vec!["a-name-of-over-15-bytes".into(), "x".into()], ..pids };
        assert!(names.has_name("a-name-of-over-") && names.has_name("x") && !names.has_name("a-name"));
        assert!(names.processes().unwrap().contains(&own));
        assert_eq!(names.sure().unwrap(), [7, own].into());
        assert_eq!(Which { pids: Vec::new(), ..names }.sure().unwrap(), BTreeSet::new());
    }
}
