//! The table agrees with the kernel's headers, with the model's table, and with the documents.

use std::fs;
use std::path::PathBuf;

use super::table::TABLE;
use super::*;
use crate::uapi;
use samara_mm::linux;

#[test]
fn what_the_engine_decides_is_in_the_model_s_table() {
    for row in TABLE.iter().filter(|row| row.decided.ever()) {
        let modelled = linux::CALLS.iter().find(|call| call.0 == u64::from(row.nr));
        assert_eq!(modelled.map(|call| Some(call.1)), Some(row.name), "{:?}", row.call);
    }
    // The model's other calls are seen but not decided, or change no area.
    let undecided = |nr: u64| !TABLE.iter().any(|row| row.decided.ever() && u64::from(row.nr) == nr);
    let others: Vec<&str> = linux::CALLS.iter().filter(|call| undecided(call.0)).map(|call| call.1).collect();
    assert_eq!(others, ["msync", "mincore", "personality", "prctl"]);
}

#[test]
fn what_fails_by_a_rate_can_be_made_to_fail() {
    let rated: Vec<&str> = TABLE.iter().filter(|row| row.fails_by_rate).filter_map(|row| row.name).collect();
    assert_eq!(rated, ["mmap", "mremap", "brk"]);
    assert!(TABLE.iter().all(|row| row.decided.ever() || !row.fails_by_rate));
}

#[test]
fn texts_of_events_name_calls() {
    let shown = |call: Call| call.to_string();
    assert_eq!(shown(Call::Mremap), "mremap");
    assert_eq!([Call::PrSetVma, Call::PrSetMm, Call::PrSetMdwe, Call::PrSetMemoryMerge].map(shown), ["prctl"; 4]);
    assert_eq!([Call::Seccomp, Call::PrSetSeccomp].map(shown), ["seccomp"; 2]);
    assert_eq!(shown(Call::PkeyMprotect), "pkey_mprotect");
}

#[test]
fn the_book_lists_the_calls_that_can_fail() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../book/src/how-to/faults.md");
    let page = std::fs::read_to_string(page).unwrap();
    let words: Vec<&str> = page.split_whitespace().collect();
    let listed: Vec<String> = failing().map(|(_, name)| format!("`{name}`")).collect();
    assert!(words.join(" ").contains(&listed.join(", ")), "{}", listed.join(", "));
}

/// The files that the book's walk names know its call, and no other source does.
#[test]
fn the_book_names_the_files_that_know_a_call() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let page = fs::read_to_string(root.to_owned() + "book/src/internals/adding-a-call.md").unwrap();
    let knows = |file: &str| fs::read_to_string(file).is_ok_and(|text| text.to_lowercase().contains("home_node"));
    let mut listed: Vec<String> =
        page.split('`').filter(|word| word.starts_with("crates/")).map(|file| root.to_owned() + file).collect();
    assert!(listed.len() > 3 && listed.iter().all(|file| knows(file)), "{listed:?}");
    // The attribute, and a text about it.
    listed
        .extend(["samara-mm/src/area/mod.rs", "samara-cli/src/summary.rs"].map(|file| format!("{root}crates/{file}")));
    let crates = fs::read_dir(root.to_owned() + "crates").unwrap();
    let mut paths: Vec<PathBuf> = crates.map(|one| one.unwrap().path().join("src")).collect();
    while let Some(path) = paths.pop() {
        paths.extend(fs::read_dir(&path).into_iter().flatten().map(|one| one.unwrap().path()));
        let file = path.to_str().unwrap();
        let is_source = file.ends_with(".rs") && !file.ends_with("tests.rs");
        assert!(!is_source || !knows(file) || listed.iter().any(|one| one == file), "{file} is not in the walk");
    }
}

