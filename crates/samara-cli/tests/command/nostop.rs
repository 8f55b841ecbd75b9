//! `samara trace --no-stop`: the command as users run it, and its message if it is not allowed.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use samara_trace::event::{Event, EventKind, LOST};

use crate::samples::{self, run, said, samara, stderr, stdout};
use crate::skip::skipped;

/// Whether this machine allows recording without stops. Prints so if not.
fn allowed(output: &Output) -> bool {
    let text = stderr(output);
    let may = output.status.code() != Some(125) || !text.contains("with stops (without --no-stop");
    if !may {
        skipped(text.trim());
    }
    may
}

/// What a command does in namespaces of its own. `None`: there are none here, which is said.
fn unshared(command: &mut Command) -> Option<Output> {
    match command.output() {
        Ok(output) if stderr(&output).contains("unshare: unshare failed") => skipped(stderr(&output).trim()),
        Ok(output) => return Some(output),
        Err(error) => skipped(format_args!("unshare: {error}")),
    }
    None
}

#[test]
fn a_program_is_recorded_without_stops() {
    let dir = tempfile::tempdir().unwrap();
    let words = ["trace", "--no-stop", "-o", "t.samara", "--summary-json", "s.json", "--", "sh", "-c", "ls /; exit 7"];
    let output = run(dir.path(), &words);
    if !allowed(&output) {
        return;
    }
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(7), "{text}");
    assert!(stdout(&output).contains("proc"));
    assert!(text.contains("note       without stops: ") && text.contains(" events lost, "), "{text}");
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(dir.path().join("s.json")).unwrap()).unwrap();
    assert_eq!((&json["processes"], &json["execs"], &json["differences"]), (&2.into(), &2.into(), &0.into()), "{json}");
    // All commands that read traces read this one.
    for words in [&["events", "t.samara"][..], &["why", "t.samara"], &["summary", "t.samara"], &["show", "t.samara"]] {
        let read = run(dir.path(), words);
        assert!(read.status.success(), "{words:?}: {}", stderr(&read));
    }
    let events = stdout(&run(dir.path(), &["events", "t.samara"]));
    assert!(events.contains("exec /") && events.contains("mmap(NULL, "), "{events}");
    let output = run(dir.path(), &["trace", "--no-stop", "--stacks", "-o", "s.samara", "--", "ls", "/"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let events = stdout(&run(dir.path(), &["events", "s.samara", "--stacks"]));
    assert!(events.contains("\n                    ") && events.contains("mmap"), "{events}");
    // BPF tells where the first thread's stack begins: the loader's first function has no caller.
    if stderr(&output).contains(", by BPF") {
        assert!(!events.contains("its callers are not known"), "{events}");
    }
    let missing = run(dir.path(), &["trace", "--no-stop", "--", "./no-such-program"]);
    assert_eq!(missing.status.code(), Some(127), "{}", stderr(&missing));
}

/// Each source of events can be asked for. The summary names it.
#[test]
fn the_source_is_named() {
    let dir = tempfile::tempdir().unwrap();
    for (source, named) in [("perf", ", by perf events"), ("bpf", ", by BPF")] {
        let output = run(dir.path(), &["trace", "--source", source, "-o", "t.samara", "--", "ls", "/"]);
        if !allowed(&output) {
            continue;
        }
        let text = stderr(&output);
        let line = text.lines().find(|line| line.contains("without stops: ")).unwrap_or_default();
        assert!(output.status.success() && line.ends_with(named), "{text}");
        let events = stdout(&run(dir.path(), &["events", "t.samara"]));
        assert!(events.contains("exec /") && events.contains("munmap("), "{events}");
    }
    for words in [&["--source", "other", "--", "true"][..], &["--source", "bpf", "--resident", "--", "true"]] {
        let output = run(dir.path(), &[&["trace"], words].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    }
}

/// In a container processes have numbers of its own, which the records of all sources have. A
/// container in it has others: its processes are recorded by those of the outer one.
#[test]
fn numbers_are_of_the_containers_processes() {
    let dir = tempfile::tempdir().unwrap();
    let script = "ls / > /dev/null; unshare -pf ls / > /dev/null; (cd /; ls > /dev/null) & wait";
    for source in ["perf", "bpf"] {
        let trace =
            ["trace", "--source", source, "-o", "t.samara", "--summary-json", "s.json", "--", "sh", "-c", script];
        let mut command = Command::new("unshare");
        command
            .args(["-pf", "--mount-proc", "unshare", "-pf", "--mount-proc", env!("CARGO_BIN_EXE_samara")])
            .args(trace);
        let Some(output) = unshared(command.current_dir(dir.path())) else { return };
        if !allowed(&output) {
            continue;
        }
        let text = stderr(&output);
        assert!(output.status.success(), "{text}");
        let json: serde_json::Value =
            serde_json::from_slice(&std::fs::read(dir.path().join("s.json")).unwrap()).unwrap();
        assert_eq!((&json["execs"], &json["differences"]), (&5.into(), &0.into()), "{source}: {json}");
        let events = stdout(&run(dir.path(), &["events", "t.samara", "--json"]));
        let events: Vec<serde_json::Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let pids: BTreeSet<u64> = events.iter().filter_map(|event| event["pid"].as_u64()).collect();
        assert!(pids.len() >= 5 && pids.iter().all(|pid| *pid < 100), "{source}: {pids:?}");
        let calls = events.iter().filter(|event| event["kind"] == "call").count();
        assert!(calls > 100, "{source}: {calls} calls");
    }
}

/// A time namespace has a clock of its own. The kernel's records have the machine's.
#[test]
fn a_time_namespace_does_not_hold_up_records() {
    let dir = tempfile::tempdir().unwrap();
    // No clock may be below zero.
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
    let behind = format!("-{}", uptime.split('.').next().unwrap().parse::<u64>().unwrap() / 2);
    for (source, ahead) in [("perf", &*behind), ("bpf", "5000")] {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "60", "unshare", "-fT", "--kill-child", "--monotonic", ahead]).args([
            env!("CARGO_BIN_EXE_samara"),
            "trace",
            "--source",
            source,
            "-o",
            "t.samara",
            "--",
            "ls",
        ]);
        let Some(output) = unshared(command.current_dir(dir.path())) else { return };
        if allowed(&output) {
            let text = stderr(&output);
            assert!(output.status.success() && text.contains("order exact, 0 events lost"), "{source}: {text}");
        }
    }
}

