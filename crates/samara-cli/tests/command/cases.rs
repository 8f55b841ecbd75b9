//! The worked cases of `docs/cases`: the first screen of a recording names the cause of each.

use std::path::Path;
use std::process::Command;

use crate::samples::{run, said, stderr};
use crate::skip::skipped;

/// Each program of the folder, how often it does what it does here, and what is said of it.
const CASES: [(&str, &str, &str); 7] = [
    ("deleted_files", "250", "look like 250 files, deleted and still mapped"),
    ("double_mapping", "150", "look like 1 file mapped twice, writable and executable (a JIT): 300 areas"),
    ("freed_page_by_page", "400", "gaps under 64 KiB"),
    ("guard_pages", "150", "look like 150 guards: 600 KiB"),
    ("leaked_mappings", "250", "250 r--p  /etc/passwd: 1000 KiB, 4 KiB each"),
    ("reservations", "150", "look like 150 reservations (more than 1 MiB without access): 9.37 GiB"),
    ("thread_stacks", "120", "thread stacks with a guard below"),
];

#[test]
fn the_first_screen_names_the_cause() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cases");
    let mut sources: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .filter_map(|file| Some(file.unwrap().file_name().to_str()?.strip_suffix(".c")?.to_owned()))
        .collect();
    sources.sort();
    assert!(sources.iter().eq(CASES.map(|case| case.0).iter()), "{sources:?}");
    let document = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    for (name, times, cause) in CASES {
        assert!(document.contains(&format!("[{name}.c]({name}.c)")), "docs/cases/README.md has no {name}.c");
        let program = dir.path().join(name);
        let source = folder.join(name).with_extension("c");
        let made = Command::new("cc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(&source).status();
        if !made.is_ok_and(|made| made.success()) {
            return skipped(format_args!("the_first_screen_names_the_cause: no C compiler (cc)"));
        }
        let output = run(dir.path(), &["trace", "-o", "t.samara", &format!("./{name}"), times]);
        assert!(output.status.success(), "{}", said(&output));
        let screen = stderr(&output);
        assert!(screen.contains(cause), "{name}: {screen}");
        assert!(!screen.contains("not merged"), "the few areas of libraries are not the cause: {screen}");
    }
}
