//! Call stacks through JIT-compiled code: they have the names from the compiler's files for `perf`,
//! each at its time. C programs that act like a compiler, node, and Java.

use std::collections::BTreeMap;

use libtest_mimic::Failed;
use samara_record::Options;
use samara_trace::event::{Event, EventKind};
use samara_trace::file::{Frame, StackEnd, Stacks};

use crate::expect;
use crate::recorder::Body;
use crate::stacks::{build_from, made, maps_of_a_page, missing, name, with_stacks};

pub(crate) const TRIALS: &[(&str, Body)] = &[
    ("stacks_of_compiled_code", perf_map),
    ("stacks_of_code_that_is_replaced", || replaced(&REPLACED[..2])),
    ("stacks_of_code_that_is_replaced_otherwise", || replaced(&REPLACED[2..])),
    ("stacks_of_node", of_node),
    ("stacks_of_java", of_java),
];

/// Records a script of the shell.
fn of_script(script: &str) -> Result<(Vec<Event>, Stacks), Failed> {
    let mut options = Options::new("/bin/sh").args(["-c", script]);
    options.stacks = true;
    with_stacks(&options)
}

/// Code is followed by its frame pointer, which is a guess, and has its name from a perf map. A
/// FIFO with the name of a perf map is not opened.
fn perf_map() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    if !build_from(dir.path(), concat!(include_str!("made_code.c"), include_str!("compiled.c")), &["-O1", "-g"]) {
        return missing("C");
    }
    for (argument, first_name) in [("", "compiled here"), (" fifo", "[anon]+")] {
        let out = dir.path().join("out");
        let recorded = of_script(&format!("{}{argument} > {}", dir.path().join("program").display(), out.display()));
        std::fs::remove_file(std::fs::read_to_string(&out)?.trim())?;
        let (events, stacks) = recorded?;
        let call = events.iter().rfind(|e| e.nr == Some(libc::SYS_mmap as u32) && e.args[1] == 4096);
        let stack = call.and_then(|call| stacks.stack(call.stack?)).ok_or("no stack of the call")?;
        let frames: Vec<(String, bool)> =
            stack.frames.iter().map(|frame| (name(&stacks, frame), frame.guessed)).take(3).collect();
        let [(first, false), (second, true), (third, false)] = &frames[..] else {
            return Err(format!("{frames:?}").into());
        };
        expect(&format!("{frames:?}"), first.starts_with(first_name) && second == "outer" && third == "main")?;
    }
    Ok(())
}

const OWN: [&str; 4] = ["first", "second", "second", "first"];
const LAST: [&str; 4] = ["second", "second", "second", "first"];
const NONE: [&str; 4] = ["[anon]"; 4];

/// What is odd about the file, and the names of four calls.
const REPLACED: &[(&str, [&str; 4])] =
    &[("", OWN), ("other", NONE), ("hostile", OWN), ("clock", LAST), ("data", NONE), ("fifo", OWN)];

/// Each call has its function's name at that time, from a trustworthy jitdump file.
fn replaced(ways: &[(&str, [&str; 4])]) -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    if !build_from(dir.path(), concat!(include_str!("made_code.c"), include_str!("jitdump.c")), &["-O1", "-g"]) {
        return missing("C");
    }
    for (odd, expected) in ways {
        let out = dir.path().join("out");
        let program = dir.path().join("program");
        let (events, stacks) =
            of_script(&format!("exec {} {} {odd} > {}", program.display(), dir.path().display(), out.display()))?;
        let written = std::fs::read_to_string(&out)?;
        if *odd == "other" && written.is_empty() {
            println!("skipped: a file of another user: only root can make one");
            continue;
        }
        let calls = maps_of_a_page(&events);
        let of_line = |line: &str| {
            let (page, _) = line.split_once(' ')?;
            let call = calls.get(&u64::from_str_radix(page, 16).ok()?)?;
            let first = stacks.stack(call.stack?)?.frames.first()?;
            Some(stacks.shown_at(first, call.entry_ns).to_string())
        };
        let seen: Option<Vec<String>> = written.lines().map(of_line).collect();
        let seen = seen.ok_or("a call without a stack")?;
        let is = |(seen, expected): (&String, &&str)| seen.split('+').next() == Some(expected);
        // Without root's rights the file's name leads to the FIFO.
        let all = |expected: &[&str; 4]| seen.len() == 4 && seen.iter().zip(expected).all(is);
        expect(&format!("{odd}: {seen:?}"), all(expected) || *odd == "fifo" && all(&NONE))?;
    }
    Ok(())
}

