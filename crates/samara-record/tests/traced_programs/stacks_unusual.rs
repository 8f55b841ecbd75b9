//! Call stacks through code that compilers seldom make, or assemblers do: calls as the last
//! instruction, functions without tables, frames that an expression finds, symbols within others,
//! and files that change while they are mapped.

use libtest_mimic::Failed;
use samara_record::Options;
use samara_trace::event::Event;
use samara_trace::file::StackEnd;

use crate::expect;
use crate::recorder::Body;
use crate::stacks::{build_from, last_map, made, missing, name, with_stacks};

pub(crate) const TRIALS: &[(&str, Body)] = &[
    ("stacks_of_unusual_code", unusual),
    ("stacks_of_a_library_that_is_written_anew", written_anew),
    ("stacks_of_linked_debug_information", linked),
];

/// What the tests of unusual code begin with: `mmap` of a page, as it stands where it is called.
const CALL: &str = r#"
    #include <alloca.h>
    #include <signal.h>
    #include <sys/mman.h>
    #include <unistd.h>
    static inline __attribute__((always_inline)) long page(void) {
        long done;
        register long r10 __asm__("r10") = 0x22, r8 __asm__("r8") = -1, r9 __asm__("r9") = 0;
        __asm__ volatile("syscall" : "=a"(done) : "0"(9), "D"(0), "S"(4096), "d"(1), "r"(r10), "r"(r8),
                         "r"(r9) : "rcx", "r11", "memory");
        return done;
    }
    #define FUNCTION __attribute__((noinline)) int
    #define AFTER __asm__ volatile("")
    volatile int n = 100;
    char *volatile sink;
"#;

