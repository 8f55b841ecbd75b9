//! Traces installed programs: no difference, the models equal to the kernel's maps at every exit,
//! and the program's own output and exit status. With SAMARA_REQUIRE_PROGRAMS=1 a missing program
//! fails its test.
#![forbid(unsafe_code)]

mod counters;
mod engine;
#[allow(unreachable_pub)] // It is public in the test kit.
#[path = "../../../samara-testkit/src/skip.rs"]
mod skip;

use std::path::Path;
use std::sync::Mutex;

use samara_record::{Engine, Options, Outcome, record};
use samara_trace::event::{Event, EventKind};
use skip::skipped;

/// One recording at a time: it sets the process's signal dispositions.
static RECORDING: Mutex<()> = Mutex::new(());

/// Whether all `programs` are in PATH. Reports those that are missing, and fails where they are
/// required.
fn installed(programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = |p: &&&str| std::env::split_paths(&path).any(|dir| dir.join(p).is_file());
    let missing: Vec<_> = programs.iter().filter(|p| !found(p)).collect();
    if missing.is_empty() {
        return true;
    }
    assert!(std::env::var_os("SAMARA_REQUIRE_PROGRAMS").is_none_or(|v| v != "1"), "not installed: {missing:?}");
    skipped(format_args!("not installed: {missing:?}"));
    false
}

/// Runs `script` by a shell in `dir`, recorded; its output goes to the file `out` there.
fn trace(dir: &Path, script: &str) -> (Outcome, Vec<Event>, String) {
    run(dir, script, None)
}

/// The same, with an engine in charge or none.
fn run(dir: &Path, script: &str, engine: Option<Engine>) -> (Outcome, Vec<Event>, String) {
    let lock = RECORDING.lock().unwrap_or_else(|e| e.into_inner());
    let whole = format!("cd '{}' && {{ {script}\n}} > out 2>&1 < /dev/null", dir.display());
    let mut events = Vec::new();
    let mut options = Options::new("bash").args(["-c", &whole]);
    options.engine = engine;
    let outcome = record(&options, &mut events).unwrap();
    drop(lock);
    let out = String::from_utf8_lossy(&std::fs::read(dir.join("out")).unwrap_or_default()).into_owned();
    let bad: Vec<&Event> = events
        .iter()
        .filter(|e| e.kind == EventKind::Difference || (e.kind == EventKind::Checked && e.result != 0))
        .take(3)
        .collect();
    assert!(bad.is_empty() && outcome.counters.differences == 0, "{bad:#?}\n{out}");
    let ends = events.iter().filter(|e| e.kind == EventKind::Exit).count() as u64;
    assert_eq!(ends, outcome.counters.processes, "every process has its end");
    assert!(events.iter().any(|e| e.kind == EventKind::Checked));
    (outcome, events, out)
}

fn dir() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn called(events: &[Event], nr: i64) -> usize {
    events.iter().filter(|e| e.kind == EventKind::Call && e.nr == Some(nr as u32)).count()
}

#[test]
fn python() {
    if installed(&["python3"]) {
        let dir = dir();
        let (outcome, events, out) = trace(dir.path(), "python3 -c 'import json, ssl, sqlite3; print(6 * 7)'; exit 3");
        assert_eq!((outcome.status.code(), out.trim()), (Some(3), "42"));
        assert!(called(&events, libc::SYS_mmap) > 50);
    }
}

#[test]
#[ignore = "takes seconds: `ci/long.sh tests` runs it"]
fn node() {
    if installed(&["node"]) {
        let dir = dir();
        let (outcome, events, out) = trace(
            dir.path(),
            "node -e 'let a = []; for (let i = 0; i < 3e5; i++) a.push({i}); setTimeout(() => console.log(a.length), 20)'",
        );
        assert_eq!((outcome.status.code(), out.trim()), (Some(0), "300000"), "{out}");
        assert!(called(&events, libc::SYS_munmap) > 10);
    }
}

#[test]
#[ignore = "takes seconds: `ci/long.sh tests` runs it"]
fn java() {
    if installed(&["java"]) {
        let dir = dir();
        let (outcome, events, out) = trace(dir.path(), "java -version");
        assert!(outcome.status.success() && out.contains("version"), "{out}");
        let threads: std::collections::BTreeSet<u32> = events.iter().map(|e| e.tid).collect();
        assert!(threads.len() > 5, "the threads of the virtual machine");
        // Collectors and many allocating threads at once, where a compiler is at hand.
        std::fs::write(dir.path().join("T.java"), JAVA).unwrap();
        let (outcome, _, out) = trace(dir.path(), "java -Xmx256m T.java || java -version");
        assert!(outcome.status.success(), "{out}");
    }
}

