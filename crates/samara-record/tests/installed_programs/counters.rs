//! The recorder's counters equal the totals of the events in the file.

use samara_record::{Options, record};
use samara_trace::FileSink;
use samara_trace::file::TraceReader;

#[test]
fn counters_and_summary_agree() {
    let _recording = crate::RECORDING.lock();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.samara");
    let script = "/bin/true; (/bin/true; /bin/true) & echo x | cat >/dev/null; wait";
    let options = Options::new("sh").args(["-c", script]);
    let mut sink = FileSink::create(&path, &options.header()).unwrap();
    sink.sum_up();
    let outcome = record(&options, &mut sink).unwrap();
    let written = sink.finish();
    assert!(outcome.status.success());
    assert!(written.error.is_none());
    let (c, s) = (&outcome.counters, written.summary.as_ref().unwrap());
    assert_eq!((c.events, c.processes), (s.events, s.processes));
    assert_eq!((c.differences, s.differences), (0, 0));
    assert_eq!((c.areas_peak, c.areas_final), (s.areas_peak, s.areas_final));
    assert_eq!(c.mapped_bytes_peak, s.mapped_bytes_peak);
    assert_eq!((c.splits, c.merges), (s.splits, s.merges));
    assert_eq!(s.compared.0, s.compared.1);
    let mut reader = TraceReader::new(std::fs::File::open(&path).unwrap()).unwrap();
    assert_eq!(reader.by_ref().map(Result::unwrap).count() as u64, c.events);
    assert!(reader.complete());
}
