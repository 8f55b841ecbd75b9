//! Recorders in separate processes, and their programs, under signals, shells, limits and seccomp
//! filters. `traced_programs --record...` is such a recorder.

use libtest_mimic::Failed;
use samara_record::{Options, Outcome, record};
use samara_trace::event::{Event, EventKind, Resident};

use crate::{check, expect, syscalls};

pub(crate) type Body = fn() -> Result<(), Failed>;

pub(crate) const TRIALS: &[(&str, Body)] = &[
    ("recorder_killed", recorder_killed),
    ("recorder_asked_to_end", recorder_asked_to_end),
    ("recorder_asked_to_end_while_busy", recorder_asked_while_busy),
    ("recorder_with_children_of_its_own", foreign_child),
    ("recorder_without_process_vm_readv", blind),
    ("recorder_under_job_control", job_control),
    ("recorder_stops_with_its_program", stops_itself),
    ("recorder_with_all_signals_blocked", || helped("--record-deaf")),
    ("recorder_without_timers", || helped("--record-timeless")),
    ("inherited", inherited),
    ("too_few_files", too_few_files),
    ("resident_memory", resident_memory),
    ("set_user_id", set_user_id),
    ("not_to_be_read_by_this_user", unreadable),
    ("file_capabilities", file_capabilities),
    ("tracers_are_refused", tracers),
    ("strict_mode_is_refused", strict_mode),
];

/// Runs as a recorder, if the arguments ask for it: its exit code.
pub(crate) fn mode(args: &[String]) -> Option<std::process::ExitCode> {
    if args.get(1).is_some_and(|a| a == "--record") {
        let options = Options::new(&args[0]).args(["--program"]).args(&args[2..]);
        let signal = record(&options, &mut Vec::new()).map_or(1, |o| o.status.signal().unwrap_or(0) as u8);
        return Some(std::process::ExitCode::from(signal));
    }
    if let Some(mode) = args.get(1).filter(|a| *a == "--record-deaf" || *a == "--record-timeless") {
        if mode == "--record-deaf" {
            syscalls::block_signals()
        } else {
            syscalls::no_timers()
        }
        let outcome = record(&Options::new(&args[0]).args(["--program", "helped"]), &mut Vec::new());
        let code = outcome.map(|o| if o.counters.differences == 0 { o.status.code().unwrap_or(1) as u8 } else { 2 });
        return Some(std::process::ExitCode::from(code.unwrap_or(3)));
    }
    if args.get(1).is_some_and(|a| a == "--record-any") {
        let outcome = record(&Options::new(&args[2]).args(&args[3..]), &mut Vec::new());
        return Some(std::process::ExitCode::from(u8::from(outcome.is_err())));
    }
    if args.get(1).is_some_and(|a| a == "--record-notes") {
        let mut options = Options::new(&args[3]).args(&args[4..]);
        options.engine = (args[2] == "decided").then(Default::default);
        let mut events = Vec::new();
        let Ok(outcome) = record(&options, &mut events) else { return Some(std::process::ExitCode::from(2)) };
        println!("differences {}", outcome.counters.differences);
        println!("areas {}", events.iter().map(|e| e.areas.len()).sum::<usize>());
        println!("decided {}", outcome.counters.decisions.map_or(0, |d| d.decided));
        outcome.counters.notes.iter().for_each(|note| println!("note {note}"));
        return Some(std::process::ExitCode::from(u8::from(!outcome.status.success())));
    }
    if args.get(1).is_some_and(|a| a == "--record-without-noreplace") {
        syscalls::allow_map_flags(!libc::MAP_FIXED_NOREPLACE);
        let mut options = Options::new(&args[0]).args(["--program"]).args(&args[2..]);
        options.engine = Some(Default::default());
        let outcome = record(&options, &mut Vec::new());
        let Ok(outcome) = outcome else { return Some(std::process::ExitCode::from(2)) };
        let refused = outcome.counters.decisions.map_or(0, |d| d.places_refused);
        println!("{refused} places refused, {} differences, {}", outcome.counters.differences, outcome.status);
        return Some(std::process::ExitCode::SUCCESS);
    }
    if args.get(1).is_some_and(|a| a == "--record-files") {
        let outcome = record(&Options::new(&args[0]).args(["--program", "siblings"]), &mut Vec::new());
        let told = |n: &String| n.contains("could not be compared") && n.contains("os error 24");
        return Some(std::process::ExitCode::from(match outcome {
            Ok(o) if o.status.success() && o.counters.notes.iter().any(told) => 0,
            Ok(_) => 1,
            Err(e) if e.to_string().contains("os error 24") => 2,
            Err(_) => 3,
        }));
    }
    if args.get(1).is_some_and(|a| a == "--record-plain") {
        syscalls::no_new_privileges();
        let outcome = record(&Options::new(&args[2]), &mut Vec::new());
        let noted = outcome.map(|o| o.counters.notes.iter().any(|n| n.contains("set-group-ID")));
        return Some(std::process::ExitCode::from(noted.map_or(2, u8::from)));
    }
    if args.get(1).is_some_and(|a| a == "--record-blind") {
        syscalls::forbid(libc::SYS_process_vm_readv as u32);
        let options = Options::new(&args[0]).args(["--program"]).args(&args[2..]);
        let one_process = |o: Outcome| o.status.success() && o.counters.processes == 1 && o.counters.differences == 0;
        return Some(std::process::ExitCode::from(u8::from(!record(&options, &mut Vec::new()).is_ok_and(one_process))));
    }
    None
}