/// Where the program has ended, a signal ends the recording of what it has left behind.
#[test]
fn a_signal_after_the_programs_end_is_for_the_recorder() {
    let dir = tempfile::tempdir().unwrap();
    let script = "sleep 1000 > log 2>&1 & echo $$ $! > made; mv made pids";
    let mut recorder = samara()
        .current_dir(dir.path())
        .args(["trace", "--no-stop", "-o", "t.samara", "--", "sh", "-c", script])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let signal = |signal: &str, pid: &str| Command::new("kill").args([signal, pid]).status().unwrap().success();
    let pids = || std::fs::read_to_string(dir.path().join("pids")).unwrap_or_default();
    let ended = |pid: &str| !Path::new("/proc").join(pid).join("exe").exists();
    let own = recorder.id().to_string();
    let mut asked = false;
    while recorder.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(20));
        // Once: another signal would end the recorder while it prints its summary.
        if !asked && pids().split_whitespace().next().is_some_and(ended) {
            asked = signal("-TERM", &own);
        }
    }
    let output = recorder.wait_with_output().unwrap();
    if allowed(&output) {
        let left_behind = pids().split_whitespace().nth(1).unwrap().to_owned();
        assert!(signal("-KILL", &left_behind), "what it left behind goes on");
        let text = stderr(&output);
        assert!(output.status.success() && text.contains("ended with 0"), "{text}");
    }
}

/// The first process ends in its place among the events, not at the end of the recording. What was
/// too short to be compared is not said to be equal.
#[test]
fn ends_are_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let script = "sleep 0.3 & exit 3";
    let output = run(dir.path(), &["trace", "--no-stop", "-o", "t.samara", "--", "bash", "-c", script]);
    if !allowed(&output) {
        return;
    }
    let events = stdout(&run(dir.path(), &["events", "t.samara"]));
    let at = |what: &str| events.find(what).unwrap_or_else(|| panic!("{what}: {events}"));
    assert!(at("exit with 3") < at("exit with 0"), "{events}");
    assert!(stderr(&output).contains("with what it left behind"), "{}", stderr(&output));
    let output = run(dir.path(), &["trace", "--no-stop", "-o", "t.samara", "--", "true"]);
    let text = stderr(&output);
    assert!(!text.contains("left behind") && !text.contains("0 of 0"), "{text}");
}

