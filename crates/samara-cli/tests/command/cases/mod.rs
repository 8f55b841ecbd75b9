//! The worked cases of the book (`book/src/cases`): every screen names the cause of each first.

mod screens;
mod table;

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::samples::{run, said, samara, stderr, stdout};
use crate::skip::skipped;
use crate::terminal::Terminal;
use table::{CASES, Case};

/// The cases whose cause may stand below the first row. Each has its name, the argument of its
/// program, a part of the row, and the call behind it.
const OTHERS: [(&str, &str, &str, &str); 2] = [
    (
        "huge_pages",
        "150",
        "areas that asked for huge pages have room for none",
        "by madvise in buffer at huge_pages.c:",
    ),
    (
        "relro",
        "100",
        "kept apart: 100 parts of libraries, read-only after relocation (RELRO)",
        "by mprotect in main at relro.c:",
    ),
];
/// What the kernel or its settings do not let a program do ends it with this.
const NOT_HERE: i32 = 77;
/// How long it may take to explain areas, or to name functions, on a busy machine.
const NAMED: Duration = Duration::from_secs(30);
/// Loaded into a program: it says so and waits for a byte before it begins, and again at its end.
const WAITS: &str = "
#include <stdlib.h>
#include <unistd.h>
static void wait(void) {
    char c = '.';
    if (write(1, &c, 1) != 1 || read(0, &c, 1) < 0) _exit(1);
}
__attribute__((constructor)) static void before(void) {
    unsetenv(\"LD_PRELOAD\");
    wait();
}
__attribute__((destructor)) static void after(void) { wait(); }
";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../book/src/cases").canonicalize().unwrap()
}

fn compiled(source: &Path, options: &[&str], to: &Path) -> bool {
    let made = Command::new("cc").args(options).args(["-O1", "-g", "-pthread", "-o"]).arg(to).arg(source).status();
    made.is_ok_and(|made| made.success())
}

/// A program that waits before it begins, and at its end.
struct Waiting(Child);

impl Waiting {
    fn start(dir: &Path, case: &Case) -> Waiting {
        let mut command = Command::new(dir.join(case.name));
        let command = command.arg(case.times).current_dir(dir).env("LD_PRELOAD", dir.join("../waits.so"));
        let mut waiting = Waiting(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        waiting.has_come();
        waiting
    }

    fn has_come(&mut self) {
        self.0.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    }

    fn go_on(&mut self) {
        self.0.stdin.as_mut().unwrap().write_all(b".").unwrap();
    }

    fn end(mut self) {
        self.go_on();
        assert!(self.0.wait().unwrap().success());
    }
}

/// What is wrong on the screens of a recording; nothing if all is well.
fn recorded(dir: &Path, case: &Case) -> Option<String> {
    let program = format!("./{}", case.name);
    let output = run(dir, &["trace", "--stacks", "-o", "t.samara", "--summary-json", "s.json", &program, case.times]);
    assert!(output.status.success(), "{}", said(&output));
    let json = |text: &[u8]| serde_json::from_slice::<Value>(text).unwrap();
    let summary = json(&std::fs::read(dir.join("s.json")).unwrap());
    let of = |args: &[&str]| run(dir, args);
    let (screen, why) = (stderr(&output), stdout(&of(&["why", "t.samara"])));
    let (why_json, page) = (of(&["why", "--json", "t.samara"]).stdout, of(&["report", "--json", "t.samara"]).stdout);
    let right = [
        ("trace", case.is_in_summary(&screen)),
        // The few areas of libraries are not the cause.
        ("trace: not merged", !screen.contains("not merged")),
        ("--summary-json", case.is_in_json(&summary["largest_space"]["why"])),
        ("why", case.is_in_why(&why)),
        ("why --json", case.is_in_json(&json(&why_json))),
        ("report --json", case.is_on_page(&json(&page))),
    ];
    let wrong: Vec<&str> = right.iter().filter(|(_, is_right)| !is_right).map(|(name, _)| *name).collect();
    (!wrong.is_empty()).then(|| format!("{wrong:?}: {screen}\n{why}\n{}", String::from_utf8_lossy(&why_json)))
}

/// The same of a recording of a process that ran already.
fn attached(dir: &Path, case: &Case) -> Option<String> {
    let mut program = Waiting::start(dir, case);
    let pid = program.0.id().to_string();
    let mut command = samara();
    let command = command.current_dir(dir).args(["trace", "--exact", "--stacks", "-o", "a.samara", "--pid", &pid]);
    // The recorder stops the process after it began to trace it. The program waits for that stop:
    // its second sleep from here on, since the first one may be in `read`.
    let sleeps = || -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:")).unwrap();
        line.trim().parse().unwrap()
    };
    let before = sleeps();
    let recorder = command.stderr(Stdio::piped()).spawn().unwrap();
    while sleeps() < before + 2 {
        std::thread::sleep(Duration::from_millis(1));
    }
    program.go_on();
    program.end();
    let output = recorder.wait_with_output().unwrap();
    (!case.is_in_summary(&stderr(&output))).then(|| format!("trace --pid: {}", said(&output)))
}

