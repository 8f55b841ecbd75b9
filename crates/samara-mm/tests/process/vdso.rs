//! `[vvar]`, `[vvar_vclock]` and `[vdso]`, as `Area::vvar` and `Area::vdso` make them: each call
//! does the same to the areas of a child and to those of the model.

use crate::child::{self, BASE, PAGE, Raw};
use crate::import::layout;
use crate::skip::skipped;
use samara_mm::*;

/// Where the lines of these areas say that they are.
fn places(maps: &str) -> Vec<(String, u64, u64)> {
    let place = |line: &str| {
        let name = line.get(73..).filter(|n| n.starts_with("[v") && *n != "[vsyscall]")?;
        let (start, end) = line.split(' ').next()?.split_once('-')?;
        let hex = |s| u64::from_str_radix(s, 16).ok();
        Some((name.to_owned(), hex(start)?, hex(end)?))
    };
    maps.lines().filter_map(place).collect()
}

fn model(of: &[(String, u64, u64)]) -> AddressSpace<FileId> {
    let features = samara_oracle::Profile::running().features;
    let mut space = AddressSpace::new(Config { features, ..Config::default() });
    for (name, start, end) in of {
        let area = if name == "[vdso]" { Area::vdso() } else { Area::vvar(name) };
        space.import(*start, *end, area).expect("free address space");
    }
    space
}

/// The entries of these areas in smaps, without what the page tables say.
fn entries(smaps: &str) -> Vec<String> {
    let mut on = false;
    let mut lines = Vec::new();
    for line in smaps.lines() {
        if line.contains('-') {
            on = line.contains("[v") && !line.contains("[vsyscall]");
        }
        let flags = line.strip_prefix("VmFlags:").map(|l| format!("VmFlags:{}", l.replace(" sd", "")));
        let kept = line.contains('-') || line.contains("Size:") || line.starts_with("VmFlags:");
        lines.extend(Some(flags.unwrap_or_else(|| line.to_owned())).filter(|_| on && kept));
    }
    lines
}

#[test]
fn the_kernels_own_pages() {
    let _one = crate::PROCESS_LOCK.lock();
    let nothing = child::run(&[], child::USUAL).expect("a child that does nothing");
    let own = places(&nothing.maps);
    let (Some(vdso), Some(vvar)) = (own.iter().find(|a| a.0 == "[vdso]"), own.iter().find(|a| a.0 == "[vvar]")) else {
        skipped("this process has no [vdso] or no [vvar]");
        return;
    };
    let text = model(&own).smaps(|_| Usage::default()).to_string();
    assert_eq!(entries(&text), entries(&nothing.smaps));
    if vdso.2 - vdso.1 < 2 * PAGE || vvar.2 - vvar.1 < 2 * PAGE {
        skipped("a [vdso] or [vvar] of one page");
        return;
    }
    let mut cases: Vec<(i64, [u64; 6])> = Vec::new();
    let fixed = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as u64;
    for (_, start, end) in [vdso, vvar] {
        let (at, len) = (*start, *end - *start);
        // Whole, its first page, its last page; with a part of the next one, where that is one of
        // these.
        let parts = [(at, len), (at, PAGE), (at + len - PAGE, PAGE), (at + PAGE, len)];
        let next = own.iter().any(|a| a.1 == *end);
        for (at, len) in parts.into_iter().take(if next { 4 } else { 3 }) {
            cases.push((libc::SYS_munmap, [at, len, 0, 0, 0, 0]));
            cases.push((libc::SYS_mmap, [at, len, 3, fixed, u64::MAX, 0]));
            cases.extend((0..8).map(|prot| (libc::SYS_mprotect, [at, len, prot, 0, 0, 0])));
            let advice = [0, 1, 2, 3, 4, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 24, 102, 103];
            cases.extend(advice.map(|advice| (libc::SYS_madvise, [at, len, advice, 0, 0, 0])));
            cases.extend([libc::SYS_mlock, libc::SYS_munlock].map(|nr| (nr, [at, len, 0, 0, 0, 0])));
            cases.push((libc::SYS_mlock2, [at, len, 1, 0, 0, 0]));
            cases.push((462, [at, len, 0, 0, 0, 0]));
            cases.extend([0, 4].map(|mode| (libc::SYS_mbind, [at, len, mode, 0, 0, 0])));
            cases.extend([1, 2, 4, 6].map(|flags| (libc::SYS_msync, [at, len, flags, 0, 0, 0])));
            cases.push((libc::SYS_remap_file_pages, [at, len, 0, 0, 0, 0]));
            // Moves: whole, growing, shrinking, keeping the old place; in place.
            for (new_len, flags) in
                [(len, 3), (len + PAGE, 3), (PAGE, 3), (len, 7), (len + PAGE, 0), (PAGE, 0), (len, 0)]
            {
                cases.push((libc::SYS_mremap, [at, len, new_len, flags, BASE, 0]));
            }
            cases.push((libc::SYS_mremap, [at, 0, PAGE, 3, BASE, 0]));
        }
    }
    let mut answers = std::collections::BTreeMap::<i64, u32>::new();
    for (nr, a) in cases {
        let out = child::run(&[Raw::Call(nr, a), Raw::Fork], child::USUAL).expect("a child that lives");
        let mut space = model(&own);
        space.set_layout(layout());
        let done = match nr {
            libc::SYS_munmap => space.unmap(a[0], a[1]),
            libc::SYS_mmap => space.map(&MapRequest::anonymous(a[0], a[1], Prot::RW)),
            libc::SYS_mprotect => space.protect(a[0], a[1], Prot::from_bits_retain(a[2] as u32), None),
            libc::SYS_madvise => space.advise(a[0], a[1], Advice::from_raw(a[2] as u32).expect("known advice")),
            libc::SYS_mlock => space.lock(a[0], a[1], LockKind::Now),
            libc::SYS_mlock2 => space.lock(a[0], a[1], LockKind::OnFault),
            libc::SYS_munlock => space.unlock(a[0], a[1]),
            libc::SYS_mbind => {
                let policy = Policy { mode: 4, ..Policy::default() };
                space.set_policy(a[0], a[1], (a[2] == 4).then_some(policy))
            }
            libc::SYS_msync => {
                let done = space.msync(a[0], a[1], SyncFlags::from_bits_retain(a[2] as u32));
                done.map(|()| Plan::default()).map_err(Error::from)
            }
            libc::SYS_remap_file_pages => space.remap_file_pages(a[0], a[1], a[3]),
            libc::SYS_mremap => {
                let mode = if a[3] & 2 != 0 { RemapMode::Fixed(a[4]) } else { RemapMode::InPlace };
                let dontunmap = a[3] & 4 != 0;
                space.remap(&RemapRequest { old: a[0], old_len: a[1], new_len: a[2], mode, dontunmap })
            }
            _ => space.seal(a[0], a[1]),
        };
        let (errno, ret) = (done.map_or_else(|e| -i64::from(e.errno.raw()), |_| 0), out.frames[0].0.min(0));
        assert_eq!(errno, ret, "{nr} {a:x?}: model, kernel");
        let child = space.fork().expect("memory");
        let text = child.smaps(|_| Usage::default()).to_string();
        assert_eq!(entries(&text), entries(&out.smaps), "{nr} {a:x?}");
        *answers.entry(ret).or_default() += 1;
    }
    for errno in [0, -13, -14, -22] {
        assert!(answers.contains_key(&errno), "{answers:?}");
    }
}
