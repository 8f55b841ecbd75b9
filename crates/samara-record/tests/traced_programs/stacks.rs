//! Call stacks: the recorded ones equal those that the program itself sees. gcc builds programs of
//! each kind from `stacks.c`, which asks `backtrace()` before each of its calls.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use libtest_mimic::Failed;
use samara_record::{Options, record};
use samara_trace::event::{Event, EventKind};
use samara_trace::file::{Frame, Function, Stack, StackEnd, Stacks};

use crate::expect;
use crate::recorder::Body;

pub(crate) const TRIALS: &[(&str, Body)] = &[
    ("stacks_are_those_of_backtrace", || as_backtrace_sees(&KINDS[..3])),
    ("stacks_of_more_builds", || as_backtrace_sees(&KINDS[3..])),
    ("stacks_of_other_languages", || of_other_languages(&OTHERS[..2])),
    ("stacks_of_other_languages_built_otherwise", || of_other_languages(&OTHERS[2..])),
    ("stacks_of_go", of_go),
    ("stacks_of_python", of_python),
    ("stacks_of_signal_handlers", signalled),
    ("stacks_of_split_debug_information", || split("-gdwarf-5")),
    ("stacks_of_split_debug_information_4", || split("-gdwarf-4")),
    ("stacks_of_debug_information_without_end", nested),
    ("stacks_of_tables_that_mislead", misled),
    ("stacks_of_what_is_not_there", odd),
];

/// Arguments of gcc, by a name.
const KINDS: &[(&str, &[&str])] = &[
    ("optimised", &["-O2", "-g"]),
    ("stripped", &["-O2", "-s"]),
    ("with all segments in a page", &["-O2", "-g", "-no-pie", "-Wl,-z,noseparate-code"]),
    ("with frame pointers", &["-O2", "-g", "-fno-omit-frame-pointer"]),
    ("not optimised", &["-O0", "-g"]),
    ("at a fixed place", &["-O2", "-g", "-no-pie"]),
    ("static", &["-O2", "-g", "-static"]),
    ("above 4 GiB", &["-O2", "-g", "-fPIE", "-pie", "-Wl,-Ttext-segment=0x200000000"]),
    (
        "with functions in sections",
        &["-O2", "-g", "-ffunction-sections", "-Wl,-z,separate-code", "-Wl,-z,relro,-z,now"],
    ),
];

const CPP: &[&str] = &["-pthread", "-o", "program", "program.cpp", "leaf.o"];
const RUST: &[&str] = &["--edition=2024", "-C", "link-arg=leaf.o", "program.rs"];

/// A name, a compiler, its options, and its other arguments.
type Build = (&'static str, &'static str, &'static [&'static str], &'static [&'static str]);

const OTHERS: &[Build] = &[
    ("C++, optimised", "g++", &["-O2", "-g"], CPP),
    ("Rust, not optimised", "rustc", &["-g"], RUST),
    ("C++, not optimised", "g++", &["-O0", "-g"], CPP),
    ("Rust, optimised", "rustc", &["-O", "-g"], RUST),
];

/// The function that a frame is in.
pub(crate) fn name(stacks: &Stacks, frame: &Frame) -> String {
    stacks.names(frame).swap_remove(0)
}

/// The events of a program, and the stacks that they define.
fn recorded(program: &Path, out: &Path) -> Result<(Vec<Event>, Stacks), Failed> {
    // Its output goes to a file: this program's own output is the harness's.
    let script = format!("exec {} > {}", program.display(), out.display());
    let mut options = Options::new("/bin/sh").args(["-c", &script]);
    options.stacks = true;
    with_stacks(&options)
}

pub(crate) fn with_stacks(options: &Options) -> Result<(Vec<Event>, Stacks), Failed> {
    let mut events: Vec<Event> = Vec::new();
    let outcome = record(options, &mut events)?;
    expect("no difference", outcome.counters.differences == 0)?;
    let mut stacks = Stacks::default();
    events.iter().try_for_each(|event| stacks.note(event))?;
    Ok((events, stacks))
}

