//! Where maps lie when the engine decides: at the same addresses as untraced. gcc builds programs
//! of each kind from `placement.c` (static or not, position-independent or not, of 64 and 32 bits).
//! Each writes its maps, and all of them are compared.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use libtest_mimic::Failed;
use samara_record::{Engine, Options, record};

use crate::recorder::Body;
use crate::syscalls::*;
use crate::{check, expect};

#[allow(dead_code)]
#[path = "../../../samara-mm/tests/support/shmem_settings.rs"]
mod shmem;

pub(crate) const TRIALS: &[(&str, Body)] = &[
    ("places_are_the_kernels", as_the_kernel_places),
    ("places_are_the_kernels_in_huge_shared_memory", in_huge_shared_memory),
    ("a_static_programs_stack_grows_as_far", stacks_grow),
];

/// Arguments of gcc, by a name. Programs of 32 bits need no library.
const KINDS: &[(&str, &[&str])] = &[
    ("static", &["-static", "-fno-pie"]),
    ("static-pie", &["-static-pie", "-fPIE"]),
    ("static-pie-of-3-MiB", &["-static-pie", "-fPIE", "-DBIG"]),
    ("dynamic", &["-pie", "-fPIE"]),
    ("dynamic-at-a-fixed-place", &["-no-pie", "-fno-pie"]),
    ("static-32", &["-m32", "-static", "-fno-pie"]),
    ("static-pie-32", &["-m32", "-static-pie", "-fPIE"]),
];

/// `personality(2)`.
const FIXED: u64 = 0x4_0000;
const COMPAT: u64 = 0x20_0000;

/// Loads a program under a personality, with a given stack limit: `traced_programs --program as-if
/// PERSONALITY STACK PROGRAM ARGS`.
pub(crate) fn run(name: &str, args: &[String]) -> bool {
    if name == "asks-to-trace" {
        ask_to_trace();
        return true;
    }
    if name == "asks-for-strict-mode" {
        ask_for_strict_mode();
    }
    if name != "as-if" {
        return false;
    }
    let number = |text: &str| text.parse::<u64>().unwrap();
    assert!(call(libc::SYS_personality, [number(&args[0]), 0, 0, 0, 0, 0]) >= 0);
    let limits = [number(&args[1]), u64::MAX];
    let set = call(libc::SYS_prlimit64, [0, libc::RLIMIT_STACK.into(), limits.as_ptr() as u64, 0, 0, 0]);
    // Where the hard limit is lower, the soft one stays as well.
    assert!(set == 0 || set == -i64::from(libc::EPERM), "{set}");
    panic!("{}", Command::new(&args[2]).args(&args[3..]).exec());
}

/// Three processes that want a tracer, and have one.
fn ask_to_trace() {
    for _ in 0..3 {
        let child = fork();
        if child == 0 {
            // PTRACE_TRACEME.
            let refused = call(libc::SYS_ptrace, [0; 6]);
            exit(i32::from(refused != -i64::from(libc::EPERM)));
        }
        assert_eq!(wait(child, 0), 0);
    }
}

/// Two processes that ask for seccomp's strict mode, each in another way. Ends with 0 if both got
/// it, with 3 if both were refused with the error of a process that has a filter.
fn ask_for_strict_mode() -> ! {
    const PR_SET_SECCOMP: u64 = 22;
    const SECCOMP_MODE_STRICT: u64 = 1;
    let ways = [(libc::SYS_prctl, [PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0, 0]), (libc::SYS_seccomp, [0; 6])];
    let statuses = ways.map(|(nr, args)| {
        let child = fork();
        if child == 0 {
            match call(nr, args) {
                0 => end_thread(), // strict mode allows no other end
                refused => exit(if refused == -i64::from(libc::EINVAL) { 3 } else { 4 }),
            }
        }
        libc::WEXITSTATUS(wait(child, 0))
    });
    exit(if statuses[0] == statuses[1] { statuses[0] } else { 5 })
}

/// Builds a program of this kind. `None`: no gcc, or it cannot build this kind; prints so.
pub(crate) fn build(dir: &Path, name: &str, options: &[&str]) -> Option<PathBuf> {
    let (source, program) = (dir.join("placement.c"), dir.join(name));
    std::fs::write(&source, include_str!("placement.c")).ok()?;
    let plain = ["-O1", "-nostdlib", "-ffreestanding", "-fno-stack-protector", "-fcf-protection=none", "-o"];
    let made = Command::new("gcc").args(plain).arg(&program).args(options).arg(&source).output();
    match made {
        Ok(out) if out.status.success() => Some(program),
        Ok(out) => {
            println!("skipped: {name}: gcc makes no such program: {}", String::from_utf8_lossy(&out.stderr));
            None
        }
        Err(why) => {
            println!("skipped: {name}: no gcc: {why}");
            None
        }
    }
}

