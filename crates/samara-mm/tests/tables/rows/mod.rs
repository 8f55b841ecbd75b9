//! The rows, one file for each call or subject.

use crate::script::{Row, Step};
use samara_mm::linux;

/// Declares the files, a test for each, and the list of them.
macro_rules! tables {
    ($($name:ident)*) => {$(
        mod $name;
        #[test]
        fn $name() {
            crate::both($name::ROWS);
        }
    )*
        const ALL: &[&[(&str, &str)]] = &[$($name::ROWS),*];
    };
}

tables! {
    brk combinations dev_zero fork hugetlb limits madvise map_count_limit memfd_secret merge mlock mmap mprotect mremap mseal munmap
    order other personality placement procmap_query shm special_mappings split stack_growth wide_arguments
}

/// So the number of each call is the kernel's.
#[test]
fn each_call_has_rows() {
    let rows: Vec<Row> = ALL.iter().flat_map(|rows| rows.iter()).map(|row| Row::parse(row.0, row.1)).collect();
    let steps = || rows.iter().flat_map(|row| &row.steps);
    let is_made = |nr: u64| steps().any(|step| matches!(step, Step::Call(made, _) if *made == nr));
    let without: Vec<&str> = linux::CALLS.iter().filter(|call| !is_made(call.0)).map(|call| call.1).collect();
    // It reads ranges, which rows cannot write: see `kernel/rare_calls`.
    assert_eq!(without, ["process_madvise"]);
}
