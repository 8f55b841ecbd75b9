//! `samara check` under each setting of huge pages for shared memory: what it foretells of places
//! follows them. In a binary of its own, as the settings are the machine's: no other test runs
//! beside it.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[allow(dead_code)]
#[path = "../../samara-mm/tests/kernel/shmem.rs"]
mod shmem;

use serde_json::Value;
use std::process::Command;

#[test]
fn places_are_foretold_under_each_setting() {
    for (seed, values) in shmem::VALUES.iter().enumerate() {
        let changed = match shmem::Changed::to(*values) {
            Ok(changed) => changed,
            Err(why) => return println!("skipped: the settings cannot be written: {why}"),
        };
        let seed = seed.to_string();
        let args = ["check", "--mix", "free", "--ops", "3000", "--json", "--seed", &seed];
        let out = Command::new(env!("CARGO_BIN_EXE_samara")).args(args).output().expect("samara runs");
        drop(changed);
        let value: Value = serde_json::from_slice(&out.stdout).expect("an object");
        if value["compared"] == 0 {
            return println!("skipped: {}", value["skipped"]);
        }
        assert!(out.status.success() && value["compared"] == 3000, "{values:?}: {value:#}");
        assert_eq!(value["skipped"], Value::Array(Vec::new()), "{values:?}");
    }
}
