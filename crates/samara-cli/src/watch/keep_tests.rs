use std::time::UNIX_EPOCH;

use super::*;

fn folder(path: &Path, most_bytes: u64) -> Folder {
    Folder::new(path.to_owned(), most_bytes, Duration::from_secs(100))
}

/// Files of 100 bytes, one a second.
fn fill(path: &Path, seconds: std::ops::Range<u64>) {
    fill_of(path, 7, seconds);
}

fn fill_of(path: &Path, pid: u32, seconds: std::ops::Range<u64>) {
    for second in seconds {
        let time = UNIX_EPOCH + Duration::from_secs(second);
        let name = KeptFile::file_name(time, "a-b /\n", pid, 1000 + second, Reason::At(80));
        fs::write(path.join(name), [0; 100]).unwrap();
    }
}

#[test]
fn names_tell_what_was_kept() {
    let time = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let name = KeptFile::file_name(time, "x/../é-y", 4711, 52_430, Reason::Growth);
    assert_eq!(name, "2023-11-14T22-13-20Z-x_..___y-4711-52430-growth.samara");
    let kept = KeptFile::parse(&name).unwrap();
    assert_eq!((&*kept.time, &*kept.name, kept.pid), ("2023-11-14T22-13-20Z", "x_..___y", 4711));
    assert_eq!((kept.areas, &*kept.reason), (52_430, "growth"));
    let beside = recording_beside(&Path::new("kept").join(&name), Reason::Growth);
    let recorded = KeptFile::parse(beside.file_name().unwrap().to_str().unwrap()).unwrap();
    assert_eq!(beside.parent(), Some(Path::new("kept")));
    assert!(recorded.is_recording() && !kept.is_recording());
    assert_eq!(recorded, KeptFile { reason: "record".into(), ..kept });
    let nameless = KeptFile::parse(&KeptFile::file_name(time, "", 7, 8, Reason::At(1))).unwrap();
    assert_eq!((&*nameless.name, nameless.pid), ("_", 7));
    for other in [
        "t.samara",
        "2023-11-14T22-13-20Z.samara",
        "2023-11-14T22-13-20Z-x-1-2-growth-3.samara",
        "2023-11-14T22:13:20Z-x-1-2-growth.samara",
        "2023-11-14T22-13-20Z-x-1-2-growth.html",
        "2023-11-14T22-13-20Z-x-y-2-growth.samara",
        "\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}.samara",
    ] {
        assert_eq!(KeptFile::parse(other), None, "{other}");
    }
}

#[test]
fn the_oldest_go_first() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), 0..10);
    fs::write(dir.path().join("t.samara"), [0; 5000]).unwrap();
    let folder = folder(dir.path(), 850);
    folder.make_room(UNIX_EPOCH + Duration::from_secs(20), 120).unwrap();
    let left = folder.list().unwrap();
    assert_eq!(left.iter().map(|kept| kept.areas).collect::<Vec<_>>(), (1003..1010).collect::<Vec<_>>());
    assert!(left.iter().map(|kept| kept.bytes).sum::<u64>() + 120 <= 850);
    assert!(dir.path().join("t.samara").exists(), "it is the user's");
}

/// One whose areas are kept again and again pushes out its own files, and none of the others.
#[test]
fn each_process_pushes_out_its_own() {
    let dir = tempfile::tempdir().unwrap();
    fill_of(dir.path(), 7, 0..2);
    fill_of(dir.path(), 8, 2..20);
    let now = UNIX_EPOCH + Duration::from_secs(20);
    folder(dir.path(), 500).make_room(now, 100).unwrap();
    let left = folder(dir.path(), 500).list().unwrap();
    assert_eq!(left.iter().map(|kept| kept.areas).collect::<Vec<_>>(), [1000, 1001, 1018, 1019]);
    // With as many of each, the oldest goes.
    folder(dir.path(), 500).make_room(now, 200).unwrap();
    assert_eq!(folder(dir.path(), 500).list().unwrap()[0].areas, 1001);
}