/// Time limit for work of one second, far above the time on a busy machine. Programs that must not
/// be waited for run twice as long.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(300);

/// Records a program that sleeps, in a new process: that process, and the program's id.
fn recorder(program: &str) -> Result<(std::process::Child, i32), Failed> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("pid");
    let mut recorder =
        std::process::Command::new(std::env::current_exe()?).args(["--record", program]).arg(&file).spawn()?;
    let begin = std::time::Instant::now();
    while begin.elapsed() < PATIENCE {
        let pid = std::fs::read_to_string(&file).ok().and_then(|t| t.parse().ok());
        if let Some(pid) = pid {
            return Ok((recorder, pid));
        }
        if let Some(status) = recorder.try_wait()? {
            return Err(format!("the recorder ended before its program started: {status}").into());
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    recorder.kill()?;
    recorder.wait()?;
    Err("the program did not start".into())
}

/// Whether a process runs (a zombie does not).
fn runs(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, tail)| !tail.starts_with(['Z', 'X']))
}

fn recorder_killed() -> Result<(), Failed> {
    let (mut recorder, pid) = recorder("sleep")?;
    expect("it runs", runs(pid))?;
    recorder.kill()?;
    recorder.wait()?;
    crate::attaching::wait_until("the program ends with its recorder", || Ok(!runs(pid)))
}

fn recorder_asked_to_end() -> Result<(), Failed> {
    let (mut recorder, pid) = recorder("sleep")?;
    syscalls::kill(recorder.id() as i32, libc::SIGTERM);
    let status = recorder.wait()?;
    expect(&format!("SIGTERM is passed on: {status}"), status.code() == Some(libc::SIGTERM) && !runs(pid))
}

/// Signals that come at any moment of a busy recorder are not lost.
fn recorder_asked_while_busy() -> Result<(), Failed> {
    for i in 0..3 {
        let (mut recorder, pid) = recorder("long-check")?;
        std::thread::sleep(std::time::Duration::from_millis(2 + 5 * i));
        let asked = std::time::Instant::now();
        syscalls::kill(recorder.id() as i32, libc::SIGTERM);
        let status = recorder.wait()?;
        let soon = asked.elapsed() < PATIENCE;
        expect(&format!("{i}: {status}"), soon && status.code() == Some(libc::SIGTERM) && !runs(pid))?;
    }
    Ok(())
}

/// A child that the recorder's process had before is left alone.
fn foreign_child() -> Result<(), Failed> {
    let begin = std::time::Instant::now();
    let script = "sleep 600 2>/dev/null & exec \"$0\" --record forks";
    let mut command = std::process::Command::new("sh");
    let status =
        command.args(["-c", script]).arg(std::env::current_exe()?).stdout(std::process::Stdio::null()).status()?;
    expect("recorded", status.success())?;
    expect("not waited for", begin.elapsed() < PATIENCE)
}

/// Where a filter forbids the recorder to read memory the quick way, threads are still threads.
fn blind() -> Result<(), Failed> {
    let status = std::process::Command::new(std::env::current_exe()?).args(["--record-blind", "threads"]).status()?;
    expect("threads are no processes, and nothing differs", status.success())
}

