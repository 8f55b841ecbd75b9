//! Stacks of a recording without stops, through code at addresses that another file had before.

use libtest_mimic::Failed;
use samara_record::Options;
use samara_record::nostop;
use samara_trace::event::Event;
use samara_trace::file::Stacks;

use crate::expect;
use crate::nostop::{MARK, allowed, by_bpf, is_marked_map, settings};
use crate::recorder::Body;
use crate::stacks::{build_from, made, missing, name};

pub(crate) const TRIALS: &[(&str, Body)] = &[
    ("nostop_names_libraries_that_replace_each_other", replaced),
    ("nostop_names_libraries_that_replace_each_other_by_bpf", || by_bpf(replaced)),
];

/// Loads libraries one after the other, has each map memory, and prints where its function was.
const PROGRAM: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **names) {
    for (int i = 1; i < count; i++) {
        char file[64];
        sprintf(file, "./%s.so", names[i]);
        void *library = dlopen(file, RTLD_NOW);
        void *(*maps)(void) = (void *(*)(void))dlsym(library, names[i]);
        printf("%s %p\n", names[i], (void *)maps);
        maps();
        dlclose(library);
    }
}
"#;

/// Each call has the function of the library that was there at that time, though all were at one
/// place.
fn replaced() -> Result<(), Failed> {
    let dir = tempfile::tempdir()?;
    let library = format!(
        "#include <sys/mman.h>\n\
         void *NAME(void) {{\n\
             void *at = mmap(0, {MARK}, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);\n\
             munmap(at, {MARK});\n\
             return at;\n\
         }}\n"
    );
    std::fs::write(dir.path().join("library.c"), library)?;
    let built = build_from(dir.path(), PROGRAM, &["-O1", "-g", "-Wl,--no-as-needed", "-ldl"])
        && ["one", "two"].iter().all(|name| {
            let arguments = ["-O1", "-g", "-shared", "-fPIC", "-o", &format!("{name}.so"), "library.c"];
            made(dir.path(), "gcc", &[&arguments[..], &[&format!("-DNAME={name}")]].concat())
        });
    if !built {
        return missing("C");
    }
    let script = format!("cd {} && exec ./program one two one two > out", dir.path().display());
    let mut settings = settings();
    (settings.stack_bytes, settings.ring) = (8 << 10, 32 << 20);
    let mut events: Vec<Event> = Vec::new();
    let options = Options::new("/bin/sh").args(["-c", &script]);
    let Some(watched) = allowed(nostop::record(&options, &settings, &mut events))? else { return Ok(()) };
    expect(&format!("it ended well: {}", watched.outcome.status), watched.outcome.status.success())?;
    expect(&format!("nothing is lost: {}", watched.seen), watched.seen.lost_in_all() == 0)?;
    let printed = std::fs::read_to_string(dir.path().join("out"))?;
    let places: Vec<&str> = printed.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    expect(&format!("one place: {printed}"), places.len() == 4 && places.iter().all(|place| *place == places[0]))?;
    let mut stacks = Stacks::default();
    events.iter().try_for_each(|event| stacks.note(event))?;
    let seen: Vec<Vec<String>> = (events.iter().filter(|event| is_marked_map(event)))
        .map(|event| {
            let frames = event.stack.and_then(|number| stacks.stack(number)).map(|stack| &stack.frames);
            let of_frame = |frame| {
                let module = stacks.module(frame).map_or("", |module| module.name.as_str());
                format!("{} {}", module.rsplit('/').next().unwrap_or_default(), name(&stacks, frame))
            };
            frames.into_iter().flatten().skip(1).take(2).map(of_frame).collect()
        })
        .collect();
    let expected = ["one", "two", "one", "two"].map(|name| [format!("{name}.so {name}"), "program main".to_owned()]);
    expect(&format!("{seen:?} instead of {expected:?}"), seen == expected)
}
