//! Output files while another user changes names: in a folder that an attacker owns, nothing
//! outside of it is removed, replaced or read.

use std::fs::{self, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use crate::samples::header;
use samara_trace::FileSink;
use samara_trace::output::{Access, OutputFile, OutputFolder, OutputName};

const PRECIOUS: &str = "precious";

/// The folder of an attacker, and a file elsewhere that is to stay as it is.
struct Scene {
    _dir: tempfile::TempDir,
    at: PathBuf,
    victim: PathBuf,
}

impl Scene {
    fn new() -> Scene {
        let dir = tempfile::tempdir().unwrap();
        let (at, safe) = (dir.path().join("attacker"), dir.path().join("safe"));
        fs::create_dir(&at).unwrap();
        fs::create_dir(&safe).unwrap();
        let victim = safe.join("x");
        fs::write(&victim, PRECIOUS).unwrap();
        Scene { _dir: dir, at, victim }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.at.join(name)
    }

    /// Puts a link to the victim in the place of what has the name.
    fn swap(&self, name: &str) {
        symlink(&self.victim, self.path("swap")).unwrap();
        fs::rename(self.path("swap"), self.path(name)).unwrap();
    }

    /// That the victim is as it was, and its folder too.
    fn check(&self) {
        assert_eq!(fs::read_to_string(&self.victim).unwrap(), PRECIOUS);
        assert_eq!(fs::read_dir(self.victim.parent().unwrap()).unwrap().count(), 1);
    }

    fn aside(&self) -> Option<String> {
        let names = fs::read_dir(&self.at).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.into_iter().find(|name| name.ends_with(".old"))
    }
}

fn replace(path: &Path) -> OutputFile {
    OutputName::resolve(path).unwrap().replace(Access::Owner).unwrap()
}

fn whole(path: &Path) -> OutputFile {
    OutputName::resolve(path).unwrap().whole(Access::Owner).unwrap()
}

/// Each step that removes or moves something, after a link was put there.
#[test]
fn a_link_that_came_meanwhile_is_not_followed() {
    // A new file, which is removed.
    let scene = Scene::new();
    let sink = FileSink::create(scene.path("x"), &header()).unwrap();
    scene.swap("x");
    sink.discard();
    scene.check();
    assert!(scene.path("x").is_symlink(), "what is not samara's is not removed");

    // An older file, which is put back.
    let scene = Scene::new();
    fs::write(scene.path("x"), "older").unwrap();
    let sink = FileSink::create(scene.path("x"), &header()).unwrap();
    scene.swap("x");
    sink.discard();
    scene.check();
    let aside = scene.aside().unwrap();
    assert_eq!(fs::read_to_string(scene.path(&aside)).unwrap(), "older", "it stays beside what came");

    // The older file itself is exchanged: it is neither put back nor removed.
    for commit in [false, true] {
        let scene = Scene::new();
        fs::write(scene.path("x"), "older").unwrap();
        let mut output = replace(&scene.path("x"));
        let aside = scene.aside().unwrap();
        scene.swap(&aside);
        if commit {
            output.commit().unwrap()
        } else {
            output.discard()
        }
        scene.check();
        assert!(scene.path(&aside).is_symlink());
        assert_eq!(scene.path("x").is_file(), commit, "a new file that is discarded goes");
    }

    // A file that appears when it is whole replaces the link itself.
    let scene = Scene::new();
    let mut output = whole(&scene.path("x"));
    output.write_all(b"new").unwrap();
    scene.swap("x");
    output.commit().unwrap();
    scene.check();
    assert!(!scene.path("x").is_symlink() && fs::read_to_string(scene.path("x")).unwrap() == "new");
}

#[test]
fn a_pipe_that_came_meanwhile_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    let mut output = whole(&path);
    output.write_all(b"new").unwrap();
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert_eq!(output.commit().unwrap_err().kind(), ErrorKind::AlreadyExists);
    let names: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_type().unwrap()).collect();
    assert!(names.len() == 1 && std::os::unix::fs::FileTypeExt::is_fifo(&names[0]), "{names:?}");
}