/// Types at a shell in a new terminal. `keys` is a shell script that prints the keys. It waits for
/// the condition of each, however slow the machine is: `seen N TEXT` waits until the terminal has
/// shown TEXT in N lines, `until_ shell` until the shell has the terminal, `until_ front PID` until
/// the group of a process has it and the process sleeps. Returns the terminal's text, and the
/// shell's exit code; `None` (and prints so) if `script` is missing.
fn typed(test: &str, keys: &str) -> Result<Option<(String, Option<i32>)>, Failed> {
    let found =
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).any(|d| d.join("script").is_file());
    if !found {
        expect("`script` is required", std::env::var_os("SAMARA_REQUIRE_PROGRAMS").is_none_or(|v| v != "1"))?;
        println!("skipped: {test}: `script` is not installed");
        return Ok(None);
    }
    let dir = tempfile::tempdir()?;
    let at = dir.path().display();
    let script = format!(
        "cd {at}; trap '' INT; until_() {{ for i in $(seq 3000); do \"$@\" 2>/dev/null && break; sleep 0.1; done; }}; \
         has() {{ [ \"$(grep -c -e \"$2\" typed)\" -ge $1 ]; }}; seen() {{ until_ has \"$@\"; }}; \
         shell() {{ awk '$5 == $8' /proc/$(cat shell)/stat | grep -q .; }}; over() {{ ! [ -d /proc/$(cat shell) ]; }}; \
         front() {{ awk '$3 == \"S\" && $5 == $8' /proc/$1/stat | grep -q .; }}; \
         ( seen 1 'bash-[0-9]'; until_ shell; {keys}; until_ over ) | TERM=dumb timeout --foreground -k 1 900 script -qefc \
         'echo $$ > shell; exec env --default-signal=INT bash --norc --noprofile -i' typed > out"
    );
    let status = std::process::Command::new("bash").args(["-c", &script]).status()?;
    let typed = String::from_utf8_lossy(&std::fs::read(dir.path().join("typed"))?).into_owned();
    Ok(Some((typed, status.code())))
}

/// A recorder as a shell's job: ^Z stops it and the program, `fg` continues both, ^C ends the
/// program.
fn job_control() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    let me = std::env::current_exe()?;
    let keys = format!(
        "echo '{} --record sleep {at}/pid'; until_ test -s {at}/pid; until_ front $(cat {at}/pid); printf '\\032'; \
         seen 1 Stopped; until_ shell; printf 'fg\\n'; until_ front $(cat {at}/pid); printf '\\003'; until_ shell; \
         echo 'echo was $?'; seen 1 'was [0-9]'; echo 'exit 5'",
        me.display(),
        at = dir.path().display()
    );
    let Some((typed, code)) = typed("recorder_under_job_control", &keys)? else { return Ok(()) };
    expect(&format!("stopped and continued: {typed}"), typed.contains("Stopped") && typed.contains("was 2"))?;
    expect("the shell's own exit code", code == Some(5))
}

/// A program that stops itself: the shell sees it, and a SIGCONT to the recorder (to it alone, the
/// last time) continues the program.
fn stops_itself() -> Result<(), Failed> {
    let me = std::env::current_exe()?;
    let me = me.display();
    let (stop, tstp) = (libc::SIGSTOP, libc::SIGTSTP);
    let keys = format!(
        "echo '{me} --record stop-self {stop}'; seen 1 Stopped; until_ shell; echo 'echo was $?; fg'; \
         seen 1 'went on'; until_ shell; echo '{me} --record stop-self {tstp}'; seen 2 Stopped; until_ shell; \
         echo 'echo was $?; kill -CONT $(jobs -p); wait'; seen 2 'went on'; until_ shell; echo 'exit 5'"
    );
    let Some((typed, code)) = typed("recorder_stops_with_its_program", &keys)? else { return Ok(()) };
    let count = |what: &str| typed.lines().filter(|l| l.trim_end().ends_with(what)).count();
    expect(&format!("stopped each time: {typed}"), count("was 147") == 1 && count("was 148") == 1)?;
    expect(&format!("continued each time: {typed}"), count("went on") == 2)?;
    expect("the shell's own exit code", code == Some(5))
}

