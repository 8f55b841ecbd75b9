//! `samara watch` on running processes: its output, metrics, files and kept areas.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::samples::{assert_documented, run, said, samara, stderr, stdout};

/// A limit that turns a hang into a message.
const LONG: Duration = Duration::from_secs(300);

/// Waits until something is there.
fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < LONG, "there is no {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A process that is ended when this is dropped.
struct Running(Child);

impl Running {
    fn new(command: &mut Command) -> Running {
        Running(command.spawn().unwrap())
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// Asks it to end, and returns its exit code.
    fn end(mut self) -> Option<i32> {
        let pid = nix::unistd::Pid::from_raw(self.0.id() as i32);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        self.0.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program with `number` guards, which then gets more of them if it `grows`. `None`: there is no
/// compiler; prints so.
fn guards(dir: &Path, number: u32, grows: bool) -> Option<Running> {
    let source = "#include <stdio.h>\n#include <stdlib.h>\n#include <sys/mman.h>\n#include <unistd.h>\n\
        int main(int c, char **v) { long n = atol(v[1]); char *p = mmap(0, n * 8192, 3, 0x22, -1, 0);\n\
        for (long i = 0; i < n; i++) mprotect(p + i * 8192, 4096, 0);\n\
        puts(\"ready\"); fflush(stdout);\n\
        for (char *q; c > 2; usleep(1000)) q = mmap(0, 8192, 3, 0x22, -1, 0), mprotect(q, 4096, 0);\n\
        pause(); }\n";
    let number = number.to_string();
    let args = [&number, "grow"];
    compiled(dir, "guards", source, &args[..1 + usize::from(grows)])
}

/// A program that was compiled, has said `ready`, and runs. `None` without a compiler; prints so.
fn compiled(dir: &Path, name: &str, source: &str, args: &[&str]) -> Option<Running> {
    let file = dir.join(name);
    if !file.exists() {
        std::fs::write(file.with_extension("c"), source).unwrap();
        let source = file.with_extension("c");
        let made = Command::new("cc").args(["-pthread", "-o", name]).arg(source).current_dir(dir).status();
        if !made.is_ok_and(|made| made.success()) {
            crate::skip::skipped("no C compiler (cc)");
            return None;
        }
    }
    let mut program = Command::new(file);
    program.args(args).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut running = Running::new(&mut program);
    let mut line = String::new();
    BufReader::new(running.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    Some(running)
}

/// The number of areas of a process.
fn areas(pid: &str) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    maps.lines().filter(|line| !line.ends_with("[vsyscall]")).count()
}

/// A watch, and its messages.
fn watch(args: &[&str]) -> (Running, BufReader<ChildStderr>) {
    let mut watch = Running::new(samara().arg("watch").args(args).stderr(Stdio::piped()).stdout(Stdio::null()));
    let told = BufReader::new(watch.0.stderr.take().unwrap());
    (watch, told)
}

/// The next message that has these words.
fn told(messages: &mut BufReader<ChildStderr>, words: &str) -> String {
    let mut all = String::new();
    loop {
        let mut line = String::new();
        let length = messages.read_line(&mut line).unwrap();
        assert!(length > 0, "it did not say {words}, but: {all}");
        if line.contains(words) {
            return line;
        }
        all += &line;
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text.trim()).unwrap()
}

#[test]
fn one_reading_of_a_program_with_many_areas() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = guards(dir.path(), 1000, false) else { return };
    let pid = program.pid();
    let output = run(dir.path(), &["watch", "--once", "--json", "--pid", &pid]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let reading = json(&stdout(&output));
    let top = &reading["top"][0];
    assert_eq!((&top["pid"], &top["name"]), (&pid.parse::<u32>().unwrap().into(), &"guards".into()));
    assert_eq!(top["areas"], areas(&pid));
    assert_eq!((&top["verdict"], &top["pattern"]), (&"kept-apart".into(), &"guard-pages".into()));
    assert!(top["explained"].as_u64().unwrap() >= 2000 && top["areas_per_second"].is_null(), "{top}");
    assert!(top["mapped_bytes"].as_u64() > Some(8_192_000) && top["resident_bytes"].as_u64() > Some(0), "{top}");
    assert!(top["largest_gap"].as_u64() > Some(1 << 30), "{top}");
    // Near the limit: one percent, for this few areas.
    let limit: usize = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap().trim().parse().unwrap();
    let part = (areas(&pid) * 100 / limit).clamp(1, 100);
    let is_near = areas(&pid) * 100 >= limit;
    let output = run(dir.path(), &["watch", "--once", "--pid", &pid, "--keep-at", &part.to_string()]);
    assert_eq!(output.status.code(), Some(if is_near { 123 } else { 0 }), "{}", said(&output));
    // The command runs at a single reading too, and areas are kept only if --state is given.
    let args = [
        "watch",
        "--once",
        "--pid",
        &pid,
        "--keep-at",
        &part.to_string(),
        "--exec",
        "echo $SAMARA_REASON,$SAMARA_FILE, >&2",
    ];
    let told = samara().args(args).current_dir(dir.path()).env("XDG_STATE_HOME", dir.path()).output().unwrap();
    assert_eq!(stderr(&told).contains(&format!("at{part},,")), is_near, "{}", said(&told));
    assert!(!dir.path().join("samara").exists());
    let line = format!("samara_process_areas{{pid=\"{pid}\",name=\"guards\"}} {}\n", areas(&pid));
    assert!(stdout(&output).contains(&line), "{}", said(&output));
}

#[test]
fn json_is_documented() {
    let output = run(Path::new("."), &["watch", "--once", "--json", "--keep-at", "100"]);
    let reading = json(&stdout(&output));
    assert!(reading["top"].as_array().unwrap().len() <= 20);
    let (mut left, mut seen) = (vec![&reading], 0);
    while let Some(value) = left.pop() {
        match value {
            Value::Object(fields) => {
                assert_documented(&["reference/json.md"], fields.keys());
                seen += fields.len();
                left.extend(fields.values());
            }
            Value::Array(values) => left.extend(values),
            _ => {}
        }
    }
    assert!(seen > 30, "{reading}");
}

/// A plain request; the body of the answer.
fn scrape(address: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let is_ready =
        head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("\r\nContent-Type: text/plain; version=0.0.4");
    assert!(is_ready || head.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(!is_ready || head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{answer}");
    if is_ready { body.to_owned() } else { String::new() }
}

/// The value of a metric without labels.
fn value(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn scrapes_while_processes_are_born() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    let state = state.to_str().unwrap();
    let args = ["--listen", "127.0.0.1:0", "--every", "10ms", "--budget", "100%", "--top", "5", "--state", state];
    let (watch, mut messages) = watch(&args);
    let line = told(&mut messages, "listens at http://");
    let address = line.trim().split_once("http://").unwrap().1.strip_suffix("/metrics").unwrap().to_owned();
    wait("first reading", || Some(scrape(&address)).filter(|text| !text.is_empty()));
    // A thousand processes that end at once.
    let mut births = Running::new(Command::new("sh").args(["-c", "for i in $(seq 1000); do /bin/true & done; wait"]));
    let (mut times, mut scrapes) = (Vec::new(), 0);
    while births.0.try_wait().unwrap().is_none() || times.len() < 3 {
        let text = scrape(&address);
        assert!(text.ends_with(&format!("samara_watch_info{{version=\"{}\"}} 1\n", env!("CARGO_PKG_VERSION"))));
        let rows = text.lines().filter(|line| line.starts_with("samara_process_areas{")).count();
        assert!(rows <= 5, "{text}");
        assert!(value(&text, "samara_other_processes").is_some(), "{text}");
        times.push(value(&text, "samara_watch_reading_timestamp_seconds").unwrap().to_bits());
        times.dedup();
        scrapes += 1;
        assert!(scrapes < 1_000_000, "no other reading comes");
    }
    drop(births);
    assert_eq!(watch.end(), Some(0));
}

#[test]
fn a_textfile_is_replaced_as_a_whole() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("samara.prom");
    let state = dir.path().join("state");
    let (name, state) = (file.to_str().unwrap(), state.to_str().unwrap());
    let (watch, _messages) = watch(&["--textfile", name, "--every", "10ms", "--budget", "100%", "--state", state]);
    let mut times: Vec<u64> = Vec::new();
    wait("third reading", || {
        let text = std::fs::read_to_string(&file).ok()?;
        assert!(text.starts_with("# HELP ") && text.contains("\nsamara_watch_info{"), "{text}");
        times.push(value(&text, "samara_watch_reading_timestamp_seconds").unwrap().to_bits());
        times.dedup();
        (times.len() >= 3).then_some(())
    });
    assert_eq!(watch.end(), Some(0));
    let entries: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!entries.iter().any(|name| name.to_string_lossy().contains("part")), "{entries:?}");
}

/// The kept files, from the list.
fn kept(state: &Path) -> Vec<Value> {
    let output = run(Path::new("."), &["watch", "--list", "--json", "--state", state.to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    stdout(&output).lines().map(json).collect()
}

/// The bounds of the folder hold where nothing new is kept.
#[test]
fn what_is_too_old_goes_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let old = dir.path().join("2020-01-01T00-00-00Z-x-1-2-at80.samara");
    std::fs::write(&old, "").unwrap();
    let sleep = Running::new(Command::new("sleep").arg("1000"));
    let mut watch = samara();
    watch.args(["watch", "--pid", &sleep.pid(), "--keep-at", "100", "--state"]).arg(dir.path()).stderr(Stdio::null());
    let _watch = Running::new(&mut watch);
    wait("end of the old file", || (!old.exists()).then_some(()));
}

#[test]
fn it_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let limit: usize = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap().trim().parse().unwrap();
    if limit > 200_000 {
        return crate::skip::skipped("vm.max_map_count is large");
    }
    let Some(program) = guards(dir.path(), (limit / 180).try_into().unwrap(), false) else { return };
    let pid = program.pid();
    let state = dir.path().join("state");
    assert_eq!(kept(&state), Vec::<Value>::new());
    let said_by = dir.path().join("said");
    let command = "echo \"$SAMARA_REASON $SAMARA_PID $SAMARA_NAME $SAMARA_AREAS $SAMARA_LIMIT $SAMARA_FILE\" >> said";
    let args = ["watch", "--pid", &pid, "--every", "50ms", "--keep-at", "1", "--exec", command, "--state", "state"];
    let mut watch = samara();
    watch.args(args).current_dir(dir.path()).stderr(Stdio::piped()).stdout(Stdio::null());
    let mut watch = Running::new(&mut watch);
    let mut messages = BufReader::new(watch.0.stderr.take().unwrap());
    let line = told(&mut messages, &format!("guards ({pid}) has "));
    assert!(line.contains("kept-apart (guard-pages)") && line.contains(" why state/"), "{line}");
    let text = wait("output of the command", || std::fs::read_to_string(&said_by).ok().filter(|t| t.ends_with('\n')));
    let all = kept(&state);
    assert_eq!(all.len(), 1, "{all:?}");
    assert_documented(&["reference/json.md"], all[0].as_object().unwrap().keys());
    let file = PathBuf::from(all[0]["file"].as_str().unwrap());
    let expected =
        format!("at1 {pid} guards {} {limit} state/{}\n", areas(&pid), file.file_name().unwrap().to_str().unwrap());
    assert_eq!(text, expected);
    assert_eq!((&all[0]["areas"], &all[0]["reason"]), (&areas(&pid).into(), &"at1".into()));
    // The process ends; samara has nothing left to watch.
    drop(program);
    told(&mut messages, "no process that --pid names is left");
    assert_eq!(watch.0.wait().unwrap().code(), Some(0));
    // What was kept is a trace.
    let file = file.to_str().unwrap();
    let why = run(dir.path(), &["why", file]);
    assert!(why.status.success() && stdout(&why).contains("guards of 4 KiB between them"), "{}", said(&why));
    assert!(stdout(&why).contains("at the beginning of the trace") && !stdout(&why).contains("peak"), "{}", said(&why));
    let show = run(dir.path(), &["show", file, "--summary"]);
    assert!(show.status.success() && stdout(&show).contains("guards"), "{}", said(&show));
    let diff = run(dir.path(), &["diff", file, file]);
    assert!(diff.status.success(), "{}", said(&diff));
    let report = run(dir.path(), &["report", file, "-o", "page.html"]);
    assert!(report.status.success(), "{}", said(&report));
    let list = run(dir.path(), &["watch", "--list", "--state", "state"]);
    assert!(stdout(&list).starts_with("samara: state: 1 survey kept, "), "{}", said(&list));
    assert!(stdout(&list).contains(&format!("guards ({pid})")), "{}", said(&list));
}

/// What was kept is counted by its kind.
#[test]
fn surveys_and_recordings_are_counted_apart() {
    let dir = tempfile::tempdir().unwrap();
    let title = |kept: &[&str]| {
        let _ = std::fs::remove_dir_all(dir.path().join("state"));
        std::fs::create_dir(dir.path().join("state")).unwrap();
        for (i, reason) in kept.iter().enumerate() {
            let name = format!("state/2026-11-28T21-31-5{i}Z-x-7-100-{reason}.samara");
            std::fs::write(dir.path().join(name), [0; 512]).unwrap();
        }
        let output = run(dir.path(), &["watch", "--list", "--state", "state"]);
        stdout(&output).lines().next().unwrap().to_owned()
    };
    assert_eq!(title(&[]), "samara: state: 0 surveys kept, 0 B");
    assert_eq!(title(&["record"]), "samara: state: 1 recording kept, 512 B");
    assert_eq!(title(&["at80", "growth"]), "samara: state: 2 surveys kept, 1 KiB");
    assert_eq!(title(&["at80", "record", "at95"]), "samara: state: 2 surveys and 1 recording kept, 1.50 KiB");
}

/// A process whose areas are kept is recorded too.
#[test]
fn it_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let limit: u32 = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap().trim().parse().unwrap();
    let Some(program) = guards(dir.path(), limit / 180, false) else { return };
    let state = dir.path().join("state");
    let args = ["--pid", &program.pid(), "--every", "50ms", "--keep-at", "1", "--record", "300ms", "--state"];
    let (watch, mut messages) = watch(&[&args[..], &[state.to_str().unwrap()]].concat());
    let line = told(&mut messages, "ecorded: ");
    if line.contains("not recorded: ") {
        return crate::skip::skipped(line.trim());
    }
    assert!(line.contains(" why ") && line.contains("-record.samara"), "{line}");
    let all = kept(&state);
    let reasons: Vec<_> = all.iter().map(|kept| kept["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["at1", "record"]);
    let events = run(dir.path(), &["events", all[1]["file"].as_str().unwrap()]);
    assert!(stdout(&events).contains("  found "), "{}", said(&events));
    drop(watch);
}

/// The first message says what is watched, how often, and where the results are. A single reading
/// and the list have none.
#[test]
fn the_start_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (state, file) = (dir.path().join("state\u{1b}"), dir.path().join("x.prom"));
    let (state, file) = (state.to_str().unwrap(), file.to_str().unwrap());
    let sleep = Running::new(Command::new("sleep").arg("1000"));
    let pid = sleep.pid();
    let lines = |args: &[&str]| {
        let (watch, mut messages) = watch(&[args, &["--state", state]].concat());
        let (mut first, mut second) = (String::new(), String::new());
        messages.read_line(&mut first).unwrap();
        messages.read_line(&mut second).unwrap();
        assert_eq!(watch.end(), Some(0));
        assert!(!second.contains('\u{1b}'), "{second:?}");
        (first, second)
    };
    let kept = state.replace('\u{1b}', "\\033");
    let one = lines(&["--pid", &pid, "--every", "90s"]);
    assert_eq!(one.0, format!("samara: watching process {pid} (sleep) every 1m 30s, until ^C or its end\n"));
    assert_eq!(one.1, format!("  keeps areas in {kept}\n"));
    let both = lines(&["--pid", &pid, "--name", "x", "--textfile", file, "--listen", "127.0.0.1:0"]);
    assert_eq!(both.0, format!("samara: watching process {pid} (sleep), processes named x every 10s, until ^C\n"));
    assert!(both.1.starts_with(&format!("  keeps areas in {kept}; writes {file}; listens at http://")), "{}", both.1);
    assert!(both.1.ends_with("/metrics\n"), "{}", both.1);
    assert_eq!(lines(&[]).0, "samara: watching all processes every 10s, until ^C\n");
    for args in [&["--once", "--pid", &pid][..], &["--list"]] {
        let output = run(dir.path(), &[&["watch", "--state", state], args].concat());
        assert_eq!(stderr(&output), "", "{args:?}");
    }
}

/// Watches this process, and its messages.
fn watching(state: &Path, every: &str) -> (Running, BufReader<ChildStderr>) {
    let mut command = samara();
    command.args(["watch", "--json", "--every", every, "--budget", "100", "--state"]).arg(state);
    command.args(["--pid", &std::process::id().to_string()]);
    let mut watch = Running::new(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let messages = BufReader::new(watch.0.stderr.take().unwrap());
    (watch, messages)
}

/// A reader that takes one line and leaves, as `head` does: what is kept does not depend on it.
#[test]
fn watching_goes_on_without_its_reader() {
    let dir = tempfile::tempdir().unwrap();
    let (mut watch, mut messages) = watching(&dir.path().join("state"), "100ms");
    let mut line = String::new();
    BufReader::new(watch.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with('{'), "{line}");
    told(&mut messages, "standard output has no reader any more: watching goes on");
    assert_eq!(watch.end(), Some(0));
}

/// A reader that stays and does not read.
#[test]
fn watching_goes_on_while_its_reader_stands() {
    let dir = tempfile::tempdir().unwrap();
    let (mut watch, mut messages) = watching(&dir.path().join("state"), "10ms");
    let lines = watch.0.stdout.take().unwrap();
    told(&mut messages, "standard output is not read: watching goes on");
    assert_eq!(watch.end(), Some(0));
    drop(lines);
}

/// The files of its first thread say that such a process has no memory.
#[test]
fn a_process_whose_first_thread_has_ended() {
    let dir = tempfile::tempdir().unwrap();
    let source = "#include <pthread.h>\n#include <stdio.h>\n#include <unistd.h>\n\
        void *other(void *first) { pthread_join(*(pthread_t *)first, 0); puts(\"ready\"); fflush(stdout); pause(); return 0; }\n\
        static pthread_t first;\n\
        int main() { pthread_t t; first = pthread_self(); pthread_create(&t, 0, other, &first); pthread_exit(0); }\n";
    let Some(program) = compiled(dir.path(), "ended", source, &[]) else { return };
    let one = |args: &[&str]| json(&stdout(&run(dir.path(), &[&["watch", "--once", "--json"], args].concat())));
    for args in [&["--pid", &program.pid()][..], &["--name", "ended"]] {
        let row = &one(args)["top"][0];
        assert!(row["areas"].as_u64() > Some(5) && row["pid"].as_u64() == program.pid().parse().ok(), "{row}");
    }
}

/// A process is found by the name that it has taken since it was first read.
#[test]
fn a_process_that_takes_another_name() {
    let dir = tempfile::tempdir().unwrap();
    let source = "#include <stdio.h>\n#include <sys/prctl.h>\n#include <unistd.h>\n\
        int main() { puts(\"ready\"); fflush(stdout); getchar(); prctl(PR_SET_NAME, \"renamed\"); pause(); }\n";
    let Some(mut program) = compiled(dir.path(), "before", source, &[]) else { return };
    let mut command = samara();
    command.args(["watch", "--json", "--every", "20ms", "--budget", "100", "--name", "renamed", "--state", "state"]);
    command.current_dir(dir.path()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut watch = Running::new(&mut command);
    let mut lines = BufReader::new(watch.0.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert_eq!(json(&lines.next().unwrap())["top"], Value::Array(Vec::new()));
    drop(program.0.stdin.take());
    let row = lines.take(2000).map(|line| json(&line)["top"][0].clone()).find(|row| !row.is_null()).unwrap();
    assert_eq!(row["pid"].to_string(), program.pid());
}

/// More alerts at one reading than commands that run beside each other, or than are kept at once.
#[test]
fn many_alerts_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let limit: usize = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap().trim().parse().unwrap();
    if limit > 200_000 {
        return crate::skip::skipped("vm.max_map_count is large");
    }
    let Some(programs) = (0..20).map(|_| guards(dir.path(), (limit / 180) as u32, false)).collect::<Option<Vec<_>>>()
    else {
        return;
    };
    let pids: Vec<String> = programs.iter().flat_map(|program| ["--pid".to_owned(), program.pid()]).collect();
    let state = dir.path().join("state");
    let mut watch = samara();
    watch.args(["watch", "--every", "50ms", "--budget", "100", "--keep-at", "1", "--state"]).arg(&state).args(&pids);
    watch.args(["--exec", "echo $SAMARA_PID >> said; sleep 0.1"]).current_dir(dir.path()).stderr(Stdio::null());
    let watch = Running::new(&mut watch);
    wait("survey of each", || (kept(&state).len() == 20).then_some(()));
    let said = || std::fs::read_to_string(dir.path().join("said")).unwrap_or_default();
    wait("command for each", || (said().lines().count() == 20).then_some(()));
    assert_eq!(watch.end(), Some(0));
}

/// A program that grows fast.
#[test]
fn fast_growth_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = guards(dir.path(), 10, true) else { return };
    let state = dir.path().join("state");
    let args = ["--pid", &program.pid(), "--every", "50ms", "--budget", "100%", "--ahead", "100d", "--state"];
    let (watch, mut messages) = watch(&[&args[..], &[state.to_str().unwrap()]].concat());
    let line = told(&mut messages, " areas, ");
    assert!(line.contains(" a minute, the limit in ") && line.contains(" why "), "{line}");
    assert_eq!(watch.end(), Some(0));
    let all = kept(&state);
    assert!(all.iter().any(|one| one["reason"] == "growth"), "{all:?}");
}

/// A program that would reach the limit between two readings is read more often.
#[test]
fn fast_growth_is_read_sooner() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = guards(dir.path(), 28_000, true) else { return };
    if !std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap().starts_with("65530") {
        return crate::skip::skipped("vm.max_map_count is not the usual one");
    }
    let state = dir.path().join("state");
    let mut command = samara();
    // Neither causes nor surveys, which take long.
    command.args(["watch", "--json", "--top", "0", "--keep-at", "100", "--ahead", "1ms"]);
    command.args(["--every", "3s", "--budget", "100", "--pid", &program.pid(), "--state"]);
    let mut watch = Running::new(command.arg(state).stdout(Stdio::piped()).stderr(Stdio::null()));
    let readings = BufReader::new(watch.0.stdout.take().unwrap()).lines().take(3);
    let next = |line: String| json(&line)["watch"]["interval_seconds"].as_f64().unwrap();
    let intervals: Vec<f64> = readings.map(|line| next(line.unwrap())).collect();
    assert!(intervals.iter().any(|seconds| *seconds < 1.5), "{intervals:?}");
    assert_eq!(watch.end(), Some(0));
}

#[test]
fn watching_goes_on_without_its_folder() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("state"), "a file").unwrap();
    let state = dir.path().join("state");
    let file = dir.path().join("samara.prom");
    let mut sleep = Running::new(Command::new("sleep").arg("1000"));
    let args = ["--pid", &sleep.pid(), "--every", "10ms", "--budget", "100%", "--textfile", file.to_str().unwrap()];
    let (watch, mut messages) = watch(&[&args[..], &["--state", state.to_str().unwrap()]].concat());
    let line = told(&mut messages, "nothing will be kept: the folder ");
    assert!(line.contains("give another one by --state"), "{line}");
    wait("reading", || std::fs::read_to_string(&file).ok().filter(|text| text.contains("name=\"sleep\"")));
    sleep.0.kill().unwrap();
    sleep.0.wait().unwrap();
    told(&mut messages, "is left");
    drop(watch);
}

#[test]
fn what_was_not_kept_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = guards(dir.path(), 400, false) else { return };
    let limit: usize = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap().trim().parse().unwrap();
    if areas(&program.pid()) * 100 < limit {
        return crate::skip::skipped("vm.max_map_count is large");
    }
    std::fs::create_dir(dir.path().join("state")).unwrap();
    let args =
        ["--once", "--json", "--pid", &program.pid(), "--keep-at", "1", "--keep-size", "1000", "--state", "state"];
    let output = run(dir.path(), &[&["watch"], &args[..]].concat());
    assert_eq!(output.status.code(), Some(123), "{}", said(&output));
    assert!(stderr(&output).contains("all together may have 1000: give more by --keep-size"), "{}", said(&output));
    let own = &json(&stdout(&output))["watch"];
    assert_eq!((&own["kept"], &own["not_kept"], &own["alerts"]["at1"]), (&0.into(), &1.into(), &1.into()));
    assert_eq!(std::fs::read_dir(dir.path().join("state")).unwrap().count(), 0);
}

