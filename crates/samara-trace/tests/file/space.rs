//! A space of a trace file and its verdicts through `Trace`: equal to those of the totals.

use std::path::PathBuf;

use proptest::prelude::*;
use samara_trace::event::{AreaRecord, Event, EventKind, Step, StepKind};
use samara_trace::file::{Fault, TraceReader, TraceWriter};
use samara_trace::summary::Tally;
use samara_trace::{Moment, SpaceAt, SpaceError, Trace};

use crate::samples::{area, ends_early, header};

const PAGE: u64 = 0x1000;
const PLACE: u64 = 0x10_0000;

/// A trace under construction. Each process has the space of its own number.
#[derive(Default)]
struct Made {
    events: Vec<Event>,
    /// The number of the stack that calls have.
    stack: Option<u32>,
}

impl Made {
    fn event(&mut self, kind: EventKind, pid: u32) -> &mut Event {
        let seq = self.events.len() as u64;
        let event = Event {
            entry_ns: seq * 1000,
            exit_ns: seq * 1000 + 500,
            space: pid.into(),
            pid,
            tid: pid,
            ..Event::new(seq, kind)
        };
        self.events.push(event);
        self.events.last_mut().unwrap()
    }

    fn exec(&mut self, pid: u32) {
        let event = self.event(EventKind::Exec, pid);
        (event.text, event.window) = ("/bin/app".into(), Some((0, u64::MAX)));
        event.areas = vec![area(PAGE, 2 * PAGE, "/bin/app")];
    }

    fn call(&mut self, pid: u32, nr: u32, place: u64, kind: StepKind, areas: Vec<AreaRecord>) {
        let (start, end, stack) = (PLACE + place * 2 * PAGE, PLACE + (place * 2 + 1) * PAGE, self.stack);
        let event = self.event(EventKind::Call, pid);
        (event.nr, event.stack, event.window) = (Some(nr), stack, Some((start, end)));
        (event.args, event.result) = ([start, PAGE, 3, 0x22, 0, 0], if nr == 9 { start as i64 } else { 0 });
        (event.plan, event.areas) = (vec![Step { kind, start, end }], areas);
    }

    /// Maps a page at the place of this number, beside which nothing is.
    fn map(&mut self, pid: u32, place: u64) {
        let start = PLACE + place * 2 * PAGE;
        self.call(pid, 9, place, StepKind::Mapped, vec![area(start, start + PAGE, "")]);
    }

    fn unmap(&mut self, pid: u32, place: u64) {
        self.call(pid, 11, place, StepKind::Unmapped, Vec::new());
    }

    fn define(&mut self, kind: EventKind, args: [u64; 2], text: &str) {
        let event = self.event(kind, 0);
        (event.args[0], event.args[1], event.text) = (args[0], args[1], text.into());
    }

    fn bytes(&self) -> Vec<u8> {
        let mut writer = TraceWriter::new(Vec::new(), &header()).unwrap();
        self.events.chunks(64).for_each(|batch| writer.write(batch).unwrap());
        writer.finish().unwrap();
        std::mem::take(writer.output())
    }

    fn space(&self, moment: Moment) -> Result<SpaceAt, SpaceError> {
        let bytes = self.bytes();
        Trace::new(TraceReader::new(&*bytes).unwrap()).space(moment)
    }
}

/// A program that maps a hundred pages and unmaps half of them.
fn program() -> Made {
    let mut made = Made::default();
    made.exec(7);
    (0..100).for_each(|place| made.map(7, place));
    (0..50).for_each(|place| made.unmap(7, place));
    made
}

fn saved(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.samara");
    std::fs::write(&path, bytes).unwrap();
    (dir, path)
}

#[test]
fn a_file_tells_its_space_at_each_moment() {
    let (_dir, path) = saved(&program().bytes());
    let space = |moment| Trace::open(&path).unwrap().space(moment).unwrap();
    let peak = space(Moment::Peak);
    assert_eq!((peak.pid, &*peak.program, peak.ns, peak.why.areas), (7, "/bin/app", 101_000, 101));
    assert_eq!((peak.areas.len(), peak.alone), (101, None));
    assert!(peak.damage.is_none());
    assert_eq!((peak.verdicts()[0].kind.name(), peak.verdicts()[0].areas), ("one-origin", 100));
    assert_eq!(peak.sites[peak.verdicts()[0].parts[0].site as usize].nr, Some(9));
    assert_eq!([Moment::Event(10), Moment::Time(10_500)].map(|at| space(at).why.areas), [11, 11]);
    assert_eq!([Moment::Event(150), Moment::Time(u64::MAX)].map(|at| space(at).why.areas), [51, 51]);
    let of = |pid, moment| Trace::open(&path).unwrap().space_of(pid, moment);
    assert_eq!(of(7, Moment::Event(3)).unwrap().why.areas, 4);
    assert!(matches!(of(8, Moment::Peak), Err(SpaceError::NoAreas(Some(8)))));
}