/// A recorder without a timer still lets a call go on that another one waits for.
fn helped(how: &str) -> Result<(), Failed> {
    let mut recorder = std::process::Command::new(std::env::current_exe()?).arg(how).spawn()?;
    let begin = std::time::Instant::now();
    while begin.elapsed() < PATIENCE {
        if let Some(status) = recorder.try_wait()? {
            if status.code() == Some(7) {
                println!("skipped: {how}: no userfaultfd here");
                return Ok(());
            }
            return expect(&format!("recorded: {status}"), status.success());
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    recorder.kill()?;
    recorder.wait()?;
    Err("the program and its recorder wait for one another".into())
}

/// The program inherits the recorder's state at its start: an ignored SIGPIPE, a closed standard
/// input; or neither.
fn inherited() -> Result<(), Failed> {
    let inner = "if [ -e /proc/$$/fd/0 ]; then echo open; else echo closed; fi; kill -PIPE $$; echo ignored";
    let cases = [("", "open\n"), ("trap '' PIPE;", "open\nignored\n"), ("exec 0<&-;", "closed\n")];
    for (before, expected) in cases {
        let script = format!("{before} exec \"$0\" --record-any sh -c '{inner}'");
        let mut command = std::process::Command::new("sh");
        let output = command.args(["-c", &script]).arg(std::env::current_exe()?).output()?;
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        expect(&format!("{before} gives {output}"), output == expected)?;
    }
    Ok(())
}

/// The kernel's counts are those of the calls, to the page.
fn resident_memory() -> Result<(), Failed> {
    let mut options = Options::new(std::env::current_exe()?).args(["--program", "resident"]);
    options.resident = true;
    let mut events: Vec<Event> = Vec::new();
    let outcome = record(&options, &mut events)?;
    check(&events, &outcome)?;
    let is_call = |event: &&Event| event.kind == EventKind::Call;
    expect("each call", events.iter().filter(is_call).all(|event| event.resident.is_some()))?;
    let changes = |nr: libc::c_long, change: fn(&Resident) -> i64| -> Vec<i64> {
        let of = events.iter().filter(|event| event.nr == Some(nr as u32));
        of.filter_map(|event| event.resident.as_ref().map(change)).filter(|pages| *pages != 0).collect()
    };
    let private = |r: &Resident| r.private_change / 4096;
    let files = |r: &Resident| r.files_change / 4096;
    let (mapped, advised) = (changes(libc::SYS_mmap, private), changes(libc::SYS_madvise, private));
    expect(&format!("populated: {mapped:?}"), mapped.contains(&64))?;
    expect(&format!("given back: {advised:?}"), advised == [-16])?;
    let unmapped = changes(libc::SYS_munmap, private);
    expect(&format!("half of it had been given back: {unmapped:?}"), unmapped.contains(&-8))?;
    let (shown, gone) = (changes(libc::SYS_mmap, files), changes(libc::SYS_munmap, files));
    expect(&format!("of files: {shown:?} {gone:?}"), shown.contains(&32) && gone.contains(&-32))
}

/// Spaces whose maps could not be opened are reported.
fn too_few_files() -> Result<(), Failed> {
    // Three files are open, and nine spaces live at once: each limit is too low for all of them.
    // Missing files are reported; if not even the start was possible, as an error.
    let mut noted = 0;
    for limit in 4..=11 {
        let mut command = std::process::Command::new(std::env::current_exe()?);
        let status = syscalls::with_files_up_to(command.arg("--record-files"), limit).status()?;
        expect(
            &format!("limit {limit}: a note or an error says why ({status})"),
            matches!(status.code(), Some(0 | 2)),
        )?;
        noted += u32::from(status.success());
    }
    expect("a note says how many spaces, and why", noted > 0)
}

/// A set-group-ID program that does not get its group says so in a note. Here no_new_privs takes it
/// from a root recorder too.
fn set_user_id() -> Result<(), Failed> {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("true");
    std::fs::copy("/bin/true", &file)?;
    std::os::unix::fs::chown(&file, None, Some(1)).ok();
    let note = |file: &std::path::Path| -> Result<bool, Failed> {
        let status = std::process::Command::new(std::env::current_exe()?).arg("--record-plain").arg(file).status()?;
        Ok(status.code() == Some(1))
    };
    expect("an ordinary program: no note", !note(&file)?)?;
    if std::os::unix::fs::MetadataExt::gid(&file.metadata()?) != 1 {
        println!("skipped: set_user_id: only root can make a file of another group");
        return Ok(());
    }
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o2755))?;
    expect("a note", note(&file)?)
}

/// A copy of this binary that others may run, and a program of ours, in a folder that they may
/// search.
fn for_others(dir: &std::path::Path) -> Result<Option<[std::path::PathBuf; 2]>, Failed> {
    use std::os::unix::fs::PermissionsExt;
    let (own, mode) = (dir.join("own"), |mode| std::fs::Permissions::from_mode(mode));
    std::fs::set_permissions(dir, mode(0o755))?;
    std::fs::copy(std::env::current_exe()?, &own)?;
    std::fs::set_permissions(&own, mode(0o755))?;
    let Some(program) = crate::placement::build(dir, "program", &["-static", "-fno-pie"]) else { return Ok(None) };
    std::fs::set_permissions(&program, mode(0o111))?;
    Ok(Some([own, program]))
}

