//! Short names of source files, without the folders that they share. Knows no frames.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Most source files that are shortened, and most bytes of their names. With more, whole names are
/// shown.
const FILES: usize = 1 << 16;
const BYTES: usize = 2 << 20;

/// How many parts are shown of the name of each source file.
#[derive(Clone, Debug, Default)]
pub(super) struct ShortPlaces(HashMap<Box<str>, usize>);

impl ShortPlaces {
    /// Short names for the files of these places.
    ///
    /// A name begins after the folders that all files below the same [`root`] share. If two short
    /// names would be equal, each keeps more folders, until they differ.
    pub(super) fn of<'p>(places: impl Iterator<Item = &'p str>) -> Self {
        let mut files: HashSet<&str> = HashSet::new();
        let mut bytes = 0;
        for (file, _) in places.map(split).filter(|(file, _)| !file.is_empty()) {
            bytes += if files.insert(file) { file.len() } else { 0 };
            if files.len() > FILES || bytes > BYTES {
                return ShortPlaces::default();
            }
        }
        let files: Vec<(&str, Vec<&str>)> = files.into_iter().map(|file| (file, parts(file))).collect();
        let mut common: HashMap<&[&str], &[&str]> = HashMap::new();
        for (_, parts) in &files {
            // A package that was fetched is always named.
            let folders = if fetched(parts).is_some() { root(parts) } else { folders(parts) };
            let known = common.entry(root(parts)).or_insert(folders);
            *known = &known[..alike(known.iter(), folders.iter())];
        }
        let after = |parts: &[&str]| parts.len() - common.get(root(parts)).map_or(0, |folders| folders.len());
        let mut sorted: Vec<&[&str]> = files.iter().map(|(_, parts)| &**parts).collect();
        sorted.sort_unstable_by(|a, b| a.iter().rev().cmp(b.iter().rev()));
        sorted.dedup();
        let mut times: HashMap<&[&str], usize> = HashMap::new();
        for parts in &sorted {
            *times.entry(&parts[parts.len() - after(parts)..]).or_default() += 1;
        }
        let shown = |parts: &[&str]| {
            let count = after(parts);
            if times.get(&parts[parts.len() - count..]) == Some(&1) {
                return count;
            }
            // Sorted from the end, the most similar names are neighbours.
            let at = sorted.partition_point(|other| other.iter().rev().lt(parts.iter().rev()));
            let beside = [at.checked_sub(1), at.checked_add(1)].into_iter().flatten().filter_map(|at| sorted.get(at));
            let most = beside.map(|other| alike(other.iter().rev(), parts.iter().rev())).max();
            (most.unwrap_or(0) + 1).clamp(count.min(parts.len()), parts.len())
        };
        ShortPlaces(files.iter().map(|(file, parts)| (Box::from(*file), shown(parts))).collect())
    }

    /// A place of these files, shortened.
    pub(super) fn short<'p>(&self, place: &'p str) -> Cow<'p, str> {
        let (file, line) = split(place);
        match self.0.get(file) {
            Some(count) => {
                let parts = parts(file);
                Cow::from(parts[parts.len().saturating_sub(*count)..].join("/") + line)
            }
            None => Cow::from(place),
        }
    }
}

/// The file of a place, and the rest: `:12`, or nothing.
fn split(place: &str) -> (&str, &str) {
    let is_line = |line: &str| !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_digit());
    let colon = place.rfind(':').filter(|colon| is_line(&place[colon + 1..]));
    place.split_at(colon.unwrap_or(place.len()))
}

/// The parts of a name, with `..` resolved (`build/../src` is `src`). The first of an absolute name
/// is empty.
fn parts(file: &str) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for (i, part) in file.split('/').enumerate() {
        match part {
            "" if i > 0 => {}
            "." => {}
            ".." if all.last().is_some_and(|last| !matches!(*last, "" | "..")) => _ = all.pop(),
            part => all.push(part),
        }
    }
    all
}

/// The folders below which files belong together: the first one of an absolute name (`/home`,
/// `/usr`, `/rustc`), or where cargo keeps packages that it has fetched.
fn root<'a, 'p>(parts: &'a [&'p str]) -> &'a [&'p str] {
    let first = if parts.first() == Some(&"") { 2 } else { 0 };
    &parts[..fetched(parts).unwrap_or(first).min(folders(parts).len())]
}

/// The number of folders above cargo's fetched packages, for a file in one of them.
fn fetched(parts: &[&str]) -> Option<usize> {
    let at = parts.windows(2).position(|two| two == ["registry", "src"])?;
    Some(at + 3).filter(|around| *around < folders(parts).len())
}