/// How a process ended is said only where it is known: by BPF. Its parent alone is told otherwise.
#[test]
fn a_killed_process_does_not_go_on() {
    let dir = tempfile::tempdir().unwrap();
    for source in ["bpf", "perf"] {
        let (trace, go) = (format!("{source}.samara"), dir.path().join(source));
        let script = format!("until [ -e {} ]; do sleep 0.05; done; kill -9 $$", go.display());
        let mut child = Command::new("sh").args(["-c", &script]).spawn().unwrap();
        let pid = child.id().to_string();
        let mut recorder = samara()
            .args(["trace", "--no-stop", "--source", source, "--pid", &pid, "-o", &trace])
            .current_dir(dir.path())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It watches from its first line on.
        let mut text = String::new();
        let mut said = BufReader::new(recorder.stderr.take().unwrap());
        said.read_line(&mut text).unwrap();
        std::fs::write(&go, "").unwrap();
        child.wait().unwrap();
        said.read_to_string(&mut text).unwrap();
        let status = recorder.wait().unwrap();
        if !allowed(&Output { status, stdout: Vec::new(), stderr: text.clone().into_bytes() }) {
            return;
        }
        let ends = if source == "bpf" { "SIGKILL" } else { "in an unknown way" };
        for text in [text, stdout(&run(dir.path(), &["summary", &trace]))] {
            assert!(!text.contains("goes on") && text.contains(ends), "{source}: {text}");
        }
    }
}

#[test]
fn a_process_that_runs_is_let_go() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = child.id().to_string();
    let output = run(dir.path(), &["trace", "--no-stop", "--pid", &pid, "--for", "500ms", "-o", "t.samara"]);
    let runs = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    if !allowed(&output) {
        return;
    }
    let text = stderr(&output);
    assert!(output.status.success() && runs, "{text}");
    assert!(text.contains("it does not stop") && text.contains("0 spaces unsure"), "{text}");
    let events = stdout(&run(dir.path(), &["events", "t.samara"]));
    assert!(events.contains("found ") && events.contains("are equal"), "{events}");
}

/// Without an option that needs stops `--pid` stops nothing where that is possible, and says so.
#[test]
fn the_recorder_is_chosen_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = child.id().to_string();
    let trace = |more: &[&str]| {
        let output = run(dir.path(), &[&["trace", "--pid", &pid, "--for", "100ms"][..], more].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        stderr(&output)
    };
    let chosen = trace(&[]);
    let stopped = [trace(&["--exact"]), trace(&["--resident"])];
    child.kill().unwrap();
    child.wait().unwrap();
    match chosen.strip_prefix("samara: cannot record without stops: ") {
        Some(why) => skipped(why),
        None => assert!(chosen.contains("it does not stop") && chosen.contains("without stops: "), "{chosen}"),
    }
    for text in stopped {
        assert!(text.contains("attaching to process") && !text.contains("without stops"), "{text}");
    }
}

/// A control group of version 2 that goes with its last process.
struct ControlGroup(PathBuf);

impl ControlGroup {
    /// `None`: this machine has none that may be made, which is said.
    fn new() -> Option<ControlGroup> {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        let root = mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let at = words.next()?;
            (words.next()? == "cgroup2").then(|| PathBuf::from(at))
        });
        // Container engines mount the hierarchies of version 1 on some machines.
        if std::fs::read_to_string("/proc/self/cgroup").unwrap().contains("perf_event") {
            skipped("perf events are of control groups of version 1".to_owned());
            return None;
        }
        let path = root?.join(format!("samara-test-{}", std::process::id()));
        std::fs::create_dir(&path).inspect_err(|why| skipped(format!("no control group can be made: {why}"))).ok()?;
        Some(ControlGroup(path))
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// A recorder, and what it says.
struct Recorder {
    process: std::process::Child,
    says: BufReader<std::process::ChildStderr>,
    said: Vec<u8>,
}

impl Recorder {
    /// Starts to record a control group, and waits until that has begun, or is refused.
    fn of_group(dir: &Path, group: &ControlGroup) -> Recorder {
        let args = ["trace", "--cgroup", group.0.to_str().unwrap(), "-o", "t.samara", "--for", "60s"];
        let mut command = samara();
        let recorder = command.current_dir(dir).args(args).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut process = recorder.spawn().unwrap();
        let (mut says, mut said) = (BufReader::new(process.stderr.take().unwrap()), Vec::new());
        while !String::from_utf8_lossy(&said).contains("no process stops")
            && says.read_until(b'\n', &mut said).unwrap() > 0
        {}
        // What is there is read next.
        std::thread::sleep(Duration::from_secs(1));
        Recorder { process, says, said }
    }

    /// Its end.
    fn output(mut self) -> Output {
        self.says.read_to_end(&mut self.said).unwrap();
        Output { status: self.process.wait().unwrap(), stdout: Vec::new(), stderr: self.said }
    }
}