/// The name is a link, which leads elsewhere later; or its folder is another one later.
#[test]
fn a_name_is_resolved_once() {
    for older in [false, true] {
        let scene = Scene::new();
        if older {
            fs::write(scene.path("target"), "older").unwrap();
        }
        symlink("target", scene.path("x")).unwrap();
        let sink = FileSink::create(scene.path("x"), &header()).unwrap();
        assert!(scene.path("target").is_file());
        scene.swap("x");
        sink.discard();
        scene.check();
        assert_eq!(fs::read_to_string(scene.path("target")).ok().as_deref(), older.then_some("older"));

        let scene = Scene::new();
        let (folder, moved) = (scene.path("folder"), scene.path("moved"));
        fs::create_dir(&folder).unwrap();
        if older {
            fs::write(folder.join("x"), "older").unwrap();
        }
        let sink = FileSink::create(folder.join("x"), &header()).unwrap();
        let mut output = whole(&folder.join("y"));
        fs::rename(&folder, &moved).unwrap();
        symlink(scene.victim.parent().unwrap(), &folder).unwrap();
        sink.discard();
        output.commit().unwrap();
        scene.check();
        assert_eq!(fs::read_to_string(moved.join("x")).ok().as_deref(), older.then_some("older"));
        assert!(moved.join("y").is_file());
    }
}

