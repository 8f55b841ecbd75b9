//! Which frames of a call's stack are the program's own: those without the functions that only make
//! the call for it, at the inner end, and without those that started the thread, at the outer end.
//!
//! Knows libraries and functions by name; knows no verdict.

use super::stacks::{Frame, Stack, Stacks};

/// Libraries that are between a program and the kernel: beginnings of their files' names.
const BETWEEN: [&str; 5] = ["libc.so", "libc-", "ld-linux", "ld-musl", "libpthread"];

/// Functions that make any call, where they are part of the program itself: beginnings of their
/// names, of Go's packages up to the dot.
const STUBS: [&str; 9] = [
    "syscall.",
    "internal/runtime/syscall",
    "runtime/internal/syscall",
    "golang.org/x/sys/unix.",
    "internal/syscall/unix.",
    "__syscall",
    "syscall_cp",
    "do_syscall",
    "__internal_syscall",
];

/// Functions of a C library that is linked into the program, between it and its calls: those that
/// take memory from the kernel, and give it back.
const OF_C_LIBRARY: [&str; 22] = [
    "syscall",
    "sysmalloc",
    "sysmalloc_mmap",
    "sysmalloc_mmap_fallback",
    "systrim",
    "munmap_chunk",
    "mremap_chunk",
    "int_malloc",
    "int_free",
    "int_realloc",
    "int_memalign",
    "libc_malloc",
    "libc_free",
    "libc_realloc",
    "libc_calloc",
    "new_heap",
    "grow_heap",
    "heap_trim",
    "malloc",
    "free",
    "realloc",
    "calloc",
];

impl Stacks {
    /// The frames of a stack from which `call` was made, without those of the C library and of
    /// stubs at its ends. Where all frames are such, those from the first on that does not only
    /// make the call. Empty if the stack is.
    pub fn own_frames<'s>(&self, stack: &'s Stack, call: &str) -> &'s [Frame] {
        let is_between = |frame: &Frame| {
            let name = self.module(frame).map_or("", |module| &module.name);
            let file = name.rsplit_once('/').map_or(name, |(_, file)| file);
            BETWEEN.iter().any(|library| file.starts_with(library))
        };
        let is_start = |frame: &Frame| self.names(frame) == ["_start"];
        let makes_call = |frame: &Frame| {
            let functions = self.functions(frame);
            !functions.is_empty() && functions.iter().all(|function| is_stub(&function.name, call))
        };
        let all = &*stack.frames;
        let first = all.iter().position(|frame| !is_between(frame) && !makes_call(frame));
        let last = all.iter().rposition(|frame| !is_between(frame) && !is_start(frame));
        if let (Some(first), Some(last)) = (first, last)
            && first <= last
        {
            return &all[first..=last];
        }
        // The loader, for example.
        let inner = all.iter().position(|frame| !makes_call(frame)).unwrap_or(0);
        &all[inner..]
    }
}

/// Whether a function only makes `call`, or takes memory for a C library's own callers.
fn is_stub(name: &str, call: &str) -> bool {
    let plain = name.trim_start_matches("__GI_").trim_matches('_');
    plain.trim_end_matches("64") == call
        || OF_C_LIBRARY.contains(&plain)
        || STUBS.iter().any(|stub| name.starts_with(stub))
}

#[cfg(test)]
mod tests {
    use super::is_stub;

    #[test]
    fn functions_that_only_make_the_call() {
        for (name, call) in [
            ("__GI___mprotect", "mprotect"),
            ("mmap64", "mmap"),
            ("__mmap", "mmap"),
            ("syscall", "madvise"),
            ("_int_malloc", "mmap"),
            ("__libc_malloc", "brk"),
            ("internal/runtime/syscall/linux.Syscall6", "mprotect"),
            ("syscall.Mprotect", "mprotect"),
            ("golang.org/x/sys/unix.Mmap", "mmap"),
        ] {
            assert!(is_stub(name, call), "{name}");
        }
        for (name, call) in [("main.lockPages", "mprotect"), ("mmap_all", "mmap"), ("munmap", "mmap"), ("open", "mmap")]
        {
            assert!(!is_stub(name, call), "{name}");
        }
    }
}