/// What is there is found, what comes is followed, and the recording ends with the last process.
#[test]
fn a_control_group_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let Some(group) = ControlGroup::new() else { return skipped("there are no control groups of version 2") };
    let script = "echo $$ > \"$0/cgroup.procs\"; echo in; read go; ls / > /dev/null; (exec sleep 0.2); exit 3";
    let mut shell = Command::new("sh");
    let mut shell =
        shell.args(["-c", script]).arg(&group.0).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "in\n");
    let recorder = Recorder::of_group(dir.path(), &group);
    drop(shell.stdin.take());
    assert_eq!(shell.wait().unwrap().code(), Some(3));
    let output = recorder.output();
    drop(group);
    if !allowed(&output) {
        return;
    }
    let text = stderr(&output);
    assert!(output.status.success() && text.contains("no process stops"), "{text}");
    assert!(text.contains("0 events lost, 0 unexplained changes"), "{text}");
    let events = stdout(&run(dir.path(), &["events", "t.samara"]));
    for what in ["found /", "exec /usr/bin/ls", "exec /usr/bin/sleep", "exit with 0", "exit with 3", "are equal"] {
        assert!(events.contains(what), "{what}: {events}");
    }
    let missing = run(dir.path(), &["trace", "--cgroup", "/no/such/group"]);
    assert_eq!(missing.status.code(), Some(125));
    assert!(stderr(&missing).contains("is no control group"), "{}", stderr(&missing));
}

/// A process that leaves its group is followed no more, and one that comes is found. The recording
/// goes on while the group has one.
#[test]
fn members_of_a_group_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let Some(group) = ControlGroup::new() else { return skipped("there are no control groups of version 2") };
    let (inside, outside) = (group.0.join("cgroup.procs"), group.0.parent().unwrap().join("cgroup.procs"));
    let enter = |path: &Path, child: &std::process::Child| std::fs::write(path, child.id().to_string()).unwrap();
    let sleep = || Command::new("sleep").arg("1000").spawn().unwrap();
    let mut busy = Command::new("sh").args(["-c", "while ls / > /dev/null; do sleep 0.05; done"]).spawn().unwrap();
    let mut quiet = sleep();
    enter(&inside, &busy);
    let recorder = Recorder::of_group(dir.path(), &group);
    enter(&inside, &quiet);
    std::thread::sleep(Duration::from_secs(2));
    enter(&outside, &busy);
    std::thread::sleep(Duration::from_secs(3));
    quiet.kill().unwrap();
    quiet.wait().unwrap();
    let output = recorder.output();
    busy.kill().unwrap();
    busy.wait().unwrap();
    drop(group);
    if !allowed(&output) {
        return;
    }
    let text = stderr(&output);
    assert!(output.status.success() && text.contains("no difference"), "{text}");
    assert!(text.contains(&format!("process {} left the control group", busy.id())), "{text}");
    let events = stdout(&run(dir.path(), &["events", "t.samara"]));
    let found = |child: &std::process::Child| {
        let of_child = |line: &&str| line.split_whitespace().nth(2) == Some(&child.id().to_string());
        events.lines().filter(of_child).any(|line| line.contains("  found "))
    };
    assert!(found(&busy) && found(&quiet), "{events}");
}

/// Every process of the machine, among them one that changes its areas. On a busy machine it takes
/// long until all have been read.
#[test]
fn every_process_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let mut shell = Command::new("sh").args(["-c", "while ls / > /dev/null; do sleep 0.05; done"]).spawn().unwrap();
    let mut seen = Ok(Vec::new());
    for time in ["1s", "10s"] {
        let output = run(dir.path(), &["trace", "--all", "--for", time, "-o", "t.samara"]);
        if !allowed(&output) || !output.status.success() {
            seen = Err(output);
            break;
        }
        let events = stdout(&run(dir.path(), &["events", "t.samara"]));
        let of_shell = |line: &&str| line.split_whitespace().nth(2) == Some(&shell.id().to_string());
        let kinds = events.lines().filter(of_shell).filter_map(|line| line.split_whitespace().nth(3));
        let kinds: Vec<String> = kinds.map(str::to_owned).collect();
        let is_there = !kinds.is_empty() && (events.contains("exec /usr/bin/ls") || events.contains("exec /bin/ls"));
        seen = Ok(kinds);
        if is_there {
            break;
        }
    }
    shell.kill().unwrap();
    shell.wait().unwrap();
    match seen {
        Ok(kinds) => assert_eq!(kinds.first().map(|kind| &**kind), Some("found"), "{kinds:?}"),
        Err(output) => assert!(!allowed(&output), "{}", stderr(&output)),
    }
}

#[test]
fn what_needs_stops_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for option in [&["--resident"][..], &["--start-on", "USR1"], &["--follow", "none"]] {
        for words in [&["trace", "--no-stop"][..], &["trace", "--all"]] {
            let program: &[&str] = if words.contains(&"--all") { &[] } else { &["--", "true"] };
            let output = run(dir.path(), &[words, option, program].concat());
            assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        }
    }
}

