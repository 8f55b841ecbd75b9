//! `samara check` predicts where maps are placed under each setting of huge pages for shared
//! memory.
//!
//! A separate test program: it changes settings of the whole machine, on which other tests depend.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[allow(dead_code)]
#[path = "../../samara-mm/tests/support/shmem_settings.rs"]
mod shmem;
#[allow(unreachable_pub)] // It is public in the test kit.
#[path = "../../samara-testkit/src/skip.rs"]
mod skip;

use serde_json::Value;
use std::process::Command;

#[test]
fn placement_under_each_setting() {
    for (seed, values) in shmem::VALUES.iter().enumerate() {
        let changed = match shmem::Changed::to(*values) {
            Ok(changed) => changed,
            Err(why) => return skip::skipped(format_args!("the settings cannot be written: {why}")),
        };
        let seed = seed.to_string();
        let args = ["check", "--mix", "free", "--ops", "3000", "--json", "--seed", &seed];
        let out = Command::new(env!("CARGO_BIN_EXE_samara")).args(args).output().expect("samara runs");
        drop(changed);
        let value: Value = serde_json::from_slice(&out.stdout).expect("an object");
        if value["compared"] == 0 {
            return skip::skipped(format_args!("`samara check` compares nothing here: {}", value["skipped"]));
        }
        assert!(out.status.success() && value["compared"] == 3000, "{values:?}: {value:#}");
        assert_eq!(value["skipped"], Value::Array(Vec::new()), "{values:?}");
    }
}