#[test]
fn what_cannot_be_told_is_a_typed_error() {
    let whole = program();
    assert!(matches!(whole.space(Moment::Event(151)), Err(SpaceError::FewerEvents)));
    assert!(matches!(Made::default().space(Moment::Peak), Err(SpaceError::NoAreas(None))));
    let missing = Trace::open("/nonexistent/t.samara").unwrap_err();
    assert!(matches!(missing.fault, Fault::Io(_)), "{missing}");
    // The events before the damage count.
    let bytes = whole.bytes();
    let (_dir, path) = saved(&bytes[..bytes.len() - 200]);
    let space = Trace::open(&path).unwrap().space(Moment::Peak).unwrap();
    assert!(ends_early(&space.damage), "{:?}", space.damage);
    assert_eq!(space.why.areas, 101);
    let (_dir, path) = saved(&bytes[..bytes.len() / 8]);
    let nothing = match Trace::open(&path).map(|trace| trace.space(Moment::Peak)) {
        Ok(Err(SpaceError::File(error))) | Err(error) => error,
        Ok(other) => panic!("{other:?}"),
    };
    assert!(ends_early(&Some(nothing)));
}

/// Functions are named at the end of a trace: a moment before that has the names too, and calls
/// from one line are one cause, however many callers there are.
#[test]
fn a_moment_has_the_names_of_the_end() {
    let mut made = Made::default();
    made.exec(7);
    made.define(EventKind::Module, [0, 0], "- /bin/app");
    made.define(EventKind::Stack, [0, 0], "0+10 0+30");
    made.define(EventKind::Stack, [1, 0], "0+12 0+40");
    for place in 0..80 {
        made.stack = Some(place % 2);
        made.map(7, place.into());
    }
    let last = made.events.len() as u64 - 1;
    made.unmap(7, 0);
    for at in [0x10, 0x12] {
        made.define(EventKind::Symbol, [0, at], "load\tapp.c:3");
    }
    for space in [Moment::Event(last), Moment::Time(last * 1000 + 500)].map(|at| made.space(at).unwrap()) {
        let part = space.verdicts()[0].parts[0];
        assert_eq!((part.times, part.sites), (80, 2));
    }
}

fn told(space: &SpaceAt) -> String {
    let SpaceAt { pid, program, ns, why, failures, splits, merges, .. } = space;
    format!("{pid} {program} {ns} {why:?} {failures:?} {splits} {merges}")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if crate::samples::is_long() { 256 } else { 24 }))]

    /// The totals of a trace have the same largest space, and the same answer for a moment.
    #[test]
    fn totals_tell_the_same(
        steps in prop::collection::vec((0..3_u32, 0..10_u32, 0..60_u64), 1..300),
        at in 0..300_u64,
    ) {
        let mut made = Made::default();
        for (pid, what, place) in steps {
            match what {
                0 if made.events.iter().any(|event| event.pid == pid) => {
                    made.event(EventKind::Exit, pid);
                }
                0 => made.exec(pid),
                1..=3 => made.unmap(pid, place),
                _ => made.map(pid, place),
            }
        }
        let (mut tally, mut then) = (Tally::default(), Tally::default());
        tally.set_limit(header().max_map_count);
        then.set_limit(header().max_map_count);
        made.events.iter().for_each(|event| tally.add(event));
        made.events.iter().filter(|event| event.seq <= at).for_each(|event| then.add(event));
        let summary = tally.summary();
        let by_totals = summary.largest.as_ref().map(|largest| {
            let (pid, program, ns, why) = (largest.pid, &largest.program, largest.ns, largest.why.as_ref());
            format!("{pid} {program} {ns} {:?} {:?} {} {}", why.unwrap(), summary.failures, summary.splits, summary.merges)
        });
        prop_assert_eq!(made.space(Moment::Peak).ok().as_ref().map(told), by_totals);
        if at < made.events.len() as u64 {
            let by_totals = then.now(None).map(|now| (now.pid, now.ns, format!("{:?}", now.why)));
            let space = made.space(Moment::Event(at)).ok();
            prop_assert_eq!(space.map(|space| (space.pid, space.ns, format!("{:?}", Some(space.why)))), by_totals);
        }
    }
}