/// The message names the missing right, and the alternative.
#[test]
fn a_missing_right_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let perf = &["mount -t tracefs", "mount -o remount", "CAP_PERFMON is missing", "CONFIG_FTRACE_SYSCALLS"][..];
    for (words, named) in [(&["--no-stop"][..], perf), (&["--source", "bpf"], &["BPF is not possible: "])] {
        let path = samara().get_program().to_owned();
        let output = Command::new("setpriv")
            .args(["--bounding-set=-all", "--inh-caps=-all"])
            .arg(path)
            .arg("trace")
            .args(words)
            .args(["--", "true"])
            .current_dir(dir.path())
            .output();
        let Ok(output) = output else { return skipped("there is no setpriv") };
        let text = stderr(&output);
        if text.starts_with("setpriv") {
            return skipped(format!("setpriv is refused: {}", text.trim()));
        }
        assert_eq!(output.status.code(), Some(125), "{text}");
        assert!(named.iter().any(|what| text.contains(what)), "{text}");
        assert!(text.contains("with stops (without --no-stop and --source) needs none of this"), "{text}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "no trace is left");
    }
}

/// Where events were lost, all that reads the trace says so, until a reading.
#[test]
fn lost_events_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut events = samples::events();
    let after = |kind, text: &str, args| {
        let last = events.iter().rposition(|e| e.kind == EventKind::Call && e.pid == 101).unwrap();
        let event = Event { kind, text: text.into(), args, areas: Vec::new(), window: None, ..events[last].clone() };
        (last + 1, Event { nr: None, plan: Vec::new(), ..event })
    };
    let (at, loss) = after(EventKind::Learnt, LOST, [0, 0, 4_321, 0, 0, 0]);
    let (_, read) = after(EventKind::Checked, "", [0, 1, 0, 0, 0, 0]);
    events.insert(at, loss);
    let number = |events: &mut Vec<Event>| events.iter_mut().zip(0..).for_each(|(event, seq)| event.seq = seq);
    number(&mut events);
    let path = samples::trace_of(dir.path(), &events).0;
    let seq = at.to_string();
    let why = |more: &[&str]| {
        let words = [&["why", path.to_str().unwrap(), "--pid", "101", "--at", &seq][..], more].concat();
        stdout(&run(dir.path(), &words))
    };
    assert!(why(&[]).contains("  incomplete     events were lost, "), "{}", why(&[]));
    assert!(why(&["--json"]).contains("\"incomplete\": true"));
    let summary = run(dir.path(), &["summary", path.to_str().unwrap()]);
    assert!(said(&summary).contains("the areas of a space were not all known, 1 time, "), "{}", said(&summary));
    assert!(said(&summary).contains("events that the kernel dropped: 4,321; calls are missing"), "{}", said(&summary));
    events.insert(at + 1, read);
    number(&mut events);
    samples::trace_of(dir.path(), &events);
    let seq = (at + 1).to_string();
    let words = ["why", path.to_str().unwrap(), "--pid", "101", "--at", &seq];
    assert!(!stdout(&run(dir.path(), &words)).contains("incomplete"), "it was read since");
}

/// samara as an ordinary user with CAP_PERFMON and CAP_BPF, in a folder that this user may write
/// to, by a program that changes something first.
fn as_user(dir: &Path, before: &[&str], args: &[&str]) -> Option<Output> {
    let all = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(dir, all).unwrap();
    if !dir.join("samara").exists() {
        std::fs::copy(env!("CARGO_BIN_EXE_samara"), dir.join("samara")).unwrap();
    }
    let rights = ["--inh-caps", "+perfmon,+bpf", "--ambient-caps", "+perfmon,+bpf"];
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).args(rights).args(before);
    match command.arg("./samara").args(args).current_dir(dir).output() {
        Ok(output) if stderr(&output).contains("setpriv: ") => skipped(stderr(&output).trim()),
        Ok(output) => return allowed(&output).then_some(output),
        Err(error) => skipped(format_args!("setpriv: {error}")),
    }
    None
}

