//! The table agrees with the dispatch, and with the headers where rows cannot check it.

use super::*;
use crate::area::FileId;
use crate::space::Config;
use crate::space::place::Linux;

struct Nothing;
impl Host<FileId> for Nothing {}

fn known(nr: u64, args: [u64; 6]) -> bool {
    let mut space = AddressSpace::<FileId>::new(Config::default());
    call(&mut space, &mut Nothing, &mut Linux, nr, args).is_some()
}

#[test]
fn exactly_the_calls_of_the_table_are_made() {
    for nr in 0..1000 {
        // prctl is known by its options.
        let listed = CALLS.iter().any(|call| call.0 == nr) && nr != PRCTL;
        assert_eq!(known(nr, [0; 6]), listed, "{nr}");
    }
    for option in (0..100).chain([PR_SET_VMA]) {
        let listed = PRCTL_OPTIONS.iter().any(|row| row.0 == option);
        assert_eq!(known(PRCTL, [option.into(), 0, 0, 0, 0, 0]), listed, "{option}");
    }
}

#[test]
fn each_number_and_each_name_stands_once() {
    let count = |is: &dyn Fn(&(u64, &str)) -> bool| CALLS.iter().filter(|row| is(row)).count();
    for (nr, name) in CALLS {
        assert_eq!((count(&|row| row.0 == *nr), count(&|row| row.1 == *name)), (1, 1), "{name}");
    }
}

#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn numbers_are_the_abi_s() {
    // Those of the other calls are checked by their rows in `tests/tables`.
    assert_eq!(PROCESS_MADVISE, libc::SYS_process_madvise as u64);
    for (option, name) in
        [(libc::PR_SET_VMA, "PR_SET_VMA"), (libc::PR_SET_MDWE, "PR_SET_MDWE"), (libc::PR_GET_MDWE, "PR_GET_MDWE")]
    {
        assert!(PRCTL_OPTIONS.contains(&(option as u32, name)), "{name} is {option}");
    }
}
