use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use samara_trace::recorder::FUNCTIONS;

use super::{NAME_BYTES, demangled, each};
use crate::stacks::memory_budget::Budget;
use crate::stacks::module::{Module, open_regular};

const SOURCE: &str = "
static inline __attribute__((always_inline)) int within(int n) { return n * 7 + n / 3; }
__attribute__((noinline)) int outer(int n) { for (int i = 0; i < n; i++) n += within(i); return n; }
int main(int argc, char **argv) { return outer(argc) + within(argc); }";

/// The text of all addresses of a program.
fn told(program: &Path) -> Vec<String> {
    let mut module = Module::without_file(program.to_str().unwrap(), None);
    module.file = Some(File::open(program).unwrap());
    let mut all = Vec::new();
    let budget = Budget::default();
    let (left, addresses) = (budget.left(), (0x1000..0x1400).collect::<Vec<_>>());
    each(&module, &addresses, true, &budget, |_, text| all.push(text));
    assert_eq!(budget.left(), left, "all is given back");
    all
}

/// A program without debug information, and a budget that does not suffice for its table of
/// symbols: no function is named, and a note names the file.
#[test]
fn a_budget_ends_symbols() {
    let program = std::env::current_exe().unwrap();
    let mut module = Module::without_file("/x/program", None);
    module.file = Some(File::open(&program).unwrap());
    let budget = Budget::of(100_000);
    each(&module, &[0x10_0000], true, &budget, |_, text| panic!("{text}"));
    assert_eq!(budget.left(), 100_000);
    let note = budget.note().unwrap();
    assert!(note.ends_with("left out of /x/program"), "{note}");
    (0..9).for_each(|i| budget.leave_out(&format!("{}", i % 5)));
    assert!(budget.note().unwrap().ends_with("of /x/program, 0, 1 and others"));
}

/// Programs and files of split debug information with changed bytes or a missing end are read
/// without a panic, and give no text beyond the limits.
#[test]
fn any_file_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let (program, dwo) = (dir.path().join("program"), dir.path().join("program-source.dwo"));
    fs::write(dir.path().join("source.c"), SOURCE).unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    for split in [None, Some("-gsplit-dwarf")] {
        let mut gcc = Command::new("gcc");
        gcc.current_dir(dir.path()).args(["-O2", "-g"]).args(split).args(["-o", "program", "source.c"]);
        if !gcc.status().is_ok_and(|made| made.success()) {
            assert!(std::env::var_os("SAMARA_REQUIRE_PROGRAMS").is_none_or(|v| v != "1"), "gcc is required");
            eprintln!("skipped: any_file_is_read: no gcc");
            return;
        }
        assert!(told(&program).iter().any(|text| text.starts_with("within\t") && text.contains("\nouter\t")));
        let target = if split.is_some() { &dwo } else { &program };
        let whole = fs::read(target).unwrap();
        for _ in 0..25 {
            let mut bytes = whole.clone();
            for _ in 0..random.usize(1..16) {
                let at = random.usize(0..bytes.len());
                let any = random.u8(..);
                bytes[at] = random.choice([0, 1, 0x7f, 0x80, 0xff, any]).unwrap_or(any);
            }
            if random.u8(..) < 16 {
                bytes.truncate(random.usize(0..bytes.len()));
            }
            fs::write(target, bytes).unwrap();
            for text in told(&program) {
                let lines: Vec<_> = text.lines().collect();
                assert!(lines.len() <= FUNCTIONS, "{text}");
                assert!(lines.iter().all(|line| line.len() <= 2 * NAME_BYTES + 1), "{text}");
            }
        }
        fs::write(target, whole).unwrap();
    }
}

/// A traced program chooses the names of its debug information. Only regular files with content are
/// opened: reading another file could block, take data from another reader, or have effects.
#[test]
fn only_files_with_content_are_opened() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(open_regular(&file).is_some());
    let link = |name: &str, to: &str| {
        let link = dir.path().join(name);
        std::os::unix::fs::symlink(to, &link).unwrap();
        link
    };
    assert!(open_regular(&link("to-file", "file")).is_some());
    for other in ["/proc/self/maps", "/proc/kmsg", "/proc/self/mem", "/sys/kernel/uevent_seqnum", "/dev/zero", "/tmp"] {
        assert!(open_regular(Path::new(other)).is_none(), "{other}");
        assert!(open_regular(&link(&other.replace('/', "-"), other)).is_none(), "a link to {other}");
    }
    assert!(Path::new("/proc/self/maps").metadata().unwrap().is_file(), "it looks like a file");
}

/// Each level of the name doubles it: expansion ends at the kept length.
#[test]
fn a_short_name_for_an_endless_one_is_cut() {
    assert_eq!(demangled("_ZN3fooC1Ev"), "foo::foo()");
    assert_eq!(demangled("_RNvC6_123foo3bar"), "123foo::bar");
    assert_eq!(["main", "a", "c", "_c"].map(demangled), ["main", "a", "c", "_c"]);
    let mut name = "_Z1fSt4pairIiiE".to_owned();
    for level in 0..30 {
        let last = char::from_digit(level, 36).unwrap_or('0').to_ascii_uppercase();
        name += &format!("S_IS{last}_S{last}_E");
    }
    let made = demangled(&name);
    assert!(made.len() < 4 * NAME_BYTES, "{} bytes", made.len());
}