fn build(dir: &Path, options: &[&str]) -> bool {
    std::fs::write(dir.join("leaf.c"), include_str!("leaf.c")).is_ok()
        && build_from(dir, include_str!("stacks.c"), options)
}

pub(crate) fn build_from(dir: &Path, text: &str, options: &[&str]) -> bool {
    std::fs::write(dir.join("source.c"), text).is_ok()
        && made(dir, "gcc", &[options, &["-pthread", "-o", "program", "source.c"]].concat())
}

/// Whether a compiler succeeds with these arguments in this directory.
pub(crate) fn made(dir: &Path, compiler: &str, arguments: &[&str]) -> bool {
    Command::new(compiler).args(arguments).current_dir(dir).output().is_ok_and(|made| made.status.success())
}

/// Prints that something is not installed, and fails if it is required.
pub(crate) fn missing(what: &str) -> Result<(), Failed> {
    expect(&format!("{what} is required"), std::env::var_os("SAMARA_REQUIRE_PROGRAMS").is_none_or(|v| v != "1"))?;
    println!("skipped: {what}: not installed, or of a kind that cannot do this");
    Ok(())
}

/// Links the object in this file to a program in its place.
fn link(object: &Path) -> bool {
    let linked = object.with_extension("linked");
    let made = Command::new("gcc").args(["-pthread", "-x", "none", "-o"]).arg(&linked).arg(object).status();
    made.is_ok_and(|made| made.success()) && std::fs::rename(linked, object).is_ok()
}

/// The frames from the caller of the function that made the call, as the program writes them.
fn outer(stacks: &Stacks, stack: &Stack) -> String {
    let frame = |frame: &Frame| {
        let name = stacks.module(frame).map_or("", |module| module.name.as_str());
        format!("{}+{:x}", name.rsplit('/').next().unwrap_or(name), frame.at)
    };
    without_versions(&stack.frames.iter().skip(2).map(frame).collect::<Vec<_>>().join(" "))
}

/// Frames without the versions of libraries: the program knows these by other names than the
/// kernel.
fn without_versions(frames: &str) -> String {
    let plain = |frame: &str| {
        let (file, at) = frame.rsplit_once('+').unwrap_or((frame, ""));
        format!("{}+{at}", file.split_once(".so").map_or(file, |(library, _)| library))
    };
    frames.split(' ').map(plain).collect::<Vec<_>>().join(" ")
}

fn as_backtrace_sees(kinds: &[(&str, &[&str])]) -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    let mut compared = 0;
    for (kind, options) in kinds {
        if !build(dir.path(), options) {
            missing(kind)?;
            continue;
        }
        let named = |names: &[String], caller: Option<&str>| {
            *kind == "stripped"
                || names.get(1).is_some_and(|name| name == "leaf")
                    && names.get(2).map(String::as_str) == caller
                    && names.contains(&"run".to_owned())
        };
        compared += compare(kind, dir.path(), named)?;
    }
    println!("{compared} stacks");
    Ok(())
}

/// The same of a program in C++ and of one in Rust.
fn of_other_languages(builds: &[Build]) -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    std::fs::write(dir.path().join("leaf.c"), include_str!("leaf.c"))?;
    std::fs::write(dir.path().join("program.cpp"), include_str!("stacks.cpp"))?;
    std::fs::write(dir.path().join("program.rs"), include_str!("stacks_program.rs"))?;
    if !made(dir.path(), "gcc", &["-O2", "-g", "-c", "leaf.c"]) {
        return missing("C");
    }
    let mut compared = 0;
    for (kind, compiler, options, rest) in builds {
        if !made(dir.path(), compiler, &[*options, *rest].concat()) {
            missing(kind)?;
            continue;
        }
        let named = |names: &[String], caller: Option<&str>| {
            let in_caller = caller.is_some_and(|caller| names.get(2).is_some_and(|name| name.contains(caller)));
            in_caller && names.iter().any(|name| name.contains("run") || name.starts_with("caught"))
        };
        compared += compare(kind, dir.path(), named)?;
    }
    println!("{compared} stacks");
    Ok(())
}