/// An attacker exchanges the name, and the older file's, all the time.
#[test]
fn an_attacker_who_exchanges_names_all_the_time_reaches_nothing_outside() {
    const ROUNDS: u32 = 200;
    let scene = Scene::new();
    let (over, swaps) = (AtomicBool::new(false), AtomicU32::new(0));
    let attack = || {
        while !over.load(Relaxed) {
            let aside = scene.aside();
            for name in std::iter::once("x").chain(aside.as_deref()) {
                let Ok(there) = fs::symlink_metadata(scene.path(name)) else { continue };
                if there.is_file() {
                    let _ = symlink(&scene.victim, scene.path("swap"));
                    swaps.fetch_add(u32::from(fs::rename(scene.path("swap"), scene.path(name)).is_ok()), Relaxed);
                } else if fastrand::u32(..64) == 0 {
                    let _ = fs::remove_file(scene.path(name));
                }
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(attack);
        let made: Vec<bool> = (0..ROUNDS)
            .map(|round| {
                // A link that is there already is what the user named: it is written through.
                let _ = fs::remove_file(scene.path("x"));
                if round % 2 == 1 {
                    let _ = fs::File::create_new(scene.path("x"));
                }
                let before = swaps.load(Relaxed);
                let sink = FileSink::create(scene.path("x"), &header());
                // The attacker's turn, if it comes: then both go on at the same time.
                for _ in 0..1000 {
                    if sink.is_err() || swaps.load(Relaxed) > before {
                        break;
                    }
                    std::thread::yield_now();
                }
                let made = sink.map(FileSink::discard);
                let there = fs::read_to_string(&scene.victim).unwrap_or_default();
                over.store(there != PRECIOUS || round + 1 == ROUNDS, Relaxed);
                assert_eq!(there, PRECIOUS, "round {round}: the victim is another one");
                made.is_ok()
            })
            .collect();
        let made = made.into_iter().filter(|made| *made).count();
        println!("{made} of {ROUNDS} files were made, {} swaps", swaps.load(Relaxed));
        assert!(made > 0 && swaps.load(Relaxed) > 0, "nothing was exchanged, or nothing made");
    });
    scene.check();
}

/// Names that samara chose: existing files stay, and the next number is taken.
#[test]
fn a_chosen_name_takes_over_nothing() {
    let scene = Scene::new();
    scene.swap("p-1.samara");
    fs::write(scene.path("p-1-2.samara"), "planted").unwrap();
    nix::unistd::mkfifo(&scene.path("p-1-3.samara"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let (mut output, path) = OutputFile::create_new(&scene.path("p-1.samara"), Access::Owner).unwrap();
    output.write_all(b"new").unwrap();
    output.commit().unwrap();
    assert_eq!(path, scene.path("p-1-4.samara"));
    assert_eq!(fs::read_to_string(path).unwrap(), "new");
    assert_eq!(fs::read_to_string(scene.path("p-1-2.samara")).unwrap(), "planted");
    scene.check();

    // A page replaces this user's own, and nothing else.
    let choose = |name: &str| OutputName::choose(&scene.path(name)).unwrap();
    scene.swap("page.html");
    nix::unistd::mkfifo(&scene.path("page-2.html"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for _ in 0..2 {
        let (name, path) = choose("page.html");
        assert_eq!(path, scene.path("page-3.html"));
        let mut output = name.whole(Access::Owner).unwrap();
        scene.swap("page-3.html");
        output.commit().unwrap();
        assert!(!path.is_symlink() && path.is_file());
    }
    fs::write(scene.path("no-extension"), "").unwrap();
    let (_, path) = OutputFile::create_new(&scene.path("no-extension"), Access::Owner).unwrap();
    assert_eq!(path, scene.path("no-extension-2"));
    if nix::unistd::geteuid().is_root() {
        chown(scene.path("page-3.html"), Some(65534), Some(65534)).unwrap();
        assert_eq!(choose("page.html").1, scene.path("page-4.html"), "another user's page");
    }
    fs::write(scene.path("kept.html"), "").unwrap();
    fs::set_permissions(scene.path("kept.html"), Permissions::from_mode(0o444)).unwrap();
    assert_eq!(choose("kept.html").1, scene.path("kept-2.html"), "a page that its user protects");
    scene.check();
}

/// Below the directory of a fleet no link is followed.
#[test]
fn a_fleet_s_directory_leads_nowhere_else() {
    let scene = Scene::new();
    let folder = OutputFolder::make(&scene.path("fleet/of/traces"), Access::Owner).unwrap();
    for made in ["fleet", "fleet/of", "fleet/of/traces"] {
        assert_eq!(scene.path(made).metadata().unwrap().mode() & 0o777, 0o700);
    }
    let fleet = scene.path("fleet/of/traces");
    symlink(scene.victim.parent().unwrap(), fleet.join("events")).unwrap();
    let error = folder.whole(Path::new("events/day=1/x")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotADirectory, "{error}");
    for out in ["stacks/../../x", "/x", ".."] {
        assert_eq!(folder.whole(Path::new(out)).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    let mut output = folder.whole(Path::new("stacks/day=1/x")).unwrap();
    symlink(&scene.victim, fleet.join("stacks/day=1/x")).unwrap();
    output.commit().unwrap();
    assert!(fleet.join("stacks/day=1/x").symlink_metadata().unwrap().is_file());
    // The next run replaces it, unless it is protected, or another user's.
    folder.whole(Path::new("stacks/day=1/x")).unwrap().commit().unwrap();
    let is_kept = || {
        let error = folder.whole(Path::new("stacks/day=1/x")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    };
    let file = fleet.join("stacks/day=1/x");
    if nix::unistd::geteuid().is_root() {
        chown(&file, Some(65534), None).unwrap();
        is_kept();
        chown(&file, Some(0), None).unwrap();
    }
    let mut later = folder.whole(Path::new("stacks/day=1/x")).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o400)).unwrap();
    is_kept();
    assert_eq!(later.commit().unwrap_err().kind(), ErrorKind::AlreadyExists, "protected meanwhile");
    scene.check();
}

/// Another user's entry in a folder where all users may make entries: it is neither followed nor
/// written to, whatever the kernel's settings.
#[test]
fn what_others_put_into_a_common_folder_is_refused() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: files of another user are made by root");
        return;
    }
    let scene = Scene::new();
    fs::set_permissions(&scene.at, Permissions::from_mode(0o1777)).unwrap();
    symlink(&scene.victim, scene.path("link")).unwrap();
    fs::write(scene.path("file"), "planted").unwrap();
    nix::unistd::mkfifo(&scene.path("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let reader = fs::File::options().read(true).write(true).open(scene.path("fifo")).unwrap();
    for name in ["link", "file", "fifo"] {
        assert!(OutputName::resolve(&scene.path(name)).is_ok(), "one's own {name}");
        std::os::unix::fs::lchown(scene.path(name), Some(65534), Some(65534)).unwrap();
        let error = OutputName::resolve(&scene.path(name)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{name}: {error}");
    }
    drop(reader);
    // A link to a folder, too.
    fs::create_dir(scene.path("folder")).unwrap();
    symlink("folder", scene.path("to_folder")).unwrap();
    assert!(OutputFolder::make(&scene.path("to_folder"), Access::Owner).is_ok(), "one's own");
    std::os::unix::fs::lchown(scene.path("to_folder"), Some(65534), Some(65534)).unwrap();
    let error = OutputFolder::make(&scene.path("to_folder"), Access::Owner).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    // A file that another user puts there meanwhile is not replaced either.
    let (path, planted) = (scene.path("late"), scene.path("planted"));
    let mut output = OutputName::resolve(&path).unwrap().whole(Access::Owner).unwrap();
    fs::write(&planted, "theirs").unwrap();
    std::os::unix::fs::lchown(&planted, Some(65534), Some(65534)).unwrap();
    fs::rename(&planted, &path).unwrap();
    assert_eq!(output.commit().unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
    // Without a reader it is refused, too, and not waited for.
    let (path, (answer, answered)) = (scene.path("fifo"), std::sync::mpsc::channel());
    std::thread::spawn(move || answer.send(OutputName::resolve(&path).map_err(|why| why.kind()).err()));
    assert_eq!(answered.recv_timeout(std::time::Duration::from_secs(60)), Ok(Some(ErrorKind::PermissionDenied)));
    scene.check();
}

/// A new file goes, also where the older one, beside it, has gone meanwhile.
#[test]
fn a_discarded_file_goes_without_the_older_one() {
    let scene = Scene::new();
    fs::write(scene.path("x"), "older").unwrap();
    let mut output = replace(&scene.path("x"));
    output.write_all(b"half").unwrap();
    fs::remove_file(scene.path(&scene.aside().unwrap())).unwrap();
    output.discard();
    assert!(!scene.path("x").exists(), "half of a file");
    // But not what another has put there.
    fs::write(scene.path("x"), "older").unwrap();
    let mut output = replace(&scene.path("x"));
    fs::remove_file(scene.path(&scene.aside().unwrap())).unwrap();
    fs::remove_file(scene.path("x")).unwrap();
    fs::write(scene.path("x"), "theirs").unwrap();
    output.discard();
    assert_eq!(fs::read_to_string(scene.path("x")).unwrap(), "theirs");
}

/// The name beside which an older file is moved comes up at that very moment: what has it stays.
#[test]
fn what_comes_up_under_the_other_name_is_not_overwritten() {
    let scene = Scene::new();
    let (next, over) = (AtomicU32::new(0), AtomicBool::new(false));
    let pid = std::process::id();
    // The number of the older file: theirs are empty.
    let number = || {
        let is_older = |name: &String| fs::metadata(scene.path(name)).is_ok_and(|of| of.len() > 0);
        scene.aside().filter(is_older)?.split(['-', '.']).nth_back(1)?.parse::<u32>().ok()
    };
    std::thread::scope(|scope| {
        let theirs = scope.spawn(|| {
            while !over.load(Relaxed) {
                let path = scene.path(&format!(".samara-{pid}-{}.old", next.load(Relaxed)));
                let Ok(file) = fs::File::create_new(&path) else { continue };
                // Only the recorder can have replaced it: this thread has not removed it yet.
                if file.metadata().is_ok_and(|of| of.nlink() == 0) {
                    return true;
                }
                let _ = fs::remove_file(&path);
            }
            false
        });
        for _ in 0..2_000 {
            let output = fs::write(scene.path("x"), "older")
                .and_then(|()| OutputName::resolve(&scene.path("x")))
                .and_then(|name| name.replace(Access::Owner));
            if let Some(number) = number() {
                next.store(number.wrapping_add(1), Relaxed);
            }
            drop(output);
            if theirs.is_finished() {
                break;
            }
        }
        over.store(true, Relaxed);
        assert!(!theirs.join().unwrap(), "a file was overwritten");
    });
}

/// The permissions of an older file count only in a folder where only this user makes entries.
#[test]
fn an_older_file_s_permissions_are_kept_in_a_private_folder() {
    for (folder, kept) in [(0o755, 0o644), (0o775, 0o600), (0o777, 0o600), (0o1777, 0o600)] {
        let scene = Scene::new();
        fs::set_permissions(&scene.at, Permissions::from_mode(folder)).unwrap();
        for make in [replace, whole] {
            fs::write(scene.path("x"), "older").unwrap();
            fs::set_permissions(scene.path("x"), Permissions::from_mode(0o644)).unwrap();
            make(&scene.path("x")).commit().unwrap();
            let now = scene.path("x").metadata().unwrap();
            assert_eq!((now.len(), now.mode() & 0o7777), (0, kept), "in a folder of mode {folder:o}");
            fs::remove_file(scene.path("x")).unwrap();
        }
    }
    if nix::unistd::geteuid().is_root() {
        let scene = Scene::new();
        for make in [replace, whole] {
            fs::write(scene.path("x"), "older").unwrap();
            chown(scene.path("x"), Some(65534), Some(65534)).unwrap();
            fs::set_permissions(scene.path("x"), Permissions::from_mode(0o666)).unwrap();
            make(&scene.path("x")).commit().unwrap();
            let now = scene.path("x").metadata().unwrap();
            assert_eq!((now.uid(), now.mode() & 0o7777), (0, 0o600), "another user's file");
            fs::remove_file(scene.path("x")).unwrap();
        }
    }
}

/// One name, one file, a device; nothing is changed by a look.
#[test]
fn names_are_compared_before_anything_is_made() {
    let scene = Scene::new();
    fs::write(scene.path("file"), "older").unwrap();
    fs::hard_link(scene.path("file"), scene.path("hard")).unwrap();
    symlink("file", scene.path("link")).unwrap();
    symlink("new", scene.path("dangling")).unwrap();
    symlink("loop", scene.path("loop")).unwrap();
    let name = |name: &str| OutputName::resolve(&scene.path(name)).unwrap();
    for (a, b, same) in [
        ("file", "link", true),
        ("file", "hard", true),
        ("new", "../attacker/./new", true),
        ("new", "dangling", true),
        ("new", "newer", false),
        ("new", "file", false),
        ("new", "../safe/new", false),
        ("/dev/null", "/dev/null", false),
    ] {
        assert_eq!(name(a).is_same(&name(b)), same, "{a} and {b}");
    }
    for (wrong, kind) in [
        ("", ErrorKind::NotFound),
        ("/", ErrorKind::IsADirectory),
        (".", ErrorKind::IsADirectory),
        ("file/", ErrorKind::IsADirectory),
        ("file/x", ErrorKind::NotADirectory),
        ("no/x", ErrorKind::NotFound),
    ] {
        let path = if wrong.is_empty() { PathBuf::new() } else { scene.path(wrong) };
        assert_eq!(OutputName::resolve(&path).unwrap_err().kind(), kind, "{wrong:?}");
    }
    assert!(OutputName::resolve(&scene.path("loop")).is_err());
    assert_eq!(fs::read_to_string(scene.path("file")).unwrap(), "older");
    assert!(!scene.path("new").exists());
    // What was opened and is another one now is not replaced.
    let file = name("file");
    fs::remove_file(scene.path("file")).unwrap();
    fs::write(scene.path("file"), "another").unwrap();
    assert_eq!(file.replace(Access::Owner).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(fs::read_to_string(scene.path("file")).unwrap(), "another");
}