/// The systemd unit uses existing options, and a strict sandbox.
#[test]
fn the_unit_is_hardened() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/samara-watch.service");
    let unit = unit.canonicalize().unwrap();
    let text = std::fs::read_to_string(&unit).unwrap();
    let start = text.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/samara watch ")).unwrap();
    let help = stdout(&run(Path::new("."), &["watch", "--help"]));
    let mut options = start.split(' ').filter(|word| word.starts_with("--"));
    assert!(options.all(|option| help.contains(&format!(" {option} "))), "{start}");
    let score = Command::new("systemd-analyze").args(["security", "--offline=yes", "--no-pager"]).arg(&unit).output();
    let told = score.map(|output| stdout(&output)).unwrap_or_default();
    let Some((_, score)) = told.split_once("samara-watch.service: ") else {
        return crate::skip::skipped("no systemd-analyze that reads files (systemd 250)");
    };
    let score: f64 = score.split(' ').next().unwrap().parse().unwrap();
    assert!(score < 2.0, "{told}");
}

#[test]
fn what_cannot_be_watched() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, own) = (taken.local_addr().unwrap().to_string(), std::process::id().to_string());
    let (told, tid) = std::sync::mpsc::channel();
    let (end, ends) = std::sync::mpsc::channel::<()>();
    let running = std::thread::spawn(move || {
        told.send(nix::unistd::gettid().to_string()).unwrap();
        let _ = ends.recv();
    });
    let thread = tid.recv().unwrap();
    for (args, code, words) in [
        (&["--listen", &address][..], 1, "give another address by --listen"),
        (&["--listen", "nowhere"], 2, "give an address of this machine and a port, such as 127.0.0.1:9877"),
        (&["--cgroup", "no/such"], 1, "no/such is no control group"),
        (&["--once", "--textfile", "none/x.prom"], 1, "cannot write to none/x.prom"),
        (&["--list", "--state", "/dev/null"], 1, "the folder /dev/null cannot be used"),
        (&["--once", "--pid", "4294967295"], 125, "there is no process 4294967295: give the PID of one that runs"),
        (&["--pid", &own, "--pid", "4294967295"], 125, "there is no process 4294967295"),
        (&["--pid", &thread], 125, &format!("{thread} is a thread of process {own}")),
        (&["--once", "--textfile", "x.txt"], 2, "node_exporter reads only names that end in .prom"),
        (&["--textfile", "x.prom/"], 2, "node_exporter reads only names that end in .prom"),
        (&["--budget", "0"], 2, "from 0.01% to 100%"),
        (&["--every", "10"], 2, "give a duration above zero with a unit"),
        (&["--keep-at", "80,101"], 2, "1..=100"),
        (&["--list", "--once"], 2, "cannot be used with"),
        (&["--listen", "--once"], 2, "cannot be used with"),
    ] {
        let output = run(dir.path(), &[&["watch"], args].concat());
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", said(&output));
        assert!(stderr(&output).contains(words), "{args:?}: {}", said(&output));
    }
    drop(end);
    running.join().unwrap();
    // Nothing is not taken for no processes.
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", "umount -l /proc && exec \"$0\" watch --once"]).arg(samara().get_program());
    match command.output() {
        Ok(output) if !stderr(&output).contains("unshare: unshare failed") => {
            assert_eq!(output.status.code(), Some(1), "{}", said(&output));
            assert!(stderr(&output).contains("/proc does not show this process"), "{}", said(&output));
        }
        _ => crate::skip::skipped("unshare"),
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