/// A name, options of gcc, a program, and its functions up to `main`: those that are guesses have a
/// `?`.
type Case = (&'static str, &'static [&'static str], &'static str, &'static str);

const CASES: &[Case] = &[
    (
        "the call is the last instruction",
        &["-O2", "-g"],
        r#"void last(void);
        __asm__(".text; .type last, @function; last: .cfi_startproc; xor %edi, %edi; mov $4096, %esi; mov $1, %edx;"
                "mov $0x22, %r10d; mov $-1, %r8; xor %r9d, %r9d; mov $9, %eax; syscall; .cfi_endproc;"
                ".size last, . - last; .type behind, @function; behind: .cfi_startproc; ret; .cfi_endproc;"
                ".size behind, . - behind");
        FUNCTION caller(void) { last(); AFTER; return n; }
        int main(void) { caller(); return 0; }"#,
        "last caller main",
    ),
    (
        "frame pointers and no tables",
        &["-O1", "-fno-omit-frame-pointer", "-fno-asynchronous-unwind-tables"],
        r#"FUNCTION inner(void) { volatile char here[64]; here[0] = 1; page(); return here[0]; }
        FUNCTION outer(void) { volatile char here[400]; here[0] = 1; inner(); return here[0]; }
        int main(void) { volatile char here[40]; here[0] = 1; outer(); return here[0] - 1; }"#,
        "inner ?outer ?main",
    ),
    (
        "tables in debug information alone, beside those of the C library",
        &["-O2", "-g", "-static", "-fno-asynchronous-unwind-tables"],
        r#"FUNCTION inner(void) { volatile char here[64]; here[0] = 1; page(); return here[0]; }
        FUNCTION outer(void) { volatile char here[400]; here[0] = 1; inner(); return here[0]; }
        int main(void) { volatile char here[40]; here[0] = 1; outer(); return here[0] - 1; }"#,
        "inner outer main",
    ),
    (
        "a stub that has no frame and no table",
        &["-O2", "-g"],
        r#"void stub(void);
        __asm__(".text; .type stub, @function; stub: xor %edi, %edi; mov $4096, %esi; mov $1, %edx;"
                "mov $0x22, %r10d; mov $-1, %r8; xor %r9d, %r9d; mov $9, %eax; syscall; ret; .size stub, . - stub");
        FUNCTION caller(void) { stub(); AFTER; return n; }
        int main(void) { caller(); return 0; }"#,
        "stub ?caller main",
    ),
    (
        "an aligned frame, which an expression finds",
        &["-O2", "-g"],
        r#"FUNCTION inner(void) { page(); return n; }
        FUNCTION aligned(int a, int b, int c, int d, int e, int f, int g, int h) {
            char here[64] __attribute__((aligned(64)));
            sink = here;
            char *there = alloca(n);
            sink = there;
            inner();
            return a + g + h + here[0];
        }
        FUNCTION gone(int x) { volatile char here[24]; here[0] = 1; AFTER; return x; }
        FUNCTION before(int x) { int done = gone(x); AFTER; return done + x; }
        FUNCTION middle(int x) { before(x); int done = aligned(x, 2, 3, 4, 5, 6, 7, x); AFTER; return done; }
        int main(void) { middle(1); AFTER; return 0; }"#,
        "inner aligned middle main",
    ),
    (
        "a symbol within a function",
        &["-O2"],
        r#"FUNCTION inner(void) { page(); return n; }
        void outer(void);
        __asm__(".text; .type outer, @function; outer: .cfi_startproc; push %rax; .cfi_adjust_cfa_offset 8;"
                ".type within, @function; within: nop; nop; .size within, . - within; call inner; pop %rax;"
                ".cfi_adjust_cfa_offset -8; ret; .cfi_endproc; .size outer, . - outer");
        int main(void) { outer(); return 0; }"#,
        "inner outer main",
    ),
    (
        "a signal trampoline",
        &["-O2", "-g", "-static"],
        r#"void handler(int n) { page(); AFTER; }
        FUNCTION interrupted(void) { kill(getpid(), SIGUSR1); AFTER; return n; }
        int main(void) { signal(SIGUSR1, handler); interrupted(); return 0; }"#,
        "handler __restore_rt kill interrupted main",
    ),
];

fn unusual() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    for (case, options, program, functions) in CASES {
        let Some((names, stack)) = last_map(dir.path(), &format!("{CALL}{program}"), options)? else { continue };
        let marked = |(name, guessed): &(String, bool)| format!("{}{name}", if *guessed { "?" } else { "" });
        let seen: Vec<String> = names.iter().map(marked).collect();
        let to_main = names.iter().position(|(name, _)| name == "main").map_or(seen.len(), |at| at + 1);
        expect(&format!("{case}: {seen:?}"), seen[..to_main].join(" ") == *functions)?;
        expect(&format!("{case}: {seen:?} {:?}", stack.end), stack.end == StackEnd::First)?;
    }
    Ok(())
}

/// The functions of a library are not named after another one that was written to its file.
fn written_anew() -> Result<(), Failed> {
    const PROGRAM: &str = r#"
        #include <dlfcn.h>
        #include <stdlib.h>
        int main(void) {
            for (int i = 0; i < 2; i++) {
                void *library = dlopen("./one.so", RTLD_NOW);
                ((void (*)(void))dlsym(library, "call"))();
                dlclose(library);
                if (!i && system("cat other.so > one.so")) return 1;
            }
            return 0;
        }"#;
    let dir = tempfile::tempdir()?;
    for library in ["one", "other"] {
        let before = if library == "other" { "int never(int n) { return n * 7 + 1; }" } else { "" };
        let source = format!(
            "{CALL} {before} FUNCTION in_{library}(void) {{ page(); return n; }} void call(void) {{ in_{library}(); AFTER; }}"
        );
        std::fs::write(dir.path().join("library.c"), source)?;
        let file = format!("{library}.so");
        if !made(dir.path(), "gcc", &["-O2", "-g", "-shared", "-fPIC", "-o", &file, "library.c"]) {
            return missing("gcc");
        }
    }
    expect("the program", build_from(dir.path(), PROGRAM, &["-O2", "-g"]))?;
    let script = format!("cd {} && exec ./program", dir.path().display());
    let mut options = Options::new("/bin/sh").args(["-c", &script]);
    options.stacks = true;
    let (events, stacks) = with_stacks(&options)?;
    let maps = events.iter().filter(|e| e.nr == Some(libc::SYS_mmap as u32) && e.args[1] == 4096 && e.args[3] == 0x22);
    let of = |e: &Event| e.stack.and_then(|number| stacks.stack(number));
    let all: Vec<Vec<String>> =
        maps.filter_map(of).map(|stack| stack.frames.iter().map(|frame| name(&stacks, frame)).collect()).collect();
    let through = |stack: &&Vec<String>| stack.iter().any(|name| name == "main") && stack.len() > 3;
    let of_libraries: Vec<&Vec<String>> =
        all.iter().filter(|s| s[0].starts_with("in_") || s[0].contains("one.so")).collect();
    let right = match of_libraries[..] {
        [first, second] => {
            !first.iter().any(|name| name.contains("other") || name == "never") && second[0] == "in_other"
        }
        _ => false,
    };
    expect(&format!("{all:?}"), right && of_libraries.iter().all(through))
}

/// Debug information in a file that the stripped program names: beside it, and in `.debug`; not if
/// it is another one.
fn linked() -> Result<(), Failed> {
    const PROGRAM: &str = r#"
        __attribute__((noinline)) static int hidden(void) { page(); return n; }
        int main(void) { hidden(); AFTER; return 0; }"#;
    let dir = tempfile::tempdir()?;
    let options = ["-O2", "-g", "-Wl,--build-id=none"];
    let seen = |names: &[(String, bool)]| names.iter().any(|(name, _)| name == "hidden");
    let source = format!("{CALL}{PROGRAM}");
    if !build_from(dir.path(), &source, &options)
        || !made(dir.path(), "objcopy", &["--only-keep-debug", "program", "program.debug"])
        || !made(dir.path(), "strip", &["program"])
        || !made(dir.path(), "objcopy", &["--add-gnu-debuglink=program.debug", "program"])
    {
        return missing("gcc and binutils");
    }
    let names = || -> Result<Vec<(String, bool)>, Failed> {
        let mut options = Options::new(dir.path().join("program"));
        options.stacks = true;
        let (events, stacks) = with_stacks(&options)?;
        let call = events.iter().rfind(|e| e.nr == Some(libc::SYS_mmap as u32) && e.args[1] == 4096);
        let stack = call.and_then(|call| stacks.stack(call.stack?)).ok_or("no stack of the call")?;
        Ok(stack.frames.iter().map(|frame| (name(&stacks, frame), frame.guessed)).collect())
    };
    expect("beside the program", seen(&names()?))?;
    std::fs::create_dir(dir.path().join(".debug"))?;
    std::fs::rename(dir.path().join("program.debug"), dir.path().join(".debug/program.debug"))?;
    expect("in .debug", seen(&names()?))?;
    let mut bytes = std::fs::read(dir.path().join(".debug/program.debug"))?;
    bytes.push(0);
    std::fs::write(dir.path().join(".debug/program.debug"), bytes)?;
    expect("another file", !seen(&names()?))
}
