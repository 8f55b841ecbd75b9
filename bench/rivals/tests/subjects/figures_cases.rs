//! `figures` as a user types it: a line for each design that does the workload, the kernel too.

use crate::programs::{objects, rivals};

fn designs(lines: &[serde_json::Value], figure: &str, case: &str, threads: u64) -> Vec<String> {
    let here =
        lines.iter().filter(|line| line["figure"] == figure && line["case"] == case && line["threads"] == threads);
    here.map(|line| {
        assert_eq!((&line["suite"], &line["unit"], &line["rounds"]), (&"figures".into(), &"ns".into(), &1.into()));
        assert!(
            line["min"].as_f64() > Some(0.0) && line["min"] == line["max"] && line["value"] == line["min"],
            "{line}"
        );
        line["design"].as_str().expect("a name").to_owned()
    })
    .collect()
}

#[test]
fn each_design_has_its_lines() {
    let lines = objects("figures --quick --rounds 1 --n 1024,21,16,10,50,6000 --json");
    let models = ["rbtree", "list", "splay", "list_rbtree", "maple", "btreemap", "rangemap", "samara"];
    let all = models.iter().copied().chain(["kernel"]).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(designs(&lines, "F1", "munmap_mmap", 1), all);
    for threads in [1, 2] {
        assert_eq!(designs(&lines, "F2", "brk", threads), all);
    }
    assert_eq!(designs(&lines, "F3", "fork_insert", 1), models);
    assert_eq!(designs(&lines, "F3", "fork_dup", 1), all);
    assert_eq!(designs(&lines, "F3", "fork_snapshot", 1), ["samara"]);
    for case in ["map", "touch", "map_files", "map_merging", "map_alternating", "stacks", "fork_dup"] {
        assert_eq!(designs(&lines, "F5", case, 1), all, "{case}");
    }
    assert_eq!(designs(&lines, "F5", "walk", 1), models);
    assert_eq!(designs(&lines, "F10", "fork_brk", 1), all);
    assert_eq!(designs(&lines, "F10", "fork_insert_brk", 1), models);

    let files: Vec<String> = ["exit", "fork", "exec", "split"]
        .iter()
        .flat_map(|case| ["each", "eights", "whole"].map(|batch| format!("{case}_{batch}")))
        .filter(|row| !["exec_eights", "split_eights"].contains(&row.as_str()))
        .collect();
    for (row, figure) in files.iter().zip(["F4", "F4", "F4", "F6", "F6", "F6", "F8", "F8", "F8", "F8"]) {
        assert_eq!([1, 2].map(|workers| designs(&lines, figure, row, workers)), [models, models], "{row}");
    }
    let batches: Vec<_> = lines.iter().filter(|line| line["case"] == "exit_eights_batches").collect();
    assert!(batches.iter().all(|line| line["unit"] == "times") && batches.len() == 8, "{batches:?}");
    assert_eq!([1, 2].map(|workers| designs(&lines, "F7", "rmap", workers)), [["maple", "samara"]; 2]);

    let mut shared = all.clone();
    shared.insert(models.len() - 1, "range_locked_skiplist".into());
    for threads in [1, 2] {
        assert_eq!(designs(&lines, "F2", "brk_threads", threads), shared);
        assert_eq!(designs(&lines, "F11", "query", threads), shared[..shared.len() - 1]);
        assert_eq!(designs(&lines, "F11", "allocate", threads), shared);
        assert_eq!(designs(&lines, "F11", "allocate_fault_modify", threads), shared);
    }
    for row in ["maps_readers", "maps_readers_longest", "maps_readers_alone", "maps_readers_alone_longest"] {
        assert_eq!(designs(&lines, "F9", row, 3), shared, "{row}");
    }
}

#[test]
fn what_cannot_be_run_is_said() {
    let says = |args: &str, why: &str| {
        let said = rivals(args).unwrap_err();
        assert!(said.contains(why), "{args}: {said}");
    };
    says("figures F1 --n 7", "has the size 7");
    says("figures traces", "nothing is left to measure");
    says("figures F1 --trace no-such-file", "--trace is for the figure traces");
    says("figures F4711", "F10");
    says("figures --from no-such-file --write no-such-file.md", "no-such-file");
    says("figures --from no-such-file", "--against or --write");
    says("figures F1 --from no-such-file", "cannot be used with");
    // Before anything is measured.
    says("figures --against no-such-file", "no-such-file");
    says("figures --write no-such-file.md", "no-such-file.md");
    assert!(rivals("figures F3 --rounds 0").unwrap_err().contains("--rounds"));
}