/// A program in Go, whose runtime knows the functions by name.
fn of_go() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    std::fs::write(dir.path().join("stacks.go"), include_str!("stacks.go"))?;
    if !made(dir.path(), "go", &["build", "-o", "program", "stacks.go"]) {
        return missing("Go");
    }
    let out = dir.path().join("out");
    let (events, stacks) = recorded(&dir.path().join("program"), &out)?;
    let calls = maps_of_a_page(&events);
    let (written, mut whole) = (std::fs::read_to_string(&out)?, 0);
    for line in written.lines() {
        let (page, names) = line.split_once(' ').unwrap_or_default();
        let stack = u64::from_str_radix(page, 16).ok().and_then(|page| stacks.stack(calls.get(&page)?.stack?));
        let stack = stack.ok_or_else(|| Failed::from(format!("Go: no stack of {line}")))?;
        let seen: Vec<String> = stack.frames.iter().flat_map(|frame| stacks.names(frame).into_iter().rev()).collect();
        let from = seen.iter().position(|name| name == "main.leaf").unwrap_or(0);
        expect(&format!("Go: the stack is\n{names}\nseen as\n{}", seen.join(" ")), seen[from..].join(" ") == names)?;
        whole += usize::from(stack.end == StackEnd::First);
    }
    expect(&format!("Go: 200 calls in {written}"), written.lines().count() == 200)?;
    println!("200 stacks of Go, {whole} of them followed to the first function");
    Ok(())
}

/// The functions of the interpreter, of its modules in C and of libffi, for a program in Python: of
/// the python3 that is found first, and of the system's, which may be stripped.
fn of_python() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    std::fs::write(dir.path().join("leaf.c"), include_str!("leaf.c"))?;
    std::fs::write(dir.path().join("stacks.py"), include_str!("stacks.py"))?;
    if !made(dir.path(), "gcc", &["-O2", "-g", "-shared", "-fPIC", "-o", "leaf.so", "leaf.c"]) {
        return missing("C");
    }
    let program = dir.path().join("program");
    let (mut compared, mut seen) = (0, Vec::new());
    for python in ["python3", "/usr/bin/python3"] {
        let which = Command::new(python).args(["-c", "import ctypes, sys; print(sys.executable)"]).output();
        let which = which.ok().filter(|run| run.status.success()).map(|run| run.stdout);
        if seen.contains(&which) {
            continue;
        }
        if which.is_none() {
            missing(python)?;
        } else {
            let at = dir.path().display();
            std::fs::write(&program, format!("#!/bin/sh\nexec {python} {at}/stacks.py {at}/leaf.so\n"))?;
            std::fs::set_permissions(&program, PermissionsExt::from_mode(0o700))?;
            let named = |names: &[String], _: Option<&str>| names.iter().any(|name| name == "_PyEval_EvalFrameDefault");
            compared += compare(python, dir.path(), named)?;
        }
        seen.push(which);
    }
    println!("{compared} stacks");
    Ok(())
}

/// The maps of one page, by their addresses.
pub(crate) fn maps_of_a_page(events: &[Event]) -> BTreeMap<u64, &Event> {
    let is_one = |e: &&Event| e.kind == EventKind::Call && e.nr == Some(libc::SYS_mmap as u32) && e.args[1] == 4096;
    events.iter().filter(is_one).map(|e| (e.result as u64, e)).collect()
}

