//! Tests: runs of areas are grouped by reason.

use super::*;

fn area(start: u64, end: u64, perms: u8, name: &str, apart: &str) -> AreaRecord {
    let inode = u64::from(name.starts_with('/'));
    AreaRecord { start, end, perms, offset: start, dev: (0, 0), inode, name: name.into(), apart: apart.into() }
}

#[test]
fn runs_are_found_by_reason() {
    let areas = vec![
        area(0x1000, 0x2000, 3, "", ""),
        area(0x2000, 0x3000, 3, "[anon:a]", "name"),
        area(0x3000, 0x4000, 3, "", "name"),
        area(0x4000, 0x5000, 3, "", "lock"),
        area(0x5000, 0x6000, 1, "", "protection"),
        area(0x7000, 0x8000, 1, "", ""),
        area(0x8000, 0x9000, 1, "[stack]", "flags"),
        area(0x9000, 0xa000, 1, "/lib", "backing"),
        area(0xa000, 0xb000, 1, "/lib", "open-file"),
        AreaRecord { offset: 0, ..area(0xb000, 0xc000, 1, "/lib", "offset") },
        area(0xd000, 0xe000, 3, "", ""),
        area(0xe000, 0xf000, 3, "[anon:b]", "name"),
    ];
    let found = groups(9, areas.into_iter());
    let found: Vec<_> = found.iter().map(|g| (&*g.apart, g.areas, g.runs, g.start, g.end, g.longest)).collect();
    assert_eq!(
        found,
        [("lock", 2, 1, 0x3000, 0x5000, 2), ("name", 5, 2, 0x1000, 0x4000, 3), ("open-file", 2, 1, 0x9000, 0xb000, 2)]
    );
}