/// Functions of JavaScript, compiled and not, by the file that node writes.
fn of_node() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    let program = "
        function leaf() { return new WebAssembly.Memory({ initial: 1 }); }
        function outermost() { return leaf(); }
        %PrepareFunctionForOptimization(leaf); %PrepareFunctionForOptimization(outermost);
        outermost(); outermost();
        %NeverOptimizeFunction(leaf);
        %OptimizeFunctionOnNextCall(outermost);
        for (let i = 0; i < 20; i++) outermost();";
    std::fs::write(dir.path().join("program.js"), program)?;
    let arguments = ["--perf-prof", "--allow-natives-syntax", "--interpreted-frames-native-stack", "program.js"];
    if !made(dir.path(), "node", &arguments) {
        return missing("node");
    }
    let script = format!("cd {} && exec node {}", dir.path().display(), arguments.join(" "));
    let (events, stacks) = of_script(&script)?;
    let called = |e: &&Event| e.kind == EventKind::Call && e.stack.is_some();
    let names = |e: &Event| -> Option<Vec<String>> {
        let frames = &stacks.stack(e.stack?)?.frames;
        Some(frames.iter().map(|frame| stacks.shown_at(frame, e.entry_ns).to_string()).collect())
    };
    let all: Vec<Vec<String>> = events.iter().filter(called).filter_map(names).collect();
    let of_js = |names: &Vec<String>| {
        let at = |function: &str| {
            names.iter().position(|name| name.contains(&format!("{function} ")) && name.contains("program.js"))
        };
        at("leaf").is_some_and(|leaf| at("outermost") == Some(leaf + 1))
    };
    let count = all.iter().filter(|names| of_js(names)).count();
    // V8's marks: ~ is interpreted, * optimised.
    let kinds = ["JS:~outermost ", "JS:*outermost "]
        .map(|kind| all.iter().filter(|names| of_js(names) && names.iter().any(|name| name.contains(kind))).count());
    println!("{count} calls of node: {kinds:?} interpreted and optimised");
    expect("functions of JavaScript have their names", count >= 22 && kinds.iter().all(|count| *count > 0))
}

/// Functions of Java, which the JVM writes into a perf map at its end: all that were compiled by
/// themselves, in the order of the program's own stack traces.
fn of_java() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    std::fs::write(dir.path().join("Stacks.java"), include_str!("stacks.java"))?;
    if !made(dir.path(), "javac", &["Stacks.java"]) {
        return missing("Java");
    }
    // One compiler, so that the code is still there at the end.
    let options = "-XX:+PreserveFramePointer -Xcomp -XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions \
                   -XX:+DumpPerfMapAtExit";
    if !made(dir.path(), "java", &[options, "-XX:-DumpPerfMapAtExit -version"].join(" ").split(' ').collect::<Vec<_>>())
    {
        return missing("a JVM that writes perf maps");
    }
    for (kind, inlines, rest) in [("Java, not inlined", false, "-XX:-Inline"), ("Java", true, "")] {
        let script = format!("cd {} && exec java {options} {rest} Stacks file > out", dir.path().display());
        let (events, stacks) = of_script(&script)?;
        let is_map = |e: &&Event| {
            let is_shared = e.args[3] as i32 == libc::MAP_SHARED && e.args[2] as i32 == libc::PROT_READ;
            e.kind == EventKind::Call && e.nr == Some(libc::SYS_mmap as u32) && is_shared
        };
        let calls: BTreeMap<u64, &Event> = events.iter().filter(is_map).map(|e| (e.args[1] / 4096, e)).collect();
        if let Some(call) = calls.values().next() {
            std::fs::remove_file(format!("/tmp/perf-{}.map", call.pid))?;
        }
        let (mut named, mut all, mut equal, mut count) = (0, 0, 0, 0);
        for line in std::fs::read_to_string(dir.path().join("out"))?.lines() {
            let (pages, own) = line.split_once(' ').unwrap_or_default();
            let call = calls.get(&pages.parse()?).ok_or("no call")?;
            let stack = call.stack.and_then(|number| stacks.stack(number)).ok_or("no stack")?;
            let methods: Vec<String> = stack.frames.iter().filter_map(|frame| method(&stacks, frame)).collect();
            let own: Vec<&str> = own.split(' ').collect();
            let from = methods.iter().position(|method| own.contains(&method.as_str())).unwrap_or(0);
            let mut rest = own.iter();
            let in_order = methods[from..].iter().all(|method| rest.any(|own| own == method));
            let is_equal = methods[from..] == own;
            let right = in_order && (inlines || is_equal);
            expect(&format!("{kind}: the stack is\n{own:?}\nseen as\n{methods:?}"), right)?;
            expect(&format!("{kind}: {stack:?} is whole"), stack.end == StackEnd::First)?;
            (named, all, count) = (named + methods.len() - from, all + own.len(), count + 1);
            equal += usize::from(is_equal);
        }
        println!("{kind}: {count} stacks, {equal} equal, {named} of {all} functions");
        expect(&format!("{kind}: 200 stacks, not {count}"), count == 200)?;
        expect(&format!("{kind}: {named} of {all} functions"), named * 2 > all)?;
    }
    Ok(())
}

/// The method that a frame is in: of `int Stacks.deeper(int)`, `Stacks.deeper`. Stack traces leave
/// out classes that the JVM made of lambdas.
fn method(stacks: &Stacks, frame: &Frame) -> Option<String> {
    stacks.module(frame).filter(|module| module.name == "[anon]")?;
    let name = name(stacks, frame);
    let (_, method) = name.split_once('(')?.0.rsplit_once(' ')?;
    (!method.is_empty() && !method.contains("$$Lambda")).then(|| method.to_owned())
}