#[test]
fn options_have_names() {
    assert_eq!(option_name("prctl", 0x5356_4d41), Some("PR_SET_VMA"));
    assert_eq!(option_name("prctl", 41), Some("PR_SET_THP_DISABLE"));
    assert_eq!(option_name("prctl", 22), None, "no event has it");
    assert_eq!(option_name("prctl", 0x1_0000_0023), None);
    assert_eq!(option_name("ioctl", 0x8010_aa01), Some("UFFDIO_UNREGISTER"));
    assert_eq!(option_name("arch_prctl", 0x5001), Some("ARCH_SHSTK_ENABLE"));
    assert_eq!(option_name("mmap", 35), None);
}

#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn numbers_are_the_abi_s() {
    use super::names::NAMED;
    let known = [
        (libc::SYS_ioctl, "ioctl"),
        (libc::SYS_arch_prctl, "arch_prctl"),
        (libc::SYS_clone, "clone"),
        (libc::SYS_clone3, "clone3"),
        (libc::SYS_fork, "fork"),
        (libc::SYS_vfork, "vfork"),
        (libc::SYS_execve, "execve"),
        (libc::SYS_execveat, "execveat"),
        (libc::SYS_exit, "exit"),
        (libc::SYS_exit_group, "exit_group"),
        (libc::SYS_io_setup, "io_setup"),
        (libc::SYS_io_destroy, "io_destroy"),
        (libc::SYS_io_uring_setup, "io_uring_setup"),
        (libc::SYS_io_uring_register, "io_uring_register"),
        (libc::SYS_shmget, "shmget"),
        (libc::SYS_shmctl, "shmctl"),
        (libc::SYS_setrlimit, "setrlimit"),
        (libc::SYS_prlimit64, "prlimit64"),
        (libc::SYS_set_mempolicy, "set_mempolicy"),
        (libc::SYS_migrate_pages, "migrate_pages"),
        (libc::SYS_move_pages, "move_pages"),
        (libc::SYS_perf_event_open, "perf_event_open"),
        (libc::SYS_userfaultfd, "userfaultfd"),
        (libc::SYS_pkey_alloc, "pkey_alloc"),
        (libc::SYS_pkey_free, "pkey_free"),
        (libc::SYS_process_mrelease, "process_mrelease"),
        (libc::SYS_set_mempolicy_home_node, "set_mempolicy_home_node"),
    ];
    for (nr, known) in known {
        assert_eq!(name(nr as u32), Some(known), "{nr}");
    }
    // map_shadow_stack has no constant in libc yet.
    let mut all: Vec<u32> = TABLE.iter().filter(|row| row.name.is_some()).map(|row| row.nr).collect();
    all.extend(NAMED.iter().map(|named| named.0));
    // Those of the model's calls are checked there.
    let is_modelled = |nr: u64| linux::CALLS.iter().any(|call| call.0 == nr);
    all.retain(|nr| !is_modelled((*nr).into()));
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), known.iter().filter(|call| !is_modelled(call.0 as u64)).count() + 1);
    let unseen = [
        (libc::SYS_ptrace, Call::Ptrace),
        (libc::SYS_seccomp, Call::Seccomp),
        (libc::SYS_sched_setaffinity, Call::SchedSetaffinity),
        (libc::SYS_sched_getaffinity, Call::SchedGetaffinity),
    ];
    for (nr, call) in unseen {
        assert_eq!((call.row().nr, name(nr as u32)), (nr as u32, None), "{call:?}");
    }
}

/// `brk` returns no error number: the break stays where it was.
#[test]
fn a_break_that_does_not_move() {
    assert_eq!(failed_with(12, 0x9000, 0x5000), Some(uapi::ENOMEM));
    // It was asked for, or moved, up or down.
    assert_eq!([(0, 0x5000), (0x9000, 0x9000), (0x4000, 0x4000)].map(|(a, r)| failed_with(12, a, r)), [None; 3]);
    assert_eq!([failed_with(9, 0, -12), failed_with(9, 0, 0x5000)], [Some(12), None]);
}
