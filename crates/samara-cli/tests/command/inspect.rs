//! `samara inspect` on running processes and on saved files: its output, and its messages on
//! unreadable ones.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::samples::{assert_documented, run, said, samara, stderr, stdout};

/// The text of a smaps file: memory with guard pages, a thread's stack, a library, removed files, a
/// name that is hostile.
fn smaps() -> String {
    let mut text = String::new();
    let mut area = |start: u64, pages: u64, perms: &str, file: &str, flags: &str| {
        let (start, end) = (start << 12, (start + pages) << 12);
        let inode: u32 = file.bytes().map(u32::from).sum();
        let at = if file.starts_with('/') { format!("fe:00 {inode}") } else { "00:00 0".to_owned() };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{start:08x}-{end:08x} {perms} 00000000 {at}                       {file}");
        let _ = writeln!(text, "Size:           {:>8} kB\nVmFlags: {flags} ", pages * 4);
    };
    for i in 0..300 {
        area(0x10000 + 5 * i, 4, "rw-p", "", "rd wr mr mw me ac");
        area(0x10004 + 5 * i, 1, "---p", "", "mr mw me");
    }
    area(0x105dc, 3, "rw-p", "", "rd wr mr mw me ac");
    // No visible reason keeps these two apart.
    area(0x105df, 3, "rw-p", "", "rd wr mr mw me ac");
    area(0x20000, 1, "---p", "", "mr mw me");
    area(0x20001, 2048, "rw-p", "", "rd wr mr mw me ac");
    area(0x30000, 2, "r--p", "/usr/lib/x.so", "rd mr mw me");
    area(0x30002, 2, "r--p", "/usr/lib/y.so", "rd mr mw me ac");
    for i in 0..9 {
        area(0x40000 + 100 * i, 1, "r--s", &format!("/data/index/_{i}.cfs (deleted)"), "rd sh mr me ms");
    }
    area(0x50000, 1, "r--p", "/tmp/\x1b[31mred", "rd mr mw me");
    text
}

/// The text of a maps file.
fn maps() -> String {
    let lines: Vec<String> = smaps().lines().filter(|line| line.contains('-')).map(str::to_owned).collect();
    lines.join("\n") + "\n"
}

#[test]
fn a_saved_file() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("smaps"), smaps()).unwrap();
    std::fs::write(dir.path().join("maps"), maps()).unwrap();
    insta::assert_snapshot!("smaps", said(&run(dir.path(), &["inspect", "smaps"])));
    insta::assert_snapshot!("maps", said(&run(dir.path(), &["inspect", "maps"])));
}

#[test]
fn standard_input() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("smaps"), smaps()).unwrap();
    let input = std::fs::File::open(dir.path().join("smaps")).unwrap();
    let output = samara().args(["inspect", "-"]).stdin(input).output().unwrap();
    assert!(stdout(&output).starts_with("samara: standard input\n"), "{}", said(&output));
    assert!(stdout(&output).contains("300 guards"), "{}", said(&output));
}

#[test]
fn json_is_documented() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("smaps"), smaps()).unwrap();
    let output = run(dir.path(), &["inspect", "--json", "smaps"]);
    let json: serde_json::Value = serde_json::from_str(stdout(&output).trim()).unwrap();
    assert_eq!((&json["format"], &json["pid"], &json["areas"]), (&1.into(), &serde_json::Value::Null, &616.into()));
    let mut left = vec![&json];
    while let Some(value) = left.pop() {
        match value {
            serde_json::Value::Object(fields) => {
                assert_documented(&["reference/json.md"], fields.keys());
                left.extend(fields.values());
            }
            serde_json::Value::Array(values) => left.extend(values),
            _ => {}
        }
    }
    let guards = &json["patterns"][0];
    assert_eq!((&guards["kind"], &guards["times"]), (&"guard-pages".into(), &300.into()));
    assert_eq!(guards["would_go"], 600, "each is between areas that are alike");
    let inferred = json["boundaries"].as_array().unwrap().iter().find(|b| b["inferred"] == true).unwrap();
    assert_eq!((&inferred["reason"], &inferred["first"]), (&"anonymous-identity".into(), &0x105d_f000.into()));
}