/// The notes of a recorder without privileges on a program that it runs; `None`: no such recorder
/// runs here.
fn noted_by_others(own: &std::path::Path, args: &[&str]) -> Result<Option<String>, Failed> {
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    let mut command = std::process::Command::new(own);
    if syscalls::call(libc::SYS_geteuid, [0; 6]) == 0 {
        command.uid(NOBODY).gid(NOBODY);
    }
    match command.arg("--record-notes").args(args).output() {
        Ok(out) if out.status.success() => Ok(Some(String::from_utf8_lossy(&out.stdout).into_owned())),
        Ok(out) => Err(format!("{args:?}: {}: {}", out.status, String::from_utf8_lossy(&out.stderr)).into()),
        Err(why) => {
            println!("skipped: another user may not run what is in the folder for temporary files: {why}");
            Ok(None)
        }
    }
}

/// A program that its user may run and not read: nothing is made up, and that is reported once for
/// all its loads.
fn unreadable() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    let Some([own, program]) = for_others(dir.path())? else { return Ok(()) };
    let script = format!("for i in 1 2 3; do {} deep || exit 1; done", program.display());
    for how in ["recorded", "decided"] {
        let Some(one) = noted_by_others(&own, &[how, &program.to_string_lossy(), "deep"])? else { return Ok(()) };
        let lines: Vec<&str> = one.lines().collect();
        expect(&format!("{how}: {one}"), lines[..3] == ["differences 0", "areas 0", "decided 0"])?;
        let told = lines[3..].iter().filter(|l| l.contains("1 program is not to be read")).count();
        expect(&format!("{how}: reported once, and nothing else: {one}"), told == 1 && lines.len() == 4)?;
        let Some(three) = noted_by_others(&own, &[how, "sh", "-c", &script])? else { return Ok(()) };
        let told: Vec<&str> = three.lines().filter(|l| l.starts_with("note")).collect();
        let once = told.len() == 1 && told[0].contains("3 programs are not to be read");
        expect(&format!("{how}: {three}"), once && three.starts_with("differences 0\n"))?;
    }
    Ok(())
}

/// Capabilities that a program's file gives it are lost under a recorder without privileges, and
/// that is reported.
fn file_capabilities() -> Result<(), Failed> {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir()?;
    let Some([own, program]) = for_others(dir.path())? else { return Ok(()) };
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755))?;
    let set = std::process::Command::new("setcap").arg("cap_net_raw+ep").arg(&program).status();
    if !set.is_ok_and(|status| status.success()) {
        println!("skipped: file_capabilities: no setcap, or no leave to use it");
        return Ok(());
    }
    let script = format!("{0} deep && {0} deep", program.display());
    let Some(text) = noted_by_others(&own, &["decided", "sh", "-c", &script])? else { return Ok(()) };
    let told: Vec<&str> = text.lines().filter(|l| l.contains("file capabilities")).collect();
    expect(&text, told.len() == 1 && told[0].contains("2 programs have") && text.starts_with("differences 0\n"))
}

/// Processes that ask to be traced, as a debugger's do, are refused, and that is reported once.
fn tracers() -> Result<(), Failed> {
    let outcome =
        record(&Options::new(std::env::current_exe()?).args(["--program", "asks-to-trace"]), &mut Vec::new())?;
    let told: Vec<&String> = outcome.counters.notes.iter().filter(|n| n.contains("ptrace")).collect();
    let says = |note: &str| note.starts_with("3 ptrace calls were refused because samara traces the process already");
    expect(&format!("{told:?}"), outcome.status.success() && told.len() == 1 && says(told[0]))
}

/// Programs that ask for seccomp's strict mode do not get it, because the recorder has installed a
/// filter, and that is reported once. Without the recorder they get it.
fn strict_mode() -> Result<(), Failed> {
    let program =
        [std::env::current_exe()?.to_string_lossy().into_owned(), "--program".into(), "asks-for-strict-mode".into()];
    let alone = std::process::Command::new(&program[0]).args(&program[1..]).status()?;
    if alone.code() != Some(0) {
        println!("skipped: strict_mode: seccomp's strict mode is not to be had here");
        return Ok(());
    }
    let outcome = record(&Options::new(&program[0]).args(&program[1..]), &mut Vec::new())?;
    let told: Vec<&String> = outcome.counters.notes.iter().filter(|n| n.contains("strict")).collect();
    let refused = outcome.status.code() == Some(3);
    expect(&format!("{told:?}"), refused && told.len() == 1 && told[0].starts_with("2 requests"))
}