/// The parts of a name without the last.
fn folders<'a, 'p>(parts: &'a [&'p str]) -> &'a [&'p str] {
    parts.split_last().map_or(&[], |(_, folders)| folders)
}

/// Length of the common prefix.
fn alike<'p>(a: impl Iterator<Item = &'p &'p str>, b: impl Iterator<Item = &'p &'p str>) -> usize {
    a.zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use proptest::collection::hash_set;
    use proptest::prelude::*;

    use super::*;

    fn short(places: &[&str]) -> Vec<String> {
        let all = ShortPlaces::of(places.iter().copied());
        places.iter().map(|place| all.short(place).into_owned()).collect()
    }

    #[test]
    fn what_differs_is_shown() {
        assert_eq!(
            short(&["/home/u/proj/src/alloc/pool.c:12", "/home/u/proj/src/net/io.c:3"]),
            ["alloc/pool.c:12", "net/io.c:3"]
        );
        assert_eq!(short(&["/home/u/proj/src/pool.c:12", "/home/u/proj/src/pool.c:9"]), ["pool.c:12", "pool.c:9"]);
        assert_eq!(short(&["pool.c:12"]), ["pool.c:12"]);
        assert_eq!(short(&["/p/a/list.c:1", "/p/b/list.c:1", "/p/main.c"]), ["a/list.c:1", "b/list.c:1", "main.c"]);
        assert_eq!(short(&["/p/list.c:1", "/p/b/list.c:1"]), ["list.c:1", "b/list.c:1"]);
    }

    #[test]
    fn what_others_wrote_is_shortened_by_itself() {
        let all = [
            "/home/u/proj/src/main.rs:3",
            "/home/u/proj/src/pool/mod.rs:7",
            "/rustc/0123abcd/library/std/src/rt.rs:90",
            "/rustc/0123abcd/library/core/src/ops/function.rs:250",
            "/home/u/.cargo/registry/src/index-6f17/mmap-0.9/src/lib.rs:20",
            "/home/u/.cargo/registry/src/index-6f17/mmap-0.9/src/unix.rs:8",
            "./malloc/malloc.c:5",
            "./misc/../sysdeps/unix/mmap.c:44",
        ];
        let shown = [
            "main.rs:3",
            "pool/mod.rs:7",
            "std/src/rt.rs:90",
            "core/src/ops/function.rs:250",
            "mmap-0.9/src/lib.rs:20",
            "mmap-0.9/src/unix.rs:8",
            "malloc/malloc.c:5",
            "sysdeps/unix/mmap.c:44",
        ];
        assert_eq!(short(&all), shown);
        assert_eq!(short(&["/p/build/../src/a.c:1", "/p/src/a.c:2", "/p/src/b/c.c:2"]), ["a.c:1", "a.c:2", "b/c.c:2"]);
    }

    #[test]
    fn names_that_would_be_alike_keep_their_folders() {
        assert_eq!(short(&["/home/u/proj/list.c:1", "/usr/src/list.c:1"]), ["proj/list.c:1", "src/list.c:1"]);
        assert_eq!(short(&["/src/a.c:1", "src/a.c:1"]), ["/src/a.c:1", "src/a.c:1"]);
        assert_eq!(short(&["/a.c", "/b/a.c", "/c/a.c"]), ["/a.c", "b/a.c", "c/a.c"]);
        assert_eq!(short(&["", ":", "/", "..", "../../a.c:x", "a:1:2"]).len(), 6);
    }

    proptest! {
        /// For all names: no two short names are equal, and each is the end of its name.
        #[test]
        fn no_two_files_are_shown_alike(files in hash_set("/?(a|b|src|registry|usr|x.c)(/(a|b|src|usr|x.c)){0,5}", 1..12)) {
            let all = ShortPlaces::of(files.iter().map(|file| &**file));
            let shown: HashSet<_> = files.iter().map(|file| all.short(file)).collect();
            prop_assert_eq!(shown.len(), files.len(), "{:?} are shown as {:?}", files, shown);
            prop_assert!(files.iter().all(|file| file.ends_with(&*all.short(file))), "{:?}: {:?}", files, shown);
        }
    }

    #[test]
    fn very_many_names_are_whole() {
        let names: Vec<String> = (0..=FILES).map(|i| format!("/p/{i}.c")).collect();
        let all = ShortPlaces::of(names.iter().map(|name| &**name));
        assert_eq!(all.short("/p/1.c"), "/p/1.c");
    }
}
