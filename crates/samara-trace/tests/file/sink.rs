//! The sink: every event reaches the file, soon, and a recorder that dies leaves a readable file.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::samples::{ends_early, event, header, read};
use samara_trace::FileSink;
use samara_trace::Sink;
use samara_trace::event::Event;

#[test]
fn every_event_arrives_once_and_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.samara");
    let mut sink = FileSink::create(&path, &header()).unwrap();
    sink.sum_up();
    for seq in 0..30_000 {
        sink.event(event(seq)).unwrap();
    }
    let written = sink.finish();
    assert!(written.error.is_none(), "{:?}", written.error);
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!((written.events, written.bytes), (30_000, bytes.len() as u64));
    assert_eq!(written.summary.unwrap().events, 30_000);
    let (events, error) = read(&bytes);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(events, (0..30_000).map(event).collect::<Vec<_>>());
}

/// An existing file is unchanged until events come; without events no new file is left behind.
#[test]
fn a_recording_of_nothing_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (old, new, link) = (dir.path().join("old"), dir.path().join("new"), dir.path().join("link"));
    std::os::unix::fs::symlink("target", &link).unwrap();
    std::fs::write(&old, "x".repeat(100_000)).unwrap();
    for path in [&old, &new, &link] {
        FileSink::create(path, &header()).unwrap().discard();
    }
    assert_eq!(std::fs::read(&old).unwrap().len(), 100_000);
    assert!(!new.exists() && link.is_symlink() && !link.exists());
    drop(FileSink::create(&old, &header()).unwrap());
    assert_eq!(std::fs::read(&old).unwrap().len(), 100_000);

    for path in [&old, &new, &link] {
        let mut sink = FileSink::create(path, &header()).unwrap();
        sink.event(event(0)).unwrap();
        sink.discard();
        let (events, error) = read(&std::fs::read(path).unwrap());
        assert!(events.len() == 1 && ends_early(&error), "what came is kept: {path:?}: {error:?}");
    }
    assert!(link.is_symlink());
    let written = FileSink::create(&old, &header()).unwrap().finish();
    assert!(written.error.is_none() && read(&std::fs::read(&old).unwrap()).1.is_none(), "an empty trace");
    assert!(written.summary.is_none(), "no totals without `sum_up`");
}

/// A recorder that is killed does not run `finish` or `drop`: what it gave the sink some time
/// before is in the file.
#[test]
fn events_reach_the_file_without_finish() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.samara");
    let mut sink = FileSink::create(&path, &header()).unwrap();
    for seq in 0..10 {
        sink.event(event(seq)).unwrap();
    }
    wait_for_events(&path, 10);
    std::mem::forget(sink);
}

/// Waits until an unfinished trace has this number of events.
fn wait_for_events(path: &Path, count: usize) {
    let start = Instant::now();
    loop {
        let (events, error) = read(&std::fs::read(path).unwrap());
        assert!(ends_early(&error), "{error:?}");
        if events.len() == count {
            return;
        }
        // The limit makes a message of a hang, and no machine is as busy.
        assert!(start.elapsed() < Duration::from_secs(600), "{} of {count} events", events.len());
        std::thread::sleep(Duration::from_millis(5)); // between two looks
    }
}

#[test]
fn a_dropped_sink_leaves_no_end_marker() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.samara");
    let mut sink = FileSink::create(&path, &header()).unwrap();
    sink.event(event(0)).unwrap();
    drop(sink);
    let (events, error) = read(&std::fs::read(&path).unwrap());
    assert_eq!(events.len(), 1);
    assert!(ends_early(&error), "{error:?}");
}

#[test]
fn a_full_device_is_refused_at_once() {
    let error = FileSink::create("/dev/full", &header()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
}

/// After a write error the file ends at its last whole batch, and the events that still come are
/// summed up; here, events that do not follow.
#[test]
fn a_failure_ends_the_file_and_not_the_sums() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.samara");
    let mut sink = FileSink::create(&path, &header()).unwrap();
    sink.sum_up();
    sink.event(event(0)).unwrap();
    wait_for_events(&path, 1);
    // More than wait to be written at once, so that some come after the failure.
    let text = "x".repeat(1 << 20);
    let others = (5..133).map(|seq| Event { text: text.clone(), ..event(seq) });
    others.for_each(|event| sink.event(event).unwrap());
    let written = sink.finish();
    assert_eq!((written.events, written.summary.unwrap().events), (1, 129));
    let error = written.error.unwrap().to_string();
    assert!(error.contains("event 5 came where event 1 was due"), "{error}");
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(written.bytes, bytes.len() as u64);
    assert!(ends_early(&read(&bytes).1));
}
