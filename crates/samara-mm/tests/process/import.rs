//! Reads a process's own smaps into a model, and the page counts of each area.

use crate::child::{self, PAGE};
use samara_mm::*;
use samara_oracle::Profile;
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) fn layout() -> Layout {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("procfs");
    let rest = stat.rsplit_once(')').expect("a name in brackets").1;
    let field = |n: usize| rest.split_ascii_whitespace().nth(n - 3).and_then(|f| f.parse().ok()).expect("a number");
    let brk = child::call(libc::SYS_brk, [0; 6]) as u64;
    Layout { start_brk: field(47), brk, start_stack: field(28), data: field(46) - field(45) }
}

/// A model of the process whose smaps these are: a child, so all its memory is inherited, and taken
/// as written.
pub(crate) fn import(smaps: &str, layout: Layout) -> AddressSpace<FileId> {
    let vsyscall = smaps.contains("[vsyscall]");
    let protection_keys = smaps.contains("ProtectionKey:");
    let features = Profile::running().features;
    let mut space = AddressSpace::new(Config { vsyscall, protection_keys, features, ..Config::default() });
    space.set_layout(layout);
    let mut head: Option<&str> = None;
    for (id, line) in smaps.lines().enumerate() {
        if let Some(letters) = line.strip_prefix("VmFlags:") {
            let head = head.take().expect("VmFlags come after a maps line");
            if !head.contains("[vsyscall]") {
                let (start, end, mut area) = parse(head, Flags::from_letters(letters));
                area.set_anon(Anon::Identity { id: 1_000_000 + id as u64, inherited: true });
                space.import(start, end, area).expect("smaps is in order");
            }
        } else if line.split_ascii_whitespace().next().is_some_and(|w| w.contains('-') && !w.contains(':')) {
            head = Some(line);
        }
    }
    space
}

pub(crate) fn parse(line: &str, flags: Flags) -> (u64, u64, Area<FileId>) {
    let mut words = line.splitn(6, ' ');
    let mut word = || words.next().expect("six fields");
    let hex = |s: &str| u64::from_str_radix(s, 16).expect("hex");
    let (start, end) = word().split_once('-').expect("a range");
    let (start, end) = (hex(start), hex(end));
    let (_, offset, dev, inode) = (word(), hex(word()), word(), word().parse().expect("a number"));
    let name = word().trim_start().replace("\\012", "\n");
    let (major, minor) = dev.split_once(':').expect("two numbers");
    let dev = (hex(major) as u32, hex(minor) as u32);
    let object = match &*name {
        _ if inode != 0 => Object::File(FileId { dev, inode, open: 0, name: Arc::from(name) }),
        "" | "[heap]" | "[stack]" => Object::Anonymous,
        _ => Object::Special((&*name).into()),
    };
    let bias = if inode != 0 { Area::<FileId>::bias_of(start, offset, PAGE) } else { 0 };
    (start, end, Area::new(flags, object, bias))
}

/// What smaps says of the page tables of each area, by its start.
#[allow(dead_code)] // Not every test that reads smaps compares it.
pub(crate) fn usages(smaps: &str) -> BTreeMap<u64, Usage> {
    let (mut all, mut at) = (BTreeMap::<u64, Usage>::new(), 0);
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (name, value) = (words.next().unwrap_or_default(), words.next().and_then(|w| w.parse().ok()).unwrap_or(0));
        if let Some((start, _)) = name.split_once('-') {
            at = u64::from_str_radix(start, 16).expect("an address");
        }
        let u = all.entry(at).or_default();
        let to = match name {
            "THPeligible:" => {
                u.thp_eligible = value != 0;
                continue;
            }
            "Rss:" => &mut u.rss,
            "Pss:" => &mut u.pss,
            "Pss_Dirty:" => &mut u.pss_dirty,
            "Shared_Clean:" => &mut u.shared_clean,
            "Shared_Dirty:" => &mut u.shared_dirty,
            "Private_Clean:" => &mut u.private_clean,
            "Private_Dirty:" => &mut u.private_dirty,
            "Referenced:" => &mut u.referenced,
            "Anonymous:" => &mut u.anonymous,
            "KSM:" => &mut u.ksm,
            "LazyFree:" => &mut u.lazy_free,
            "AnonHugePages:" => &mut u.anon_huge_pages,
            "ShmemPmdMapped:" => &mut u.shmem_pmd_mapped,
            "FilePmdMapped:" => &mut u.file_pmd_mapped,
            "Shared_Hugetlb:" => &mut u.shared_hugetlb,
            "Private_Hugetlb:" => &mut u.private_hugetlb,
            "Swap:" => &mut u.swap,
            "SwapPss:" => &mut u.swap_pss,
            "Locked:" => &mut u.locked,
            _ => continue,
        };
        *to = value;
    }
    all
}