/// Compares the stacks of `program` with those that it writes; `named` says whether the functions
/// are right. Returns how many there are.
fn compare(kind: &str, dir: &Path, named: impl Fn(&[String], Option<&str>) -> bool) -> Result<usize, Failed> {
    let out = dir.join("out");
    let (events, stacks) = recorded(&dir.join("program"), &out)?;
    let calls = maps_of_a_page(&events);
    let written = std::fs::read_to_string(&out)?;
    for line in written.lines() {
        let mut words = line.splitn(3, ' ');
        let (page, caller, frames) = (words.next(), words.next(), words.next());
        let page = page.and_then(|page| u64::from_str_radix(page, 16).ok()).unwrap_or(0);
        let stack = calls.get(&page).and_then(|call| stacks.stack(call.stack?));
        let stack = stack.ok_or_else(|| Failed::from(format!("{kind}: no stack of the call for {page:x}")))?;
        let (seen, is) = (outer(&stacks, stack), without_versions(frames.unwrap_or_default()));
        expect(&format!("{kind}: the stack is\n{is}\nseen as\n{seen}"), seen == is)?;
        expect(&format!("{kind}: {stack:?} is whole"), stack.end == StackEnd::First)?;
        expect(&format!("{kind}: {stack:?} has no guess"), stack.frames.iter().all(|frame| !frame.guessed))?;
        let names: Vec<String> = stack.frames.iter().map(|frame| name(&stacks, frame)).collect();
        expect(&format!("{kind}: {names:?}"), named(&names, caller))?;
    }
    let starts = events.iter().filter(|e| e.kind == EventKind::Thread);
    let starts: Vec<&Stack> = starts.filter_map(|start| stacks.stack(start.stack?)).collect();
    let by_main = |stack: &&Stack| stack.frames.iter().any(|frame| name(&stacks, frame).ends_with("main"));
    let is_named = kind != "stripped" && !kind.contains("python");
    expect(&format!("{kind}: {starts:?}"), starts.len() == 1 && (!is_named || starts.iter().all(by_main)))?;
    let count = written.lines().count();
    expect(&format!("{kind}: 200 calls and more in {written}"), count >= 200)?;
    Ok(count)
}

pub(crate) type LastMap = (Vec<(String, bool)>, Stack);

/// The names of the functions of the last map of a page, whether each is guessed, and the stack.
pub(crate) fn last_map(dir: &Path, source: &str, options: &[&str]) -> Result<Option<LastMap>, Failed> {
    if !build_from(dir, source, options) {
        println!("skipped: no gcc that makes such a program");
        return Ok(None);
    }
    let (events, stacks) = recorded(&dir.join("program"), &dir.join("out"))?;
    let call = events.iter().rfind(|e| e.nr == Some(libc::SYS_mmap as u32) && e.args[1] == 4096);
    let stack = call.and_then(|call| stacks.stack(call.stack?)).ok_or("no stack of the call")?;
    let names = stack.frames.iter().map(|frame| (name(&stacks, frame), frame.guessed)).collect();
    Ok(Some((names, stack.clone())))
}

