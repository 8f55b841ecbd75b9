//! Areas by backing and protection. The files of a directory count as one backing where there are
//! many of them.

use std::collections::{BTreeMap, BTreeSet};

use super::{is_anonymous, size};
use crate::event::AreaRecord;

/// Minimum number of a directory's files that count as one backing.
const MANY: usize = 8;

/// The mark that Linux puts behind the name of a file that has been removed.
pub(super) const DELETED: &str = " (deleted)";

/// Areas of the same backing and protection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AreaGroup {
    /// The backing of the areas: `anonymous`, a name as the maps line shows it, or `DIRECTORY/*`
    /// for eight or more files of a directory. Removed files are a group of their own, with
    /// ` (deleted)`.
    pub backing: String,
    /// Number of files.
    pub files: u64,
    /// As in [`AreaRecord::perms`].
    pub perms: u8,
    /// Number of areas.
    pub areas: u64,
    /// Their bytes, together.
    pub bytes: u64,
    /// Bytes of the smallest and of the largest.
    pub sizes: (u64, u64),
    /// The most common size in bytes, and the number of areas that have it.
    pub common: (u64, u64),
}

/// Common beginning of the names of several files, and whether they have been removed.
type Prefix<'a> = (&'a str, bool);
/// A file: its device, its inode and its name. A name may be used again.
type File<'a> = ((u32, u32), u64, &'a str);

pub(super) fn groups(areas: &[AreaRecord]) -> Vec<AreaGroup> {
    let mut names: BTreeMap<Prefix<'_>, BTreeSet<&str>> = BTreeMap::new();
    for area in areas {
        if let Some((prefix, file)) = file(area) {
            names.entry(prefix).or_default().insert(file.2);
        }
    }
    // The names of the files and the sizes of the areas.
    type Found<'a> = (BTreeSet<File<'a>>, Vec<u64>);
    let mut found: BTreeMap<(String, u8), Found<'_>> = BTreeMap::new();
    for area in areas {
        let (backing, name) = match file(area) {
            Some((prefix, file)) if names[&prefix].len() >= MANY => {
                (format!("{}*{}", prefix.0, if prefix.1 { DELETED } else { "" }), Some(file))
            }
            Some((_, file)) => (area.name.clone(), Some(file)),
            None if is_anonymous(area) && area.name.is_empty() => ("anonymous".to_owned(), None),
            None if area.name.is_empty() => ("without a name".to_owned(), None),
            None => (area.name.clone(), None),
        };
        let (files, sizes) = found.entry((backing, area.perms)).or_default();
        files.extend(name);
        sizes.push(size(area));
    }
    let mut all: Vec<AreaGroup> =
        found.into_iter().map(|(key, (names, sizes))| group(key, names.len(), sizes)).collect();
    all.sort_by_key(|group| std::cmp::Reverse((group.areas, group.bytes)));
    all
}

fn group((backing, perms): (String, u8), files: usize, mut sizes: Vec<u64>) -> AreaGroup {
    sizes.sort_unstable();
    let runs = sizes.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u64));
    let common = runs.max_by_key(|(size, n)| (*n, *size)).unwrap_or_default();
    AreaGroup {
        backing,
        files: files as u64,
        perms,
        areas: sizes.len() as u64,
        bytes: sizes.iter().copied().fold(0, u64::saturating_add),
        sizes: (sizes.first().copied().unwrap_or(0), sizes.last().copied().unwrap_or(0)),
        common,
    }
}

/// The file behind an area, if it has a path or a name like one, and the prefix of its own name:
/// its directory, or the kind of a memfd or a segment.
fn file(area: &AreaRecord) -> Option<(Prefix<'_>, File<'_>)> {
    let path = area.name.strip_suffix(DELETED).unwrap_or(&area.name);
    let kind = ["/memfd:", "/SYSV"].into_iter().find(|kind| path.starts_with(kind));
    let directory = || path.rfind('/').filter(|_| path.starts_with('/')).map(|at| at + 1);
    let (prefix, name) = path.split_at(kind.map(str::len).or_else(directory)?);
    Some(((prefix, path.len() < area.name.len()), (area.dev, area.inode, name)))
}
