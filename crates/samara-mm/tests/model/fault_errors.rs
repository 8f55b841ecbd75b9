//! What a refused fault says.

use samara_mm::{Access, AddressSpace, Config, FaultError, FileId, MapRequest, Prot, Refused};
use std::error::Error;

fn fault(access: Access, addr: u64) -> Result<(), Box<dyn Error>> {
    let mut space = AddressSpace::<FileId>::new(Config { protection_keys: true, ..Config::default() });
    space.map(&MapRequest::anonymous(0x10000, 0x1000, Prot::READ))?;
    space.map(&MapRequest::anonymous(0x20000, 0x1000, Prot::RW))?;
    space.protect(0x20000, 0x1000, Prot::EXEC, None)?;
    space.fault(addr, access)?;
    Ok(())
}

#[test]
fn a_refused_fault_is_an_error_that_says_what_to_do() {
    for (access, addr, refused, words) in [
        (Access::Read, 0x30000, Refused::NotMapped, ["nothing is mapped", "map memory there", "SEGV_MAPERR"]),
        (Access::Write, 0x10000, Refused::NotAllowed, ["does not allow", "change its protection", "SEGV_ACCERR"]),
        (Access::Read, 0x20000, Refused::KeyDenied, ["key denies", "another key", "SEGV_PKUERR"]),
    ] {
        let error = fault(access, addr).unwrap_err();
        assert_eq!(error.downcast_ref::<Refused>(), Some(&refused));
        let text = error.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
        assert_eq!(FaultError::from(refused).to_string(), text);
    }
    fault(Access::Execute, 0x20000).unwrap();
}