/// A copy of the smaps of a process whose allocator has unmapped parts of its memory.
#[test]
fn memory_in_pieces() {
    let dir = tempfile::tempdir().unwrap();
    let line = |at: u64| format!("{at:08x}-{:08x} rw-p 00000000 00:00 0 \nVmFlags: rd wr mr mw me ac \n", at + 0x2000);
    let text: String = (0..100).map(|i| line(0x1000_0000 + i * 0x4000)).collect();
    std::fs::write(dir.path().join("smaps"), text).unwrap();
    let screen = stdout(&run(dir.path(), &["inspect", "smaps"]));
    let row = "fragmented 100 areas around 99 holes of 8 KiB, in all 792 KiB, as where parts are unmapped; \
               without the holes there would be at most 99 areas fewer; first 10002000-10004000";
    assert!(screen.contains(row), "{screen}");
    let json: serde_json::Value =
        serde_json::from_str(&stdout(&run(dir.path(), &["inspect", "smaps", "--json"]))).unwrap();
    assert_eq!((&json["fragmented"]["holes"], &json["fragmented"]["would_go"]), (&99.into(), &99.into()));
}

/// A program that maps more and more.
#[test]
fn the_time_to_the_limit_is_told() {
    let script = "import mmap,time,sys\nall=[]\nfor i in range(2000):\n  all.append(mmap.mmap(-1, 8192, prot=1+i%2*2))\n  time.sleep(.002)";
    let Ok(mut child) = Command::new("python3").args(["-c", script]).spawn() else {
        return crate::skip::skipped("no python3");
    };
    let pid = child.id().to_string();
    let mut watch = samara().args(["inspect", "--every", "100ms", &pid]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map(Result::unwrap);
    let told = lines.find(|line| line.contains("at this pace the limit of "));
    child.kill().unwrap();
    child.wait().unwrap();
    watch.wait().unwrap();
    let told = told.expect("it grows");
    assert!(told.contains(" more areas a second: ") && told.contains(" is reached in "), "{told}");
}

#[test]
fn a_process_that_runs() {
    let mut child = Command::new("sleep").arg("60").spawn().unwrap();
    let pid = child.id().to_string();
    // It may still be loading.
    let loaded = || std::fs::read_to_string(format!("/proc/{pid}/wchan")).is_ok_and(|at| at.contains("nanosleep"));
    (0..1000).find(|_| {
        loaded() || {
            std::thread::sleep(Duration::from_millis(10));
            false
        }
    });
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let count = maps.lines().filter(|line| !line.ends_with("[vsyscall]")).count();
    let output = run(Path::new("."), &["inspect", "--json", &pid]);
    let json: serde_json::Value = serde_json::from_str(stdout(&output).trim()).unwrap();
    assert_eq!((&json["areas"], &json["name"], &json["threads"]), (&count.into(), &"sleep".into(), &1.into()));
    let limit = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    assert_eq!(json["limit"].to_string(), limit.trim());
    let screen = run(Path::new("."), &["inspect", &pid]);
    assert!(stdout(&screen).starts_with(&format!("samara: sleep ({pid}), 1 thread\n")), "{}", said(&screen));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn what_changes_until_it_ends() {
    // A shell whose heap grows by megabytes, and then ends.
    let mut child = Command::new("sh")
        .args(["-c", "read line; x=$(head -c 3000000 /dev/zero | tr '\\0' x); read line; echo $x >/dev/null"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id().to_string();
    let mut watch = samara().args(["inspect", "--every", "50ms", &pid]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut stdin = child.stdin.take().unwrap();
    let first: Vec<String> = lines.by_ref().take_while(|line| !line.starts_with("  gaps")).collect();
    assert_eq!(first[0], format!("samara: sh ({pid}), 1 thread"));
    stdin.write_all(b"go on\n").unwrap();
    // It may take several looks.
    let grown = lines.find(|line| line.contains("rw-p") && line.contains(": +") && line.contains("MiB"));
    assert!(grown.is_some(), "the heap has not grown");
    drop(stdin);
    child.wait().unwrap();
    let rest: Vec<String> = lines.collect();
    assert_eq!(rest.last(), Some(&format!("process {pid} has ended")));
    assert!(watch.wait().unwrap().success());
}

#[test]
fn what_cannot_be_inspected() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("binary"), [0u8, 255, 10, 13, 7]).unwrap();
    std::fs::write(dir.path().join("empty"), "").unwrap();
    let mut all = String::new();
    for args in [
        &["inspect", "4294967295"][..],
        &["inspect", "no-such-file"],
        &["inspect", "binary"],
        &["inspect", "empty"],
        &["inspect", "."],
        &["inspect", "-1"],
        &["inspect", "empty", "--every", "5s"],
        &["inspect", "1", "--every", "5"],
        &["inspect"],
    ] {
        let output = run(dir.path(), args);
        let code = output.status.code().unwrap();
        let _ = writeln!(all, "$ samara {}\n{}exit code {code}\n", args.join(" "), stderr(&output));
    }
    insta::assert_snapshot!(all);
}