/// A recording counts with its maximum size, and is not removed.
#[test]
fn a_recording_that_is_written_stays() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), 0..4);
    let mut folder = folder(dir.path(), 400);
    folder.recording = folder.list().unwrap().first().map(|kept| kept.path.clone());
    let now = UNIX_EPOCH + Duration::from_secs(1000);
    folder.make_room(now, 200).unwrap();
    assert_eq!(folder.list().unwrap().iter().map(|kept| kept.areas).collect::<Vec<_>>(), [1000]);
    folder.recording = None;
    folder.make_room(now, 0).unwrap();
    assert_eq!(folder.list().unwrap(), []);
}

#[test]
fn what_is_too_old_goes() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), 0..10);
    let folder = folder(dir.path(), u64::MAX);
    folder.make_room(UNIX_EPOCH + Duration::from_secs(105), 0).unwrap();
    assert_eq!(folder.list().unwrap().first().map(|kept| kept.areas), Some(1005));
    folder.make_room(UNIX_EPOCH + Duration::from_secs(10_000), 0).unwrap();
    assert_eq!(folder.list().unwrap(), []);
}

#[test]
fn a_process_is_kept_as_a_trace() {
    let dir = tempfile::tempdir().unwrap();
    let folder = folder(&dir.path().join("new/state"), 1 << 20);
    assert_eq!(folder.list().unwrap(), []);
    let pid = std::process::id();
    let (path, event) = folder.keep(pid, Reason::At(95)).unwrap();
    assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
    assert_eq!(path.parent().unwrap().metadata().unwrap().mode() & 0o777, 0o700);
    let mut reader = samara_trace::file::TraceReader::new(fs::File::open(&path).unwrap()).unwrap();
    assert_eq!(reader.next().unwrap().unwrap(), event);
    assert!(reader.next().is_none() && reader.complete());
    assert!(reader.header().max_map_count.is_some());
    let kept = folder.list().unwrap();
    assert_eq!((kept.len(), kept[0].pid, kept[0].areas), (1, pid, event.areas.len() as u64));
}

#[test]
fn what_cannot_be_kept_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let pid = std::process::id();
    let why = |folder: &Folder, pid| folder.keep(pid, Reason::Growth).unwrap_err().to_string();
    let small = why(&folder(dir.path(), 100), pid);
    assert!(small.contains("all together may have 100: give more by --keep-size"), "{small}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is left");
    let gone = why(&folder(dir.path(), 1 << 20), u32::MAX);
    assert!(gone.contains("there is no process"), "{gone}");
    fs::write(dir.path().join("file"), "").unwrap();
    let file = why(&folder(&dir.path().join("file"), 1 << 20), pid);
    assert!(file.contains("cannot be used") && file.contains("--state"), "{file}");
    // The file system's root always belongs to root; the folder of a process belongs to the
    // process's user.
    let foreign = if geteuid().is_root() { format!("/proc/{}", other_users()) } else { "/".to_owned() };
    let foreign = why(&folder(Path::new(&foreign), 1 << 20), pid);
    assert!(foreign.contains("is that of user") || geteuid().is_root(), "{foreign}");
}

/// A process of another user, if there is one.
fn other_users() -> u32 {
    let pids = super::super::find::Which::default().processes().unwrap();
    let foreign = |pid: &u32| fs::metadata(format!("/proc/{pid}")).is_ok_and(|of| of.uid() != geteuid().as_raw());
    pids.into_iter().find(foreign).unwrap_or(1)
}

#[test]
fn the_folder_follows_the_environment() {
    let of = |pairs: &[(&str, &str)]| {
        let find = |name: &str| pairs.iter().find(|(variable, _)| *variable == name).map(|(_, value)| value.into());
        default_folder(find)
    };
    let home = [("STATE_DIRECTORY", "/var/lib/a:/var/lib/b"), ("XDG_STATE_HOME", "/s"), ("HOME", "/home/x")];
    assert_eq!(of(&home), Path::new("/var/lib/a"));
    assert_eq!(of(&home[1..]), Path::new("/s/samara"));
    let users = if geteuid().is_root() { "/var/lib/samara" } else { "/home/x/.local/state/samara" };
    assert_eq!(of(&home[2..]), Path::new(users));
    assert_eq!(of(&[("XDG_STATE_HOME", "relative")]), Path::new("/var/lib/samara"));
}
