//! The worked cases of `docs/cases`: the first screen of a recording names the cause of each.

use std::path::Path;
use std::process::Command;

use crate::samples::{run, said, stderr};
use crate::skip::skipped;

/// Each program of the folder, how often it does what it does here, what is said of it, and of the
/// call behind it.
const CASES: [(&str, &str, &str, &str); 11] = [
    (
        "deleted_files",
        "250",
        "never unmapped: 250 areas of files that were deleted and are still mapped, 1.95 MiB",
        "by mmap in main at NAME.c:",
    ),
    (
        "double_mapping",
        "150",
        "kept apart: 300 areas of a file mapped twice, writable and executable (a JIT); mapped in one piece there would \
         be 298 fewer",
        "by mmap in main at NAME.c:",
    ),
    (
        "freed_page_by_page",
        "400",
        "fragmented: 201 areas around 200 holes of 4 KiB (in all 800 KiB), where parts were unmapped; without the holes \
         there would be 200 fewer",
        "by munmap in main at NAME.c:",
    ),
    (
        "guard_pages",
        "150",
        "kept apart: 301 areas with 150 guards of 4 KiB between them; without the guards there would be 300 fewer",
        "by mprotect in main at NAME.c:",
    ),
    ("huge_pages", "150", "areas that asked for huge pages have room for none", "by madvise in buffer at NAME.c:"),
    (
        "leaked_mappings",
        "250",
        "never unmapped: 250 areas, 1000 KiB: 250 of 250 mappings are still there, and they came up to the end",
        "by mmap in main at NAME.c:",
    ),
    ("many_files", "200", " in /tmp/index-", "by mmap in main at NAME.c:"),
    ("random_unmapping", "2000", "fragmented: ", "by munmap in give at NAME.c:"),
    (
        "relro",
        "100",
        "kept apart: 100 parts of libraries, read-only after relocation (RELRO)",
        "by mprotect in main at NAME.c:",
    ),
    (
        "reservations",
        "150",
        "reserved: 300 areas of 150 ranges without access, 9.38 GiB: addresses that nobody else gets",
        "by mmap in main at NAME.c:",
    ),
    ("thread_stacks", "120", "thread stacks of 8 MiB, with their guards", "by mprotect in main at NAME.c:"),
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
    for (name, times, cause, call) in CASES {
        assert!(document.contains(&format!("[{name}.c]({name}.c)")), "docs/cases/README.md has no {name}.c");
        let program = dir.path().join(name);
        let source = folder.join(name).with_extension("c");
        let made = Command::new("cc").args(["-O1", "-g", "-pthread", "-o"]).arg(&program).arg(&source).status();
        if !made.is_ok_and(|made| made.success()) {
            return skipped(format_args!("the_first_screen_names_the_cause: no C compiler (cc)"));
        }
        let call = call.replace("NAME", name);
        let recorded = || {
            let output = run(dir.path(), &["trace", "--stacks", "-o", "t.samara", &format!("./{name}"), times]);
            assert!(output.status.success(), "{}", said(&output));
            stderr(&output)
        };
        // A leak goes on in each quarter of the time, and the machine may stand still for one.
        let mut screens = std::iter::repeat_with(recorded).take(5);
        let is_right = |screen: &String| !cause.starts_with("never unmapped") || screen.contains(cause);
        let screen = screens.by_ref().find(is_right).unwrap_or_default();
        assert!(screen.contains(cause) && screen.contains(&call), "{name}: {screen}");
        assert!(!screen.contains("not merged"), "the few areas of libraries are not the cause: {screen}");
    }
}