/// The output of the program, and of `more` generations of programs that it loads, with these
/// settings: without a recorder, and with the engine in charge.
fn both(dir: &Path, program: &Path, personality: u64, stack: u64, more: &str) -> Result<[String; 2], Failed> {
    let (out, file) = (dir.join("out"), dir.join("file"));
    std::fs::File::create(&file)?.set_len(64 << 20)?;
    let own = std::env::current_exe()?;
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let args = [
        "--program",
        "as-if",
        &personality.to_string(),
        &stack.to_string(),
        &path(program),
        "places",
        &path(&out),
        &path(&file),
        more,
    ];
    let reported = |status: ExitStatus| -> Result<String, Failed> {
        expect(&format!("{}: {status}", program.display()), status.success())?;
        let text = std::fs::read_to_string(&out)?;
        std::fs::remove_file(&out)?;
        Ok(text)
    };
    let bare = reported(Command::new(&own).args(args).status()?)?;
    let mut options = Options::new(own).args(args);
    options.engine = Some(Engine::default());
    let mut events = Vec::new();
    let outcome = record(&options, &mut events)?;
    check(&events, &outcome)?;
    Ok([bare, reported(outcome.status.ended().unwrap_or_default())?])
}

/// Without the numbers of the hidden files of shared memory, which are never the same.
fn lines(text: &str) -> Vec<String> {
    let hidden = |line: &str| line.contains(" /dev/zero (deleted)") || line.contains(" /memfd:");
    let fields = |line: &str| line.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let of = |line: &str| {
        let mut fields = fields(line);
        if hidden(line) {
            fields[4] = "0".into();
        }
        fields.join(" ")
    };
    text.lines().map(of).collect()
}

/// Compares all maps, line by line.
fn same(what: &str, [bare, run]: [String; 2]) -> Result<(), Failed> {
    let (bare, run) = (lines(&bare), lines(&run));
    let first = bare.iter().zip(&run).position(|(b, r)| b != r).unwrap_or(bare.len().min(run.len()));
    let show = |lines: &[String]| lines.get(first).cloned().unwrap_or_default();
    expect(&format!("{what}: the program tells its maps, {} lines", bare.len()), bare.len() > 50)?;
    let text = format!("{what}: line {first}: bare {:?}, decided {:?}", show(&bare), show(&run));
    expect(&text, bare == run)
}

fn as_the_kernel_places() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    for (kind, options) in KINDS {
        let Some(program) = build(dir.path(), kind, options) else { continue };
        if Command::new(&program).args(["deep"]).status().is_err() {
            println!("skipped: {kind}: this kernel runs no such programs");
            continue;
        }
        for personality in [FIXED, FIXED | COMPAT] {
            for stack in [8 << 20, 1 << 30, u64::MAX] {
                let what = format!("{kind}, personality {personality:#x}, a stack of {stack:#x}");
                same(&what, both(dir.path(), &program, personality, stack, "2")?)?;
            }
        }
    }
    Ok(())
}

/// The settings are the machine's: each is in force for as long as one program takes.
fn in_huge_shared_memory() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    let Some(program) = build(dir.path(), KINDS[0].0, KINDS[0].1) else { return Ok(()) };
    for values in shmem::VALUES {
        let reported = match shmem::Changed::to(values) {
            Ok(_changed) => both(dir.path(), &program, FIXED, 8 << 20, "0")?,
            Err(why) => {
                println!(
                    "skipped: places_are_the_kernels_in_huge_shared_memory: the settings cannot be written: {why}"
                );
                return Ok(());
            }
        };
        same(&format!("shmem_enabled {values:?}"), reported)?;
    }
    Ok(())
}

/// The running program raises its own limit: the kernel leaves room for a stack that begins
/// anywhere.
fn stacks_grow() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    for (kind, options) in KINDS {
        let Some(program) = build(dir.path(), kind, options) else { continue };
        let Ok(bare) = Command::new(&program).args(["deep"]).status() else { continue };
        let mut options = Options::new(program).args(["deep"]);
        options.engine = Some(Engine::default());
        let mut events = Vec::new();
        let outcome = record(&options, &mut events)?;
        check(&events, &outcome)?;
        expect(&format!("{kind}: bare {bare}, decided {}", outcome.status), Some(bare) == outcome.status.ended())?;
    }
    Ok(())
}
