//! Selects the program's own frames of a call's stack. Omits functions that only make the call, at
//! the inner end, and functions that started the thread, at the outer end.
//!
//! Knows libraries and functions by name; knows no verdict.

use std::ops::Range;

use super::stacks::{Frame, Function, Stack, Stacks};

/// Libraries between a program and the kernel: prefixes of their files' names.
const BETWEEN: [&str; 5] = ["libc.so", "libc-", "ld-linux", "ld-musl", "libpthread"];

/// Functions of the program itself that make any call: prefixes of their names, for packages of Go
/// up to the dot.
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

/// Functions of a C library that is linked into the program: those that take memory from the
/// kernel, and give it back.
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

/// Extensions of headers' names.
const HEADERS: [&str; 8] = ["h", "hh", "hpp", "hxx", "h++", "inl", "ipp", "tcc"];

/// Most frames from a header outwards that [`Stacks::own_functions`] looks at, and most functions
/// that it returns.
const OUT_OF_HEADERS: usize = 8;
const FUNCTIONS: usize = 8;

/// Most frames at the inner end that are looked at for stubs, most functions inlined into one, and
/// the longest name of one. A trace may claim any number.
const STUB_FRAMES: usize = 16;
const STUB_FUNCTIONS: usize = 4;
const STUB_NAME: usize = 64;

impl Stacks {
    /// The functions that made `call`, the innermost of the program's [own](Self::own_frames)
    /// first, with those that it is inlined into. If it is in a header, its callers follow, up to
    /// the first that is not in a header. Empty if no name is known.
    pub fn own_functions<'s>(&'s self, stack: &'s Stack, call: &str) -> Vec<&'s Function> {
        let mut all: Vec<&Function> = Vec::new();
        for frame in self.own_frames(stack, call).iter().take(OUT_OF_HEADERS) {
            let functions = self.functions(frame);
            // A stub that was inlined into its caller.
            let stubs = functions.iter().take(STUB_FUNCTIONS).take_while(|function| function.is_stub(call)).count();
            let stubs = if stubs < functions.len() { stubs } else { 0 };
            let functions = functions[stubs..].iter().filter(|function| !function.name.is_empty());
            let before = all.len();
            all.extend(functions.take(FUNCTIONS - before));
            if all.len() == before || all.len() == FUNCTIONS || !all.iter().all(|function| function.is_in_header()) {
                break;
            }
        }
        all
    }

    /// The frames of a stack from which `call` was made, without those of the C library and of
    /// stubs at its ends. If no frame is left: those from the first on that does not only make the
    /// call. Empty if the stack is empty.
    pub fn own_frames<'s>(&self, stack: &'s Stack, call: &str) -> &'s [Frame] {
        &stack.frames[self.own_range(stack, call)]
    }

    /// Which frames of a stack [`own_frames`](Self::own_frames) returns, counted from the
    /// innermost.
    pub fn own_range(&self, stack: &Stack, call: &str) -> Range<usize> {
        let is_between = |frame: &Frame| self.is_between(frame);
        let is_start = |frame: &Frame| matches!(self.functions(frame), [one] if one.name == "_start");
        let makes_call = |frame: &Frame| {
            let functions = self.functions(frame);
            (1..=STUB_FUNCTIONS).contains(&functions.len()) && functions.iter().all(|function| function.is_stub(call))
        };
        let all = &*stack.frames;
        let is_own =
            |(depth, frame): (usize, &Frame)| !is_between(frame) && (depth >= STUB_FRAMES || !makes_call(frame));
        let first = all.iter().enumerate().position(is_own);
        let last = all.iter().rposition(|frame| !is_between(frame) && !is_start(frame));
        if let (Some(first), Some(last)) = (first, last)
            && first <= last
        {
            return first..last + 1;
        }
        // The loader, for example.
        let inner = all.iter().take(STUB_FRAMES).position(|frame| !makes_call(frame)).unwrap_or(0);
        inner..all.len()
    }
}

impl Function {
    /// Whether its source is a header: code there is often a wrapper, and tells less than its
    /// caller.
    pub fn is_in_header(&self) -> bool {
        is_header(&self.place)
    }

    /// Whether it only makes `call`, or takes memory for a C library's own callers.
    fn is_stub(&self, call: &str) -> bool {
        is_stub(&self.name, &self.place, call)
    }
}

fn is_header(place: &str) -> bool {
    let file = place.rsplit_once(':').map_or(place, |(file, _)| file);
    let name = file.rsplit_once('/').map_or(file, |(_, name)| name);
    // Headers of C++'s own library have no dot.
    !name.is_empty() && name.rsplit_once('.').is_none_or(|(_, kind)| HEADERS.contains(&kind))
}

/// Whether a module is a library between a program and the kernel.
pub(super) fn is_library(name: &str) -> bool {
    let file = name.rsplit_once('/').map_or(name, |(_, file)| file);
    BETWEEN.iter().any(|library| file.starts_with(library))
}

/// [`Function::is_stub`] of a name and a place. A program may have a function with a C library's
/// name; only the library's has no known source, or one in the library's folders.
fn is_stub(name: &str, place: &str, call: &str) -> bool {
    if name.len() > STUB_NAME {
        return false;
    }
    let is_library = || place.is_empty() || place.contains("malloc/") || place.contains("sysdeps/");
    let plain = name.trim_start_matches("__GI_").trim_matches('_');
    plain.trim_end_matches("64") == call
        || (OF_C_LIBRARY.contains(&whole(plain)) && is_library())
        || STUBS.iter().any(|stub| name.starts_with(stub))
}

/// The function's name without the suffix that a compiler gives to its parts and copies
/// (`.constprop.0`).
fn whole(name: &str) -> &str {
    let made = [".constprop.", ".isra.", ".part.", ".cold"];
    made.iter().filter_map(|made| name.find(made)).min().map_or(name, |end| &name[..end])
}

#[cfg(test)]
mod tests {
    use super::{is_header, is_stub};

    #[test]
    fn headers_by_their_names() {
        for place in
            ["/usr/include/c++/12/bits/new_allocator.h:120", "h.h:29", "src/pool.hpp:3", "/usr/include/c++/12/vector:1"]
        {
            assert!(is_header(place), "{place}");
        }
        for place in ["a.c:1", "src/main.rs:7", "main.go:3", "", "/home/h/x.cc:9"] {
            assert!(!is_header(place), "{place}");
        }
    }

    #[test]
    fn functions_that_only_make_the_call() {
        for (name, call) in [
            ("__GI___mprotect", "mprotect"),
            ("mmap64", "mmap"),
            ("__mmap", "mmap"),
            ("syscall", "madvise"),
            ("_int_malloc", "mmap"),
            ("sysmalloc_mmap.constprop.0", "mmap"),
            ("__libc_malloc", "brk"),
            ("new_heap", "mmap"),
            ("internal/runtime/syscall/linux.Syscall6", "mprotect"),
            ("syscall.Mprotect", "mprotect"),
            ("golang.org/x/sys/unix.Mmap", "mmap"),
        ] {
            assert!(is_stub(name, "", call), "{name}");
        }
        assert!(is_stub("sysmalloc", "malloc/malloc.c:2573", "mmap"));
        assert!(!is_stub("new_heap", "src/arena.c:31", "mmap"));
        for (name, call) in [("main.lockPages", "mprotect"), ("mmap_all", "mmap"), ("munmap", "mmap"), ("open", "mmap")]
        {
            assert!(!is_stub(name, "", call), "{name}");
        }
    }
}