/// The same of a look at a process that waits at its end.
fn looked_at(dir: &Path, case: &Case) -> Option<String> {
    if case.looks.is_empty() {
        return None;
    }
    let mut program = Waiting::start(dir, case);
    program.go_on();
    program.has_come();
    let output = run(dir, &["inspect", "--json", &program.0.id().to_string()]);
    program.end();
    let look: Value = serde_json::from_slice(&output.stdout).unwrap();
    (!case.looks_so(&look)).then(|| format!("inspect --json: {look:#}"))
}

/// The same of the live view, when the program has ended: its peak.
fn watched(dir: &Path, case: &Case) -> Option<String> {
    let program = format!("./{}", case.name);
    let args = ["top", "--stacks", "--output-of-program", "out.txt", "--", &program, case.times];
    let mut terminal = Terminal::run(dir, (60, 250), &args, &[]);
    terminal.shows(&["samara top: ended with 0 after"]);
    // What its memory shows is looked at a moment later, and its functions get their names then.
    let within = |is_there: &dyn Fn(&str) -> bool| {
        let began = Instant::now();
        while !is_there(&terminal.screen()) && began.elapsed() < NAMED {
            std::thread::sleep(Duration::from_millis(20));
        }
        terminal.screen()
    };
    within(&|screen| case.is_head_of_top(screen));
    terminal.types("3\r");
    let screen = within(&|screen| case.is_in_top(screen));
    terminal.types("q");
    assert_eq!(terminal.ends().code(), Some(0));
    (!case.is_in_top(&screen)).then(|| format!("top: {screen}"))
}

/// What makes some screens of a case.
type Screens = fn(&Path, &Case) -> Option<String>;
const SCREENS: [Screens; 4] = [recorded, attached, looked_at, watched];

/// Builds a case and looks at some of its screens.
fn check(dir: &Path, case: &Case, screens: &[Screens]) {
    let dir = &dir.join(case.name);
    std::fs::create_dir(dir).unwrap();
    let program = dir.join(case.name);
    assert!(compiled(&folder().join(case.name).with_extension("c"), &[], &program), "{}", case.name);
    let once = Command::new(&program).arg(case.times).current_dir(dir).output().unwrap();
    if once.status.code() == Some(NOT_HERE) {
        return skipped(format_args!("{}: {}", case.name, stderr(&once)));
    }
    for screen in screens {
        // A leak goes on in each quarter of the time, and the machine may stand still for one.
        let tries = if case.kind.0 == "leaked" { 5 } else { 1 };
        let mut wrong = screen(dir, case);
        for _ in 1..tries {
            wrong = wrong.and_then(|_| screen(dir, case));
        }
        assert!(wrong.is_none(), "{}: {}", case.name, wrong.unwrap_or_default());
    }
}

/// Checks all cases, some at once, with the screens that `of` chooses for a case by its number.
fn check_all(test: &str, of: impl Fn(usize) -> Vec<Screens> + Sync) {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("waits.c");
    std::fs::write(&source, WAITS).unwrap();
    if !compiled(&source, &["-shared", "-fPIC"], &dir.path().join("waits.so")) {
        return skipped(format_args!("{test}: no C compiler (cc)"));
    }
    let (next, threads) = (AtomicUsize::new(0), std::thread::available_parallelism().map_or(1, usize::from).min(4));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((number, case)) = CASES.iter().enumerate().nth(next.fetch_add(1, Ordering::Relaxed)) {
                    check(dir.path(), case, &of(number));
                }
            });
        }
    });
}

#[test]
fn every_program_is_in_the_tables() {
    let mut sources: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .filter_map(|file| Some(file.unwrap().file_name().to_str()?.strip_suffix(".c")?.to_owned()))
        .collect();
    sources.sort();
    let mut told: Vec<&str> = CASES.iter().map(|case| case.name).chain(OTHERS.map(|case| case.0)).collect();
    told.sort_unstable();
    assert_eq!(sources, told);
    let document = std::fs::read_to_string(folder().with_extension("md")).unwrap();
    for name in told {
        assert!(document.contains(&format!("[{name}.c](cases/{name}.c)")), "book/src/cases.md has no {name}.c");
    }
}

#[test]
fn the_cause_stands_first_on_a_screen_of_each() {
    check_all("the_cause_stands_first_on_a_screen_of_each", |number| vec![SCREENS[number % SCREENS.len()]]);
}

#[test]
#[ignore = "takes a minute and more: `ci/long.sh tests` runs it"]
fn the_cause_stands_first_on_every_screen() {
    check_all("the_cause_stands_first_on_every_screen", |_| SCREENS.to_vec());
}

#[test]
fn the_first_screen_names_the_cause() {
    let dir = tempfile::tempdir().unwrap();
    for (name, times, cause, call) in OTHERS {
        if !compiled(&folder().join(name).with_extension("c"), &[], &dir.path().join(name)) {
            return skipped(format_args!("the_first_screen_names_the_cause: no C compiler (cc)"));
        }
        let output = run(dir.path(), &["trace", "--stacks", "-o", "t.samara", &format!("./{name}"), times]);
        let screen = stderr(&output);
        assert!(output.status.success() && screen.contains(cause) && screen.contains(call), "{name}: {screen}");
        assert!(!screen.contains("not merged"), "the few areas of libraries are not the cause: {screen}");
    }
}
