//! Where output goes: a recorder that is killed at any moment, a full device, FIFOs, the program's
//! own output; and very long arguments.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::samples::{run, said, samara, stderr, stdout};
use crate::skip::skipped;

fn fifo(path: &Path) -> bool {
    Command::new("mkfifo").arg(path).status().is_ok_and(|status| status.success())
}

/// A signal to the recorder after it has moved the older trace aside: the older one is put back, or
/// the new one is complete. No other file is left.
#[test]
fn a_signal_at_the_beginning_leaves_no_trace_aside() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.samara");
    let (_, older) = crate::samples::trace(dir.path());
    let names = || -> Vec<String> {
        std::fs::read_dir(dir.path()).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
    };
    let mut put_back = 0;
    for round in 0..24 {
        std::fs::write(&path, &older).unwrap();
        let command = [&["trace", "-q", "-o", "t.samara", "--"][..], &["run", "-q", "-o", "t.samara", "--"]][round % 2];
        let mut child = samara().current_dir(dir.path()).args(command).args(["sleep", "0.05"]).spawn().unwrap();
        while !names().iter().any(|name| name.ends_with(".old")) && child.try_wait().unwrap().is_none() {}
        std::thread::sleep(Duration::from_millis(round as u64 / 2));
        let signal = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT][round / 2 % 4];
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), signal);
        let status = child.wait().unwrap();
        assert_eq!(names(), ["t.samara"], "{signal} {command:?}: {status}");
        match std::fs::read(&path).unwrap() == older {
            true => {
                assert!(!status.success(), "{signal} {command:?}: {status}");
                put_back += 1;
            }
            false => {
                let summary = run(dir.path(), &["summary", "t.samara"]);
                assert!(summary.status.success(), "{signal} {command:?}: {status}: {}", said(&summary));
            }
        }
    }
    assert!(put_back > 0, "no signal came early enough");
}

/// From its start on, the recorder is killed at random moments: once the program can have run, the
/// name does not refer to the older trace, and its file, if any, is a trace that ends early.
#[test]
fn a_recorder_that_is_killed_leaves_no_older_trace() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.samara");
    let (_, older) = crate::samples::trace(dir.path());
    let mut found = [0; 3];
    for round in 0..60 {
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
        std::fs::write(&path, &older).unwrap();
        let mut child = samara()
            .current_dir(dir.path())
            .args(["trace", "-q", "-o", "t.samara", "--", "sh", "-c", "echo >ran; sleep 5"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // From the first instruction to some time after the program has begun.
        std::thread::sleep(Duration::from_micros(fastrand::u64(..(round + 1) * 2500)));
        let ran = dir.path().join("ran").exists();
        child.kill().unwrap();
        child.wait().unwrap();
        let now = std::fs::read(&path).unwrap_or_default();
        if now == older {
            assert!(!ran, "round {round}: the program ran, and the older trace is there, whole");
            found[0] += 1;
        } else {
            let events = run(dir.path(), &["events", "t.samara"]);
            let begun = events.status.code() == Some(3) && stderr(&events).contains("ends early");
            let nothing = now.is_empty() && !ran;
            assert!(begun || nothing, "round {round}: {}", said(&events));
            // The older trace, if it was not removed yet, is next to it.
            let aside = std::fs::read_dir(dir.path()).unwrap().map(Result::unwrap);
            let aside: Vec<_> = aside.filter(|e| e.file_name().to_string_lossy().ends_with(".old")).collect();
            assert!(aside.len() <= 1 && (ran || !aside.is_empty() || begun));
            aside.iter().for_each(|entry| assert_eq!(std::fs::read(entry.path()).unwrap(), older));
            found[1 + usize::from(ran)] += 1;
        }
    }
    println!("older {}, new before the program ran {}, after {}", found[0], found[1], found[2]);
    assert!(found[1] + found[2] > 0, "{found:?}");
}

/// A new trace takes the older one's permissions. An older one that cannot be moved aside is
/// emptied. No other file is left.
#[test]
fn an_older_file_is_replaced_like_for_like() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.samara");
    std::fs::write(&path, "older").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let before = path.metadata().unwrap();
    for program in ["no-such-program-here", "true"] {
        run(dir.path(), &["trace", "-q", "-o", "t.samara", "--", program]);
        let now = path.metadata().unwrap();
        assert_eq!((now.mode(), now.uid(), now.gid()), (before.mode(), before.uid(), before.gid()));
        assert_eq!(now.ino() == before.ino(), program != "true", "{program}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no other file is left");
    }
    assert_eq!(run(dir.path(), &["events", "t.samara"]).status.code(), Some(0));
}