/// The kernel closes the events of a program that its user may not read. That is said. Whether it
/// may be attached to again or not, its end is its own, and no number is taken for 0.
#[test]
fn a_program_that_may_not_be_read() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy("/bin/sleep", dir.path().join("hidden")).unwrap();
    std::fs::set_permissions(dir.path().join("hidden"), std::fs::Permissions::from_mode(0o711)).unwrap();
    let words = ["trace", "--no-stop", "--summary-json", "s.json", "-o", "t.samara"];
    let Some(output) = as_user(dir.path(), &[], &[&words[..], &["--", "./hidden", "0.3"]].concat()) else { return };
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("the kernel closed the events of process "), "{text}");
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(dir.path().join("s.json")).unwrap()).unwrap();
    assert!(json["program_ns"].as_u64() > Some(250_000_000), "{json}");
    let condition = ["--fail-if", "areas_peak > 10", "--", "./hidden", "0"];
    let failed = as_user(dir.path(), &[], &[&words[..], &condition].concat()).unwrap();
    assert_eq!(failed.status.code(), Some(123), "{}", stderr(&failed));
    // One that another one starts.
    let child = as_user(dir.path(), &[], &[&words[..], &["--", "sh", "-c", "./hidden 0.3; exit 3"]].concat()).unwrap();
    let text = stderr(&child);
    assert!(child.status.code() == Some(3) && text.contains("processes  2, "), "{text}");
    assert!(text.contains("the kernel closed the events of process "), "{text}");
}

/// Rings that together need more than may be locked are made smaller, all of them.
#[test]
fn rings_fit_in_what_may_be_locked() {
    let dir = tempfile::tempdir().unwrap();
    // The first of two rings gets what it asks for at a mebibyte, and leaves too little.
    for bytes in [1 << 17, 1 << 20, (1 << 20) + 4096, 1 << 22] {
        let limit = format!("--memlock={bytes}");
        let words = ["trace", "--no-stop", "--", "true"];
        let Some(output) = as_user(dir.path(), &["prlimit", &limit], &words) else { return };
        assert_eq!(output.status.code(), Some(0), "{bytes}: {}", said(&output));
    }
}

/// Compiles a program to a file in `dir`.
fn compiled(dir: &Path, name: &str, source: &str, flags: &[&str]) -> bool {
    std::fs::write(dir.join(name).with_extension("c"), source).unwrap();
    let mut cc = Command::new("cc");
    let made = cc.args(["-w", "-o", name, &format!("{name}.c")]).args(flags).current_dir(dir).status();
    let is_made = made.is_ok_and(|made| made.success());
    if !is_made {
        skipped(format_args!("no C compiler (cc) for {name}"));
    }
    is_made
}

/// What a recording of `./p` says and shows, by each source of events.
fn by_each_source(dir: &Path) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for source in ["bpf", "perf"] {
        let output = run(dir, &["trace", "--source", source, "-o", "t.samara", "--", "./p"]);
        if allowed(&output) {
            assert!(output.status.code() == Some(0), "{}", said(&output));
            all.push((stderr(&output), stdout(&run(dir, &["show", "t.samara"]))));
        }
    }
    all
}

/// The kernel closes the events of a program with other rights. It is attached to again.
#[test]
fn a_setuid_program_is_followed_again() {
    let dir = tempfile::tempdir().unwrap();
    let source = "#include <sys/mman.h>\n#include <unistd.h>\nint main() { usleep(300000);
        for (int i = 0; i < 7; i++) mprotect(mmap(0, 8192, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096, 0);
        usleep(100000); return 0; }";
    if !compiled(dir.path(), "p", source, &[]) {
        return;
    }
    let program = dir.path().join("p");
    if std::os::unix::fs::chown(&program, Some(65534), None).is_err() {
        return skipped("a file cannot be given to another user");
    }
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    for (text, areas) in by_each_source(dir.path()) {
        assert!(text.contains("the kernel closed the events of process ") && text.contains("processes  1\n"), "{text}");
        assert!(text.contains("mprotect         7"), "{text}");
        assert!(text.contains(" 0 spaces unsure") && areas.contains("[stack]"), "{text}{areas}");
    }
}

/// The kernel reports an executable stack before it moves it.
#[test]
fn an_executable_stack_is_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    if compiled(dir.path(), "p", "int main() { return 0; }", &["-z", "execstack"]) {
        for (text, areas) in by_each_source(dir.path()) {
            let executable: Vec<_> = areas.lines().filter(|line| line.contains(" rwxp ")).collect();
            assert!(matches!(executable[..], [one] if one.ends_with("[stack]")), "{text}{areas}");
        }
    }
}

