//! What keeps two neighbours apart that look alike in `/proc/PID/maps`: the RELRO step of a dynamic
//! linker costs a library one area more.
#![forbid(unsafe_code)]

use samara_mm::{AddressSpace, Config, Error, FileId, MapFlags, MapRequest, Prot, Reason};

const LIBRARY: u64 = 0x7f00_0000_0000;

fn main() -> Result<(), Error> {
    let mut space = AddressSpace::<FileId>::new(Config::default());
    let file = FileId { dev: (8, 1), inode: 77, open: 1, name: "/lib/libexample.so".into() };
    let map =
        |offset, len, prot| MapRequest::file(LIBRARY + offset, len, prot, MapFlags::PRIVATE, file.clone(), offset);

    // Constants, then data that is writable while the linker relocates it.
    space.map(&map(0, 0x4000, Prot::READ))?;
    space.map(&map(0x4000, 0x3000, Prot::RW))?;
    assert_eq!(space.len(), 2);

    // RELRO: the first page of the data becomes read-only.
    let plan = space.protect(LIBRARY + 0x4000, 0x1000, Prot::READ, None)?;
    println!("mprotect: {plan}");
    assert_eq!(space.len(), 3);

    // It reads like the constants before it, and its offset continues theirs. But it was once
    // writable, so the process is charged for it.
    let boundary = LIBRARY + 0x4000;
    let reasons = space.why_not_merged(boundary).expect("two areas touch there");
    assert!(reasons.contains(Reason::Accounting) && !reasons.contains(Reason::Protection));
    print!("{space}");
    println!("apart at {boundary:x}: {reasons}");

    // A page that was never writable would have been one with them.
    space.map(&map(0x4000, 0x1000, Prot::READ))?;
    assert_eq!(space.len(), 2);
    assert_eq!(space.why_not_merged(boundary), None);
    Ok(())
}

#[test]
fn runs() {
    main().unwrap();
}