/// With too few descriptors for a new trace the older one stays, under its name.
#[test]
fn an_older_trace_stays_where_descriptors_run_out() {
    let dir = tempfile::tempdir().unwrap();
    let mut refused = 0;
    for most in 4..14 {
        std::fs::write(dir.path().join("t.samara"), "older").unwrap();
        let output = shell(dir.path(), &format!("ulimit -n {most}; exec $S trace -q -o t.samara -- true"));
        if output.status.code() == Some(0) {
            break;
        }
        assert_eq!(std::fs::read(dir.path().join("t.samara")).unwrap(), b"older", "{most}: {}", said(&output));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "{most}: no other file is left");
        refused += 1;
    }
    assert!(refused > 0);
}

/// Commands that print, each in every form of its output.
const PRINT: [&[&str]; 33] = [
    &["help"],
    &["--help"],
    &["-h"],
    &["--version"],
    &["help", "trace"],
    &["show", "--help"],
    &["completions", "bash"],
    &["show", "t.samara"],
    &["show", "t.samara", "--reasons"],
    &["events", "t.samara"],
    &["events", "t.samara", "--json"],
    &["summary", "t.samara"],
    &["summary", "t.samara", "--json"],
    &["who", "t.samara", "600000"],
    &["who", "t.samara", "600000", "--json"],
    &["why", "t.samara"],
    &["why", "t.samara", "--json"],
    &["why", "t.samara", "--folded"],
    &["diff", "t.samara", "t.samara"],
    &["report", "t.samara", "--json"],
    &["report", "t.samara", "-o", "-"],
    &["replay", "t.samara"],
    &["replay", "t.samara", "--json"],
    &["export", "t.samara", "--csv"],
    &["export", "t.samara", "--folded"],
    &["export", "t.samara", "--firefox", "-"],
    &["export", "t.samara", "--perfetto", "-"],
    &["export", "t.samara", "--pprof", "-"],
    &["fleet", "all", "--sql"],
    &["inspect", "/proc/self/maps"],
    &["inspect", "/proc/self/maps", "--json"],
    &["check", "--ops", "1"],
    &["check", "--ops", "1", "--json"],
];

#[test]
fn a_full_output_is_an_error_of_every_command() {
    let dir = tempfile::tempdir().unwrap();
    crate::samples::trace(dir.path());
    for args in PRINT {
        let full = File::create("/dev/full").unwrap();
        let output = samara().current_dir(dir.path()).args(args).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", said(&output));
        // If nothing can be checked, the message says so.
        let why = stderr(&output);
        assert!(why.contains("No space left") || args[0] == "check", "{args:?}: {why}");
        let mut closed = samara().current_dir(dir.path()).args(args).stdout(Stdio::piped()).spawn().unwrap();
        drop(closed.stdout.take());
        if args[0] != "check" {
            assert!(closed.wait().unwrap().success(), "{args:?}: a reader that goes away");
        } else {
            closed.wait().unwrap();
        }
    }
}