/// The tracepoint of the load of a 32-bit program does not fire at its return. BPF sees it all the
/// same, and that the program before it is gone.
#[test]
fn a_program_of_32_bits_is_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let small = r#"void _start(void) { __asm__("movl $1, %eax; movl $7, %ebx; int $0x80"); }"#;
    let loads = "#include <unistd.h>\nint main() { return execl(\"./small\", \"small\", (char *)0); }";
    let flags = ["-m32", "-nostdlib", "-static", "-fno-pie", "-no-pie", "-fno-stack-protector"];
    if !compiled(dir.path(), "small", small, &flags) || !compiled(dir.path(), "p", loads, &[]) {
        return;
    }
    let output = run(dir.path(), &["trace", "--source", "bpf", "-o", "t.samara", "--", "./p"]);
    if !allowed(&output) {
        return;
    }
    if output.status.code() != Some(7) {
        return skipped("a kernel without 32-bit programs");
    }
    let text = stderr(&output);
    assert!(text.contains("processes  1, 2 programs") && text.contains(" 0 events lost, "), "{text}");
    let events = stdout(&run(dir.path(), &["events", "t.samara"]));
    assert!(events.lines().any(|line| line.contains("  exec ") && line.contains("/small: ")), "{events}");
}

/// What a userfaultfd changes is no call's, and not the end's either.
#[test]
fn changes_before_the_end_are_not_the_ends() {
    let dir = tempfile::tempdir().unwrap();
    let source = "#include <sys/mman.h>\n#include <sys/ioctl.h>\n#include <sys/syscall.h>\n#include <unistd.h>
        #include <linux/userfaultfd.h>
        int main() {
            char *at = mmap(0, 64 * 4096, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            int uffd = syscall(SYS_userfaultfd, 02000001);
            struct uffdio_api api = {.api = UFFD_API};
            if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api)) _exit(0);
            for (int i = 0; i < 5; i++) {
                struct uffdio_register part = {{(unsigned long)at + i * 8 * 4096, 4 * 4096}, UFFDIO_REGISTER_MODE_MISSING};
                if (ioctl(uffd, UFFDIO_REGISTER, &part)) _exit(1);
            }
            _exit(0);
        }";
    if compiled(dir.path(), "p", source, &[]) {
        for (text, _) in by_each_source(dir.path()) {
            let is_refused = text.contains(" 0 unexplained changes"); // no userfaultfd here
            assert!(
                is_refused || text.contains(" 5 unexplained changes") && text.contains(" 1 space unsure"),
                "{text}"
            );
        }
    }
}