/// Inlined functions are known from a `.dwo` file and from a package, and from neither if it was
/// made with another program or is cut.
fn split(version: &str) -> Result<(), Failed> {
    const SOURCE: &str = "
        #include <sys/mman.h>
        static inline __attribute__((always_inline)) int within(int n) {
            return mmap(0, 4096, n ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
        }
        __attribute__((noinline)) int outer(int n) {
            return within(n) + n;
        }
        int main(int argc, char **argv) { return outer(argc) - 1; }";
    const INLINED: [&str; 2] = ["within source.c:4", "outer source.c:7"];
    const ALONE: [&str; 1] = ["outer source.c:4"];
    let dir = tempfile::tempdir()?;
    let at = |name: &str| dir.path().join(name);
    // The functions of the frame that made the call, with their places.
    let seen = || -> Result<Vec<String>, Failed> {
        let (events, stacks) = recorded(&at("program"), &at("out"))?;
        let call = events.iter().rfind(|e| e.nr == Some(libc::SYS_mmap as u32) && e.args[1] == 4096);
        let stack = call.and_then(|call| stacks.stack(call.stack?)).ok_or("no stack of the call")?;
        let of_program = |frame: &&Frame| stacks.module(frame).is_some_and(|module| module.name.ends_with("/program"));
        let frame = stack.frames.iter().find(of_program).ok_or("no frame of the program")?;
        let shown = |function: &Function| {
            let place = function.place.rsplit_once('/').map_or(&*function.place, |(_, file)| file);
            format!("{} {place}", function.name)
        };
        Ok(stacks.functions(frame).iter().map(shown).collect())
    };
    let expect_seen = |what: &str, expected: &[&str]| {
        let seen = seen()?;
        expect(&format!("{what}: {seen:?}"), seen == expected)
    };
    if !build_from(dir.path(), SOURCE, &["-O2", "-g", version, "-gsplit-dwarf"]) {
        return missing("gcc with -gsplit-dwarf");
    }
    let dwo = at("program-source.dwo");
    expect_seen("a file", &INLINED)?;
    let whole = std::fs::read(&dwo)?;
    std::fs::write(&dwo, &whole[..whole.len() / 2])?;
    expect_seen("half a file", &ALONE)?;
    // The file of another program with the same names.
    let other = at("other");
    std::fs::create_dir_all(&other)?;
    expect("another program", build_from(&other, &format!("{SOURCE}\n"), &["-O2", "-g", version, "-gsplit-dwarf"]))?;
    std::fs::copy(other.join("program-source.dwo"), &dwo)?;
    expect_seen("another one's file", &ALONE)?;
    std::fs::write(&dwo, &whole)?;
    // The dwp of binutils takes version 4 only.
    if version == "-gdwarf-4" {
        if !made(dir.path(), "dwp", &["-e", "program", "-o", "program.dwp"]) {
            return missing("dwp");
        }
        std::fs::remove_file(&dwo)?;
        expect_seen("a package", &INLINED)?;
        std::fs::write(at("program.dwp"), b"\x7fELF")?;
        expect_seen("no package", &ALONE)?;
    }
    Ok(())
}

/// Debug information with half a million nested functions, in the program or in a file that it
/// names, is not read: its reader would recurse as deep.
fn nested() -> Result<(), Failed> {
    const SOURCE: &str = "
        #include <sys/mman.h>
        __attribute__((noinline, section(\".outer\"))) int outer(int n) {
            return mmap(0, 4096, n ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
        }
        int main(int argc, char **argv) { return outer(argc); }";
    // A unit: a function at 0x600000, and in it the nested ones. SPLIT is empty, or .dwo.
    const UNIT: &str = "
        .section .debug_abbrevSPLIT, \"\", @progbits
        .byte 1, 0x11, 1, 0x11, 0x01, 0x12, 0x07, 0, 0
        .byte 2, 0x2e, 1, 0x11, 0x01, 0x12, 0x07, 0x03, 0x08, 0, 0
        .byte 3, 0x1d, 1, 0, 0
        .byte 0
        .section .debug_infoSPLIT, \"\", @progbits
        .int 9f - 1f
        1: .short 5
        .byte KIND, 8
        .int 0
        ID
        .byte 1
        .quad 0x600000, 4096
        .byte 2
        .quad 0x600000, 4096
        .asciz \"told\"
        .fill DEEP, 1, 3
        .fill DEEP, 1, 0
        .byte 0, 0
        9:
        .section .note.GNU-stack, \"\", @progbits";
    // The part in the program of a unit that is in the file FILE.
    const SKELETON: &str = "
        .section .debug_abbrev, \"\", @progbits
        .byte 1, 0x4a, 0, 0x11, 0x01, 0x12, 0x07, 0x76, 0x08, 0, 0, 0
        .section .debug_info, \"\", @progbits
        .int 9f - 1f
        1: .short 5
        .byte 4, 8
        .int 0
        .quad 0x1122334455667788
        .byte 1
        .quad 0x600000, 4096
        .asciz \"FILE\"
        9:
        .section .note.GNU-stack, \"\", @progbits";
    let dir = tempfile::tempdir()?;
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text);
    write("source.c", SOURCE)?;
    for (deep, expected) in [(100, "told"), (500_000, "outer")] {
        let unit = UNIT.replace("DEEP", &deep.to_string());
        for split in [false, true] {
            if split {
                let id = ".quad 0x1122334455667788";
                write("split.s", &unit.replace("SPLIT", ".dwo").replace("KIND", "5").replace("ID", id))?;
                write("unit.s", &SKELETON.replace("FILE", &dir.path().join("unit.dwo").display().to_string()))?;
            } else {
                write("unit.s", &unit.replace("SPLIT", "").replace("KIND", "1").replace("ID", ""))?;
            }
            let link = ["-O2", "-no-pie", "-Wl,--section-start=.outer=0x600000", "-o", "program", "source.c", "unit.s"];
            if (split && !made(dir.path(), "gcc", &["-c", "-o", "unit.dwo", "split.s"]))
                || !made(dir.path(), "gcc", &link)
            {
                return missing("gcc");
            }
            let (_, stacks) = recorded(&dir.path().join("program"), &dir.path().join("out"))?;
            let is_named = |frame: &Frame| name(&stacks, frame) == expected;
            let mut all = (0..stacks.len() as u32).filter_map(|number| stacks.stack(number));
            let named = all.any(|stack| stack.frames.iter().any(is_named));
            expect(&format!("{deep} levels, in a file: {split}: {expected}"), named)?;
        }
    }
    Ok(())
}

/// A signal handler, and the function that the signal interrupted.
fn signalled() -> Result<(), Failed> {
    const SOURCE: &str = "
        #include <signal.h>
        #include <sys/mman.h>
        #include <unistd.h>
        __attribute__((noinline)) void handler(int n) {
            if (mmap(0, 4096, n ? PROT_READ : 0, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) _exit(1);
        }
        __attribute__((noinline)) int interrupted(int n) {
            volatile int *nowhere = 0;
            return *nowhere + n;
        }
        void leave(int n) { handler(n); _exit(0); }
        int main(void) { signal(SIGSEGV, leave); return interrupted(getpid()) == 0; }";
    let dir = tempfile::tempdir()?;
    for optimised in ["-O0", "-O2"] {
        let options = [optimised, "-g", "-fno-delete-null-pointer-checks"];
        let Some((names, stack)) = last_map(dir.path(), SOURCE, &options)? else { return Ok(()) };
        let is_at = |name: &str| names.iter().position(|(is, guessed)| is == name && !guessed);
        let handler = is_at("handler").ok_or_else(|| format!("{names:?}"))?;
        let right = is_at("interrupted") == Some(handler + 3) && is_at("main") == Some(handler + 4);
        expect(&format!("{names:?} {:?}", stack.end), right && stack.end == StackEnd::First)?;
    }
    Ok(())
}

/// Functions without tables, beside others that have some: a frame found by the frame pointer is a
/// guess, and so is one behind an endless expression in a table.
fn misled() -> Result<(), Failed> {
    const SOURCE: &str = r#"
        #include <sys/mman.h>
        #include <unistd.h>
        __attribute__((noinline)) void map(void) {
            if (mmap(0, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) _exit(1);
        }
        void without_table(void);
        __asm__(".text; .type without_table, @function; without_table: TABLE push %rbp; mov %rsp, %rbp;"
                "call map; pop %rbp; ret; END .size without_table, . - without_table");
        __attribute__((noinline)) int caller(int n) { without_table(); return n; }
        int main(void) { return caller(0); }"#;
    let dir = tempfile::tempdir()?;
    let options = ["-O1", "-g", "-fno-omit-frame-pointer", "-no-pie", "-fno-pic"];
    let without = SOURCE.replace("TABLE", "").replace("END", "");
    let Some((names, stack)) = last_map(dir.path(), &without, &options)? else { return Ok(()) };
    let at = names.iter().position(|(name, _)| name == "map").ok_or_else(|| format!("{names:?}"))?;
    let guessed = names.get(at + 2) == Some(&("caller".to_owned(), true));
    expect(&format!("{names:?} {:?}", stack.end), guessed && stack.end == StackEnd::First)?;
    let endless = ".cfi_startproc; .cfi_escape 0x0f,0x03,0x2f,0xfd,0xff;";
    let endless = SOURCE.replace("TABLE", endless).replace("END", ".cfi_endproc;");
    let Some((names, stack)) = last_map(dir.path(), &endless, &options)? else { return Ok(()) };
    let at = names.iter().position(|(name, _)| name == "without_table").ok_or_else(|| format!("{names:?}"))?;
    let guessed = names.get(at + 1) == Some(&("caller".to_owned(), true));
    expect(&format!("{names:?} {:?}", stack.end), guessed && stack.end == StackEnd::First)
}

/// A program that is gone when its symbols are looked up, one whose debug information names a FIFO,
/// and one of 32 bits.
fn odd() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    let (program, out) = (dir.path().join("program"), dir.path().join("out"));
    if build(dir.path(), &["-O2", "-g"]) {
        let script = dir.path().join("script");
        std::fs::write(&script, format!("{} > {} & sleep 0.3; rm {0}; wait", program.display(), out.display()))?;
        let mut options = Options::new("/bin/sh").args([script.as_os_str()]);
        options.stacks = true;
        let (_, stacks) = with_stacks(&options)?;
        let named = |number: u32| {
            stacks.stack(number).is_some_and(|stack| stack.frames.iter().any(|frame| name(&stacks, frame) == "leaf"))
        };
        expect("its functions have names", (0..stacks.len() as u32).any(named))?;
    } else {
        println!("skipped: no gcc");
    }
    if build(dir.path(), &["-O2", "-g", "-gsplit-dwarf", "-c"]) {
        let mut files = std::fs::read_dir(dir.path())?.flatten();
        let dwo = files.find(|file| file.path().extension() == Some("dwo".as_ref())).ok_or("no .dwo")?;
        std::fs::remove_file(dwo.path())?;
        expect("it is linked", link(&program))?;
        // It has no writer, so opening it would block for ever.
        let made = Command::new("mkfifo").arg(dwo.path()).status()?;
        expect("a FIFO", made.success())?;
        let (_, stacks) = recorded(&program, &out)?;
        let named = |number: u32| {
            stacks.stack(number).is_some_and(|stack| stack.frames.iter().any(|frame| name(&stacks, frame) == "leaf"))
        };
        expect("its functions have the names of its symbols", (0..stacks.len() as u32).any(named))?;
    }
    if let Some(program) = crate::placement::build(dir.path(), "static-32", &["-m32", "-static", "-fno-pie"]) {
        let file = dir.path().join("file");
        std::fs::File::create(&file)?.set_len(64 << 20)?;
        let mut options =
            Options::new(program).args(["places".as_ref(), out.as_os_str(), file.as_os_str(), "0".as_ref()]);
        options.stacks = true;
        let (events, stacks) = with_stacks(&options)?;
        let of = |e: &Event| e.stack.and_then(|number| stacks.stack(number));
        let calls = events.iter().filter(|e| e.kind == EventKind::Call && e.text.is_empty());
        let lost = |stack: &Stack| stack.end == StackEnd::Lost && stack.frames.len() == 1;
        expect("a call of 32 bits has its caller", calls.filter_map(of).filter(|stack| lost(stack)).count() > 0)?;
    }
    Ok(())
}