/// Standard output that is closed when samara starts (`>&-`): nothing can be printed, which is an
/// error, although Rust opens /dev/null in its place. A recording prints nothing there.
#[test]
fn a_closed_output_is_an_error_of_every_command() {
    let dir = tempfile::tempdir().unwrap();
    crate::samples::trace(dir.path());
    let closed = |args: &[&str]| {
        let samara = env!("CARGO_BIN_EXE_samara");
        let close = "exec \"$0\" \"$@\" >&-";
        Command::new("sh").current_dir(dir.path()).args(["-c", close, samara]).args(args).output().unwrap()
    };
    for args in PRINT {
        let output = closed(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", said(&output));
        assert!(stderr(&output).contains("Bad file descriptor"), "{args:?}: {}", said(&output));
    }
    for args in [&["export", "t.samara", "--csv", "t.csv"][..], &["report", "t.samara", "-o", "t.html"]] {
        let output = closed(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", said(&output));
    }
    let output = closed(&["trace", "-q", "-o", "new.samara", "--", "true"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    // An open /dev/null takes all output.
    let nowhere = File::options().read(true).write(true).open("/dev/null").unwrap();
    let output = samara().current_dir(dir.path()).args(["events", "t.samara"]).stdout(nowhere).output().unwrap();
    assert_eq!(said(&output), "exit code: Some(0)\n--- stdout\n--- stderr\n");
}

/// A FIFO whose other end is not open: samara prints what it waits for, and continues when the
/// other end is opened.
#[test]
fn a_fifo_that_waits_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fifo");
    if !fifo(&path) {
        return skipped("mkfifo cannot be run");
    }
    let start = |args: &[&str]| {
        let mut child =
            samara().current_dir(dir.path()).args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        err.read_line(&mut line).unwrap();
        (child, line, err)
    };
    let (mut child, line, _err) = start(&["trace", "-q", "-o", "fifo", "--", "true"]);
    assert_eq!(line, "samara: fifo: waiting for a reader of this FIFO\n");
    let mut trace = Vec::new();
    File::open(&path).unwrap().read_to_end(&mut trace).unwrap();
    assert!(child.wait().unwrap().success());
    let reader = samara_trace::file::TraceReader::new(trace.as_slice()).unwrap();
    assert!(reader.map(Result::unwrap).count() > 10);

    let (child, line, _err) = start(&["events", "fifo"]);
    assert_eq!(line, "samara: fifo: waiting for a writer of this FIFO\n");
    std::fs::write(&path, &trace).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && stdout(&output).lines().count() > 10);
}

/// A trace cannot be written to the program's output.
#[test]
fn the_program_s_output_is_no_place_for_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    std::fs::write(&out, "older").unwrap();
    for target in ["/dev/stdout", "/dev/fd/1", "out"] {
        let file = File::options().write(true).open(&out).unwrap();
        let args = ["trace", "-o", target, "--", "touch", "ran"];
        let output = samara().current_dir(dir.path()).args(args).stdout(file).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(stderr(&output).contains("is the program's output"), "{}", said(&output));
    }
    let output = run(dir.path(), &["trace", "-o", "/dev/stderr", "--", "touch", "ran"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert_eq!(std::fs::read(&out).unwrap(), b"older");
    assert!(!dir.path().join("ran").exists());
}

/// The maximum number of arguments of Linux, of bytes that take most room: the trace can be read,
/// and has the number of arguments left out.
#[test]
fn megabytes_of_arguments_are_recorded_in_part() {
    let dir = tempfile::tempdir().unwrap();
    let long = "\u{1}".repeat(100_000);
    let args: Vec<&str> = ["trace", "-q", "-o", "t.samara", "--", "true"].into_iter().chain([&*long; 18]).collect();
    let output = run(dir.path(), &args);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(run(dir.path(), &["show", "t.samara"]).status.success());
    let reader = samara_trace::file::TraceReader::new(File::open(dir.path().join("t.samara")).unwrap()).unwrap();
    let header = reader.header();
    assert_eq!((header.args.len() as u64 + header.args_left_out, &*header.args[0]), (18, &*long));
    assert!(header.args_left_out > 0);
}

/// Runs a shell script, in which `$S` is the command.
fn shell(dir: &Path, script: &str) -> std::process::Output {
    Command::new("bash").current_dir(dir).env("S", env!("CARGO_BIN_EXE_samara")).args(["-c", script]).output().unwrap()
}

/// The mode of everything below a directory, by name.
fn modes(dir: &Path) -> Vec<(String, u32)> {
    let mut all: Vec<(String, u32)> = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let of = entry.metadata().unwrap();
        all.push((entry.path().display().to_string(), of.mode() & 0o7777));
        if of.is_dir() {
            all.extend(modes(&entry.path()));
        }
    }
    all.sort();
    all
}

/// Whatever the umask is, only the owner may read the files; with `--readable` the umask decides.
#[test]
fn only_their_owner_may_read_files() {
    for umask in [0o000, 0o077, 0o027, 0o777] {
        // With umask 0777 the owner could not enter a folder.
        let readable = (umask != 0o777).then_some(("--readable", 0o666 & !umask, 0o777 & !umask));
        for (option, file, folder) in [("", 0o600, 0o700)].into_iter().chain(readable) {
            let dir = tempfile::tempdir().unwrap();
            let script = format!(
                "umask {umask:o}; set -e
                $S trace -q {option} --report --summary-json s.json -- true
                $S trace -q {option} -o t.samara -- true
                $S run -q {option} -o r.samara --summary-json r.json -- true
                $S report t.samara {option}
                $S report t.samara {option} -o o.html
                $S export t.samara {option} --csv c --folded f --pprof p --firefox x.gz --perfetto e --parquet all"
            );
            let output = shell(dir.path(), &script);
            assert_eq!(output.status.code(), Some(0), "{}", said(&output));
            let all = modes(dir.path());
            assert!(all.len() >= 24, "{all:?}");
            for (name, mode) in all {
                let expected = if Path::new(&name).is_dir() { folder } else { file };
                assert_eq!(mode, expected, "{name}: {mode:o} with umask {umask:o} and {option:?}");
            }
        }
    }
}

/// A name that samara chose: existing links, files and FIFOs with it stay as they are, and the
/// trace and its page get other names.
#[test]
fn a_chosen_name_takes_over_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(dir.path().join("precious"), "precious").unwrap();
    let script = "ln -s ../precious true-$$.samara; echo planted >true-$$-2.samara; mkfifo true-$$-3.samara
        ln -s ../precious true-$$-4.html; ln -s ../precious report.html; echo $$ >pid
        exec $S trace --report -- true";
    let output = shell(&folder, script);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let pid = std::fs::read_to_string(folder.join("pid")).unwrap();
    let pid = pid.trim();
    assert!(stderr(&output).contains(&format!("true-{pid}-4.samara")), "{}", said(&output));
    assert!(stderr(&output).contains(&format!("wrote true-{pid}-4-2.html")), "{}", said(&output));
    let trace = format!("true-{pid}-4.samara");
    assert_eq!(run(&folder, &["events", &trace]).status.code(), Some(0));
    // The page of `report`: another name for the link, its own page replaced.
    for _ in 0..2 {
        let output = run(&folder, &["report", &trace]);
        assert!(stderr(&output).contains("wrote report-2.html:"), "{}", said(&output));
    }
    assert_eq!(std::fs::read_to_string(dir.path().join("precious")).unwrap(), "precious");
    assert_eq!(std::fs::read_to_string(folder.join(format!("true-{pid}-2.samara"))).unwrap(), "planted\n");
    assert!(folder.join("report.html").is_symlink() && !folder.join("report-3.html").exists());
    // If the program cannot run, no file is left.
    let before = modes(&folder).len();
    let output = run(&folder, &["trace", "--report", "--", "/no/such/program"]);
    assert_eq!((output.status.code(), modes(&folder).len()), (Some(127), before), "{}", said(&output));
}

/// A file that is a mount point cannot be replaced: it is emptied and written to.
#[test]
fn a_file_that_is_mounted_is_written_to_itself() {
    let dir = tempfile::tempdir().unwrap();
    let script = "echo older >a; echo older >b; echo older >c; cp a A; cp b B; cp c C
        mount --bind A a && mount --bind B b && mount --bind C c || exit 99
        $S trace -q -o a --summary-json b -- /no/such/program && exit 1
        ! grep -q older a && grep -q older b || exit 2
        $S trace -q -o a --summary-json b -- true && $S events a >/dev/null && grep -q areas_peak b || exit 3
        $S export a --csv c && grep -q ^seq c || exit 4";
    let mut unshare = Command::new("unshare");
    unshare.args(["-m", "bash", "-c", script]).current_dir(dir.path()).env("S", env!("CARGO_BIN_EXE_samara"));
    match unshare.output() {
        Ok(output) if output.status.code() == Some(0) => {}
        Ok(output) if output.status.code() == Some(99) || stderr(&output).contains("unshare") => {
            return skipped("this user may not mount files");
        }
        Ok(output) => panic!("{}", said(&output)),
        Err(_) => return skipped("unshare cannot be run"),
    }
    for name in ["A", "B", "C"] {
        let bytes = std::fs::read(dir.path().join(name)).unwrap();
        assert!(!bytes.is_empty() && !bytes.starts_with(b"older"), "{name} is what was mounted");
    }
    assert_eq!(modes(dir.path()).len(), 6, "nothing else is left");
}