/// A process is attached to together with those that share its areas.
#[test]
fn who_shares_the_areas_is_recorded_too() {
    let dir = tempfile::tempdir().unwrap();
    let source =
        "#define _GNU_SOURCE\n#include <sched.h>\n#include <signal.h>\n#include <stdlib.h>\n#include <sys/mman.h>
        #include <sys/prctl.h>\n#include <unistd.h>
        static int work(void *prot) {
            for (int i = 0; i < 3000; i++) {
                mprotect(mmap(0, 8192, (long)prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096, 0);
                usleep(5000);
            }
            return 0;
        }
        static int child(void *prot) { prctl(PR_SET_PDEATHSIG, SIGKILL); return work(prot); }
        int main() {
            char *stack = malloc(65536);
            clone(child, stack + 65536, CLONE_VM | SIGCHLD, (void *)3);
            return work((void *)1);
        }";
    if !compiled(dir.path(), "p", source, &[]) {
        return;
    }
    for source in ["bpf", "perf"] {
        let mut program = Command::new("./p").current_dir(dir.path()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let pid = program.id().to_string();
        let output = run(dir.path(), &["trace", "--pid", &pid, "--source", source, "--for", "1s", "-o", "t.samara"]);
        program.kill().unwrap();
        program.wait().unwrap();
        if allowed(&output) {
            let text = stderr(&output);
            // A call in which it was attached to may be unsure.
            assert!(text.contains("processes  2") && text.contains("no difference; "), "{text}");
            assert!(text.contains("1 of 1 space equal") && text.contains(" 0 spaces unsure"), "{text}");
        }
    }
}

/// BPF programs are at the recorded calls alone. Where there are too few descriptors for that, they
/// are at all calls, which is said, and record the same.
#[test]
fn few_descriptors_are_enough_for_bpf() {
    let dir = tempfile::tempdir().unwrap();
    let program = samara().get_program().to_owned();
    let mut calls = Vec::new();
    for (descriptors, named) in [(1000, ", by BPF"), (60, "Too many open files (os error 24))")] {
        let words = format!("ulimit -n {descriptors} && exec \"$0\" trace --source bpf -o t.samara -- ls /");
        let output = Command::new("sh").args(["-c", &words]).arg(&program).current_dir(dir.path()).output().unwrap();
        if !allowed(&output) {
            return;
        }
        let text = stderr(&output);
        let line = text.lines().find_map(|line| line.split_once("without stops: ")).unwrap_or_default().1;
        assert!(output.status.success() && line.ends_with(named) && line.contains(", 0 events lost, "), "{text}");
        calls.push(line.split(' ').next().unwrap_or_default().to_owned());
    }
    assert_eq!(calls[0], calls[1]);
}

/// BPF programs leave the perf events of others at the same calls alone.
#[test]
fn a_recorder_does_not_disturb_another_one() {
    let dir = tempfile::tempdir().unwrap();
    let program = samara().get_program().to_string_lossy().into_owned();
    let record = |source| ["trace", "--source", source, "-o"];
    let inner = [&[program.as_str()][..], &record("perf"), &["inner.samara", "--", "ls", "/"]].concat();
    let alone = run(dir.path(), &inner[1..]);
    let both = run(dir.path(), &[&record("bpf")[..], &["outer.samara", "--"], &inner].concat());
    if !allowed(&alone) || !allowed(&both) {
        return;
    }
    let line = |output: &Output, source: &str| {
        let text = stderr(output);
        let line = text.lines().find(|line| line.contains("without stops: ") && line.ends_with(source));
        line.unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    assert_eq!(line(&both, ", by perf events"), line(&alone, ", by perf events"));
    assert!(line(&both, ", by BPF").contains(" 0 events lost, 0 unexplained changes, "), "{}", stderr(&both));
}

/// A rootless container has capabilities that do not count here. No security module is to blame.
#[test]
fn a_user_namespace_is_named() {
    let dir = tempfile::tempdir().unwrap();
    for source in ["bpf", "perf"] {
        let mut command = Command::new("unshare");
        command.arg("-Ur").arg(samara().get_program()).args(["trace", "--source", source, "--", "true"]);
        let Some(output) = unshared(command.current_dir(dir.path())) else { return };
        let text = stderr(&output);
        assert!(output.status.code() == Some(125) && text.contains("the kernel"), "{text}");
        // tracefs may be refused first.
        assert!(text.contains("in a user namespace") || text.contains("tracefs"), "{source}: {text}");
        assert!(source == "perf" || text.contains("in a user namespace"), "{text}");
    }
}

/// The kernel takes seconds to close the events: a process of its own waits for it, in a container
/// too if its first process takes up orphans, as a shell does. Where it does not, samara waits.
#[test]
fn a_container_takes_up_what_closes_the_events() {
    let dir = tempfile::tempdir().unwrap();
    let source =
        "#include <sys/wait.h>\n#include <unistd.h>\nint main(int argc, char **argv) { int status, child = fork();
        if (!child) execvp(argv[1], argv + 1);
        return waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : 1; }";
    if !compiled(dir.path(), "first", source, &[]) {
        return;
    }
    let script = format!(
        "'{}' trace --source bpf -o t.samara -- true; code=$?
        for i in 1 2 3 4 5; do grep -l samara-close /proc/[0-9]*/comm && break; sleep 0.1; done; exit $code",
        env!("CARGO_BIN_EXE_samara")
    );
    for (first, apart) in [(&["sh", "-c"][..], true), (&["./first", "sh", "-c"], false)] {
        let mut command = Command::new("unshare");
        command.args(["-pf", "--mount-proc"]).args(first).arg(&script).current_dir(dir.path());
        let Some(output) = unshared(&mut command) else { return };
        if !allowed(&output) {
            return;
        }
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(!stdout(&output).is_empty(), apart, "{first:?}: {}", stdout(&output));
    }
}

/// A job of a shell stops as a whole: the shell would wait for samara for ever.
#[test]
fn it_stops_with_the_program_and_continues_it() {
    use nix::sys::signal::{Signal, killpg};
    use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
    use nix::unistd::Pid;
    use std::os::unix::process::CommandExt;

    let dir = tempfile::tempdir().unwrap();
    if !allowed(&run(dir.path(), &["trace", "--no-stop", "-q", "-o", "t.samara", "--", "true"])) {
        return;
    }
    for signal in [Signal::SIGSTOP, Signal::SIGTSTP] {
        let script = format!("kill -{} $$; exit 4", signal as i32);
        let mut command = samara();
        command.args(["trace", "--no-stop", "-q", "-o", "t.samara", "--", "sh", "-c", &script]);
        #[expect(clippy::zombie_processes, reason = "it is waited for by its number")]
        let job = command.current_dir(dir.path()).process_group(0).spawn().unwrap();
        let job = Pid::from_raw(job.id().cast_signed());
        assert_eq!(waitpid(job, Some(WaitPidFlag::WUNTRACED)).unwrap(), WaitStatus::Stopped(job, signal));
        killpg(job, Signal::SIGCONT).unwrap();
        assert_eq!(waitpid(job, None).unwrap(), WaitStatus::Exited(job, 4));
    }
}