pub(crate) const JAVA: &str = "public class T { public static void main(String[] a) throws Exception {
    Thread[] t = new Thread[8];
    for (int i = 0; i < 8; i++) { t[i] = new Thread(() -> { long n = 0; for (int j = 0; j < 20000; j++) n += new byte[j % 5000].length; }); t[i].start(); }
    for (Thread x : t) x.join();
    System.gc(); System.out.println(\"done\"); } }";

#[test]
#[ignore = "takes seconds: `ci/long.sh tests` runs it"]
fn go() {
    if installed(&["go"]) {
        let dir = dir();
        std::fs::write(dir.path().join("go.mod"), "module hello\n\ngo 1.18\n").unwrap();
        std::fs::write(
            dir.path().join("main.go"),
            "package main\nfunc main() {\n\tc := make(chan int)\n\tfor i := 0; i < 50; i++ { go func() { b := make([]byte, 1<<20); c <- len(b) }() }\n\
             \tn := 0\n\tfor i := 0; i < 50; i++ { n += <-c }\n\tprintln(n)\n}\n",
        )
        .unwrap();
        let cache = "export HOME=$PWD GOCACHE=$PWD/cache GOFLAGS=-mod=mod GOPROXY=off GOTOOLCHAIN=local";
        let (outcome, _, out) = trace(dir.path(), &format!("{cache}; go build -o hello . && ./hello"));
        assert!(outcome.status.success() && out.trim().ends_with("52428800"), "{out}");
    }
}

#[test]
#[ignore = "takes seconds: `ci/long.sh tests` runs it"]
fn make_of_c() {
    if installed(&["make", "gcc"]) {
        let dir = dir();
        for i in 0..6 {
            let text = format!(
                "#include <stdio.h>\n#include <stdlib.h>\nint f{i}(int x) {{ printf(\"%d\", x); return x * {i}; }}\n"
            );
            std::fs::write(dir.path().join(format!("f{i}.c")), text).unwrap();
        }
        std::fs::write(dir.path().join("main.c"), "int f3(int); int main(void) { return f3(5); }\n").unwrap();
        let make =
            "OBJ = main.o f0.o f1.o f2.o f3.o f4.o f5.o\nprog: $(OBJ)\n\tgcc -o $@ $(OBJ)\n%.o: %.c\n\tgcc -O2 -c $<\n";
        std::fs::write(dir.path().join("Makefile"), make).unwrap();
        let (outcome, _, out) = trace(dir.path(), "make -j2 && ./prog");
        assert_eq!(outcome.status.code(), Some(15), "{out}");
        assert!(outcome.counters.processes > 20);
    }
}

/// Heaps that grow in forked children, and in theirs.
#[test]
#[ignore = "takes seconds: `ci/long.sh tests` runs it"]
fn perl() {
    if installed(&["perl"]) {
        let dir = dir();
        let script = "my @a; push @a, 'x' x 100 for 1..20000;
            for (1..4) { if (!fork) { push @a, [1..10] for 1..5000; if (!fork) { @a = (); push @a, 'y' x 50 for 1..20000; exit } wait; exit } }
            1 while wait > 0; print `echo hi`;";
        let (outcome, _, out) = trace(
            dir.path(),
            &format!("perl -e \"{script}\"", script = script.replace('$', "\\$").replace('`', "\\`")),
        );
        assert_eq!((outcome.status.code(), out.trim()), (Some(0), "hi"), "{out}");
        assert!(outcome.counters.processes >= 9);
    }
}

#[test]
fn pipelines() {
    let dir = dir();
    let script = "set -o pipefail\nfor i in 1 2 3; do seq 1000 | sort -rn | head -n $i | while read x; do echo $x; done; done | wc -l\n\
                  (trap 'kill $!; echo term; exit 4' TERM; sleep 30 & wait) & sleep 0.2; kill $!; wait $!; echo $?\n\
                  yes | head -1 > /dev/null; echo ${PIPESTATUS[0]}";
    let (outcome, _, out) = trace(dir.path(), script);
    assert!(outcome.status.success());
    assert_eq!(out.split_whitespace().collect::<Vec<_>>(), ["6", "term", "4", "141"], "{out}");
}

#[test]
#[ignore = "takes seconds: `ci/long.sh tests` runs it"]
fn interactive_shell_with_job_control() {
    if installed(&["script"]) {
        let dir = dir();
        // Each key is typed once its condition holds, however slow the machine is: a text on the
        // terminal, or a group in its foreground. A key such as ^C goes to that group. It does not
        // end a group that ignores SIGINT from the start, as commands that a script runs with `&`
        // do; so SIGINT is ignored here, and `env` (coreutils 8.31 and later) restores it.
        let until = "until_() { for i in $(seq 600); do \"$@\" 2>/dev/null && break; sleep 0.1; done; }";
        let seen = "has() { [ \"$(grep -c -e \"$2\" typed)\" -ge $1 ]; }; seen() { until_ has \"$@\"; }";
        // The fields of `stat` are name, state, group, terminal, and the terminal's foreground
        // group. Other shells on the machine have other terminals.
        let front = "job() { awk 'NR == 1 { own = $7 } $2 == \"(sleep)\" && $3 == \"S\" && $5 == $8 && $7 == own' \
                     /proc/$(cat shell)/stat /proc/[0-9]*/stat | grep -q .; }; \
                     shell() { awk '$5 == $8' /proc/$(cat shell)/stat | grep -q .; }; \
                     over() { ! [ -d /proc/$(cat shell) ]; }";
        let keys = "seen 1 'bash-[0-9]'; until_ shell; printf 'sleep 100\\n'; seen 1 'sleep 100'; until_ job; \
                    printf '\\032'; seen 1 Stopped; until_ shell; printf 'jobs\\n'; seen 2 Stopped; printf 'fg\\n'; \
                    seen 4 'sleep 100'; until_ job; printf '\\003'; until_ shell; printf 'echo was $?\\n'; \
                    seen 1 'was 1'; printf 'sleep 0.3 & wait; echo waited\\n'; seen 2 waited; printf 'exit 5\\n'; \
                    until_ over";
        let script = format!(
            "trap '' INT; {until}; {seen}; {front}; ( {keys} ) | TERM=dumb script -qefc \
             'echo $$ > shell; exec env --default-signal=INT bash --norc --noprofile -i' typed; echo left $?"
        );
        let (outcome, _, out) = trace(dir.path(), &script);
        assert!(outcome.status.success(), "{out}");
        let typed = String::from_utf8_lossy(&std::fs::read(dir.path().join("typed")).unwrap()).into_owned();
        for expected in ["Stopped", "was 130", "waited"] {
            assert!(typed.contains(expected), "{expected:?} in\n{typed}");
        }
        assert!(out.trim().ends_with("left 5"), "{out}");
    }
}
