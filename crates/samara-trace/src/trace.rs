//! The short path to a space of a trace and its verdicts: [`Trace::open`], [`Trace::space`],
//! [`SpaceAt::verdicts`]. Reads a trace once, from its beginning to its end. Knows no totals.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::event::{AreaRecord, Event, EventKind, StepKind};
use crate::file::{Fault, FileError, Header, Stacks, TraceReader};
use crate::spaces::{Due, Most, Spaces};
use crate::summary::{Failure, count_failure};
use crate::why::{Site, Verdict, Why};

/// Most forks whose parents are kept.
const FORKS: usize = 1 << 18;
/// Most processes whose calls are counted.
const PROCESSES: usize = 4096;

/// A moment of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Moment {
    /// When the space had the most areas, as nearly as one pass over the trace finds it: at its
    /// end, or when it began to shrink after it had grown by a sixteenth.
    #[default]
    Peak,
    /// After the event with this number.
    Event(u64),
    /// This number of nanoseconds after the recording began.
    Time(u64),
}

impl Moment {
    /// Whether the event is over at this moment.
    fn includes(self, event: &Event) -> bool {
        match self {
            Moment::Peak => true,
            Moment::Event(seq) => event.seq <= seq,
            Moment::Time(ns) => event.exit_ns <= ns,
        }
    }
}

/// A trace, opened to look at one of its spaces.
///
/// ```no_run
/// use samara_trace::{Moment, Trace};
/// let space = Trace::open("t.samara")?.space(Moment::Peak)?;
/// println!("process {} ({}): {} areas", space.pid, space.program, space.why.areas);
/// for verdict in space.verdicts() {
///     println!("{:?}: {} areas, {} fewer without", verdict.kind, verdict.areas, verdict.would_go);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Trace<R> {
    reader: TraceReader<R>,
    /// The path where it can be read again.
    path: Option<PathBuf>,
}

impl Trace<File> {
    /// Opens a trace file and reads its header.
    ///
    /// # Errors
    /// As [`TraceReader::new`]; [`Fault::Io`] if the file cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FileError> {
        let path = path.as_ref();
        let file = File::open(path).map_err(|why| FileError { offset: 0, events: 0, fault: Fault::Io(why) })?;
        Ok(Trace::new(TraceReader::new(file)?).with_path(path))
    }
}

impl<R: Read> Trace<R> {
    /// A trace from a reader that has read the header and no event.
    pub fn new(reader: TraceReader<R>) -> Self {
        Trace { reader, path: None }
    }

    /// Says under which name the trace can be read again, if it is a regular file: see
    /// [`SpaceAt::alone`].
    #[must_use]
    pub fn with_path(mut self, path: &Path) -> Self {
        self.path = path.metadata().is_ok_and(|file| file.is_file()).then(|| path.to_owned());
        self
    }

    /// What was recorded, where and when.
    pub fn header(&self) -> &Header {
        self.reader.header()
    }

    /// Looks at the space that has the most areas at a moment. O(n log n) for n events and areas.
    ///
    /// Memory: that of the reader, [`MAX_REPLAY_MEMORY`](crate::file::MAX_REPLAY_MEMORY),
    /// [`MAX_ORIGINS_MEMORY`](crate::why::MAX_ORIGINS_MEMORY) and
    /// [`MAX_STACKS_MEMORY`](crate::file::MAX_STACKS_MEMORY), whatever the file contains.
    ///
    /// # Errors
    /// See [`SpaceError`]. A trace that cannot be read to its end is an error only if no space was
    /// found: see [`SpaceAt::damage`].
    pub fn space(self, moment: Moment) -> Result<SpaceAt, SpaceError> {
        self.look(moment, None)
    }

    /// As [`space`](Trace::space), of this process.
    ///
    /// # Errors
    /// See [`SpaceError`].
    pub fn space_of(self, pid: u32, moment: Moment) -> Result<SpaceAt, SpaceError> {
        self.look(moment, Some(pid))
    }

    fn look(self, moment: Moment, pid: Option<u32>) -> Result<SpaceAt, SpaceError> {
        let limit = self.reader.header().max_map_count;
        let mut walk = Walk::new(self.reader, moment, pid, None, limit);
        let mut alone = None;
        if (walk.found.is_none() || walk.spaces.lost.is_some())
            && let Some(path) = &self.path
            && let Some((most, family)) = walk.most.take()
        {
            let again = Trace::open(path).map_err(SpaceError::File)?.reader;
            let second = Walk::new(again, moment, Some(most), Some(&family), limit);
            if second.found.is_some() {
                (walk, alone) = (second, Some(most));
            }
        }
        walk.told(moment, pid, alone)
    }
}

/// A space of a trace at one moment.
#[derive(Debug)]
#[non_exhaustive]
pub struct SpaceAt {
    /// A process that uses the space.
    pub pid: u32,
    /// The program that it runs.
    pub program: String,
    /// When the space was so, in nanoseconds since the recording began.
    pub ns: u64,
    /// Its areas, ascending, with the reasons that were recorded: see [`Origins::recorded`].
    ///
    /// [`Origins::recorded`]: crate::why::Origins::recorded
    pub areas: Vec<AreaRecord>,
    /// The true areas may differ: events were lost since they were last read, or the effect of a
    /// call is not known.
    pub is_incomplete: bool,
    /// Why it has these areas.
    pub why: Why,
    /// The sites of calls: [`Why`] refers to them by their positions. They count the same events as
    /// `splits`.
    pub sites: Vec<Site>,
    /// The call stacks of the trace, as far as they can be read.
    pub stacks: Stacks,
    /// Failed calls, in the same events: see [`Summary`](crate::summary::Summary::failures).
    pub failures: Vec<Failure>,
    /// Areas that were split in two up to the moment ([`Moment::Peak`]: in the whole trace), by all
    /// processes or by that of [`space_of`](Trace::space_of).
    pub splits: u64,
    /// Pairs of areas that merged into one, in the same events.
    pub merges: u64,
    /// The only followed process, if all processes together exceeded the memory limit: the trace
    /// was then read again for this one.
    pub alone: Option<u32>,
    /// The damage that ended the reading, if any. All results are of the events before it.
    pub damage: Option<FileError>,
}

impl SpaceAt {
    /// Why it has these areas; the verdict that explains most of them comes first.
    pub fn verdicts(&self) -> &[Verdict] {
        &self.why.verdicts
    }
}

/// Why no space was found.
#[derive(Debug)]
#[non_exhaustive]
pub enum SpaceError {
    /// The trace cannot be read.
    File(FileError),
    /// The trace ends before the event of [`Moment::Event`].
    FewerEvents,
    /// No process, or not this one, has areas in the trace or at that moment.
    NoAreas(Option<u32>),
    /// The areas cannot be followed; says why.
    Lost(String),
    /// Following the memory would exceed a limit.
    TooMuch,
}

impl fmt::Display for SpaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpaceError::File(error) => error.fmt(f),
            SpaceError::FewerEvents => f.write_str("it has fewer events: give a lower number or a time"),
            SpaceError::NoAreas(Some(pid)) => {
                write!(f, "process {pid} has no areas in this trace, or none at that moment")
            }
            SpaceError::NoAreas(None) => f.write_str("no process has areas in this trace, or at that moment"),
            SpaceError::Lost(why) => write!(f, "the areas cannot be followed: {why}"),
            SpaceError::TooMuch => f.write_str("there is more memory than can be followed"),
        }
    }
}

impl std::error::Error for SpaceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SpaceError::File(error) => Some(error),
            _ => None,
        }
    }
}

/// The result of reading a trace: its spaces up to a moment, and the names defined after it.
#[derive(Default)]
struct Walk {
    spaces: Spaces,
    stacks: Stacks,
    failures: Vec<Failure>,
    splits: u64,
    merges: u64,
    /// For each process: the calls that it made.
    calls: BTreeMap<u32, u64>,
    /// Time of the last event up to the moment.
    end_ns: u64,
    /// Whether there are events after the moment.
    passed: bool,
    /// The last event.
    last: Option<u64>,
    /// The space at the moment.
    now: Option<Most>,
    /// Why the space has its areas.
    found: Option<Why>,
    damage: Option<FileError>,
    /// The process with the most areas where the replay ended, with its space and the spaces from
    /// which that was forked.
    most: Option<(u32, BTreeSet<u64>)>,
}

impl Walk {
    /// `alone`: no other spaces are followed.
    fn new(
        reader: impl Iterator<Item = Result<Event, FileError>>,
        moment: Moment,
        pid: Option<u32>,
        alone: Option<&BTreeSet<u64>>,
        limit: Option<u64>,
    ) -> Walk {
        let spaces = pid.map_or_else(Spaces::default, |pid| Spaces::default().only(pid));
        let mut walk = Walk { spaces, ..Walk::default() };
        let (mut parents, mut unreadable) = (BTreeMap::new(), false);
        for event in reader {
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    walk.damage = Some(error);
                    break;
                }
            };
            walk.last = Some(event.seq);
            // Names are defined at the end of a trace, so all of it is read.
            if event.kind.defines() {
                unreadable |= !unreadable && walk.stacks.note(&event).is_err();
                continue;
            }
            if !moment.includes(&event) && !walk.passed {
                walk.passed = true;
                walk.now = walk.at(pid);
            }
            if event.kind == EventKind::Fork && parents.len() < FORKS {
                parents.insert(event.space, event.args[0]);
            }
            if !walk.passed && alone.is_none_or(|spaces| spaces.contains(&event.space)) {
                walk.take(&event, moment, limit);
            }
        }
        if !walk.passed {
            walk.now = walk.at_end(moment, pid);
        }
        walk.most = walk.family(pid, &parents);
        if let Some(now) = &walk.now {
            walk.found = walk.spaces.why(now, &walk.stacks, walk.end_ns, limit);
        }
        walk
    }

    /// Moves forward by an event.
    fn take(&mut self, event: &Event, moment: Moment, limit: Option<u64>) {
        self.end_ns = self.end_ns.max(event.exit_ns);
        let steps = |kind| event.plan.iter().filter(|step| step.kind == kind).count() as u64;
        let is_asked = self.spaces.is_asked(event.pid);
        if is_asked {
            self.splits += steps(StepKind::Split);
            self.merges += steps(StepKind::Merged);
        }
        if event.kind == EventKind::Call
            && is_asked
            && let Some(nr) = event.nr
        {
            count_failure(&mut self.failures, event, nr, self.spaces.replay.space(event.space), limit);
        }
        if self.spaces.lost.is_some() {
            return;
        }
        if moment == Moment::Peak {
            let Due { ends, peak } = self.spaces.due(event);
            if let Some(space) = ends {
                self.look(space, event.pid, event.exit_ns);
                self.spaces.note_end(space);
            }
            if let Some(space) = peak {
                self.look(space, event.pid, event.entry_ns);
            }
        }
        self.spaces.apply(event);
        let counts = self.calls.len() < PROCESSES || self.calls.contains_key(&event.pid);
        if counts && self.spaces.lost.is_none() && is_asked {
            *self.calls.entry(event.pid).or_default() += u64::from(event.nr.is_some());
        }
    }

    /// Keeps a space that has more areas than the kept one.
    fn look(&mut self, space: u64, pid: u32, ns: u64) {
        if self.spaces.is_asked(pid) {
            self.spaces.look(space, pid, ns, self.calls.get(&pid).copied().unwrap_or(0));
        }
    }

    /// The space of a process now, or the largest.
    fn at(&self, pid: Option<u32>) -> Option<Most> {
        let pid = pid.or_else(|| Some(self.spaces.largest()?.0))?;
        self.spaces.now(self.spaces.replay.process(pid)?.space, pid, self.end_ns)
    }

    /// The wanted space, if the trace ends before the moment or at it.
    fn at_end(&mut self, moment: Moment, pid: Option<u32>) -> Option<Most> {
        if moment != Moment::Peak {
            return self.at(pid);
        }
        // Of spaces that the trace leaves alive, only the largest can be the largest of all.
        if let Some((pid, space)) = self.spaces.largest() {
            self.look(space, pid, self.end_ns);
        }
        self.spaces.most.take()
    }

    fn family(&self, pid: Option<u32>, parents: &BTreeMap<u64, u64>) -> Option<(u32, BTreeSet<u64>)> {
        let live = self.spaces.replay.live().filter(|(one, ..)| pid.is_none_or(|pid| *one == pid));
        let (pid, process, _) = live.max_by_key(|(_, _, space)| space.len())?;
        let (mut spaces, mut space) = (BTreeSet::new(), Some(process.space));
        // A file may claim forks in a circle.
        while let Some(one) = space.filter(|one| spaces.insert(*one)) {
            space = parents.get(&one).copied();
        }
        Some((pid, spaces))
    }

    /// The result, or the reason why no space was found.
    fn told(self, moment: Moment, pid: Option<u32>, alone: Option<u32>) -> Result<SpaceAt, SpaceError> {
        if let Moment::Event(seq) = moment
            && !self.passed
            && self.damage.is_none()
            && self.last.is_none_or(|last| last < seq)
        {
            return Err(SpaceError::FewerEvents);
        }
        match (self.now, self.found, self.damage, self.spaces.lost) {
            (Some(most), Some(why), damage, _) => {
                let (areas, _) = most.recorded(&self.spaces.origins);
                let Most { pid, program, ns, is_incomplete, .. } = most;
                let (sites, stacks) = (self.spaces.origins.into_sites(), self.stacks);
                let (failures, splits, merges) = (self.failures, self.splits, self.merges);
                Ok(SpaceAt {
                    pid,
                    program,
                    ns,
                    areas,
                    is_incomplete,
                    why,
                    sites,
                    stacks,
                    failures,
                    splits,
                    merges,
                    alone,
                    damage,
                })
            }
            (Some(_), None, ..) => Err(SpaceError::TooMuch),
            (None, _, Some(damage), _) => Err(SpaceError::File(damage)),
            (None, _, None, Some(lost)) => Err(SpaceError::Lost(lost)),
            (None, _, None, None) => Err(SpaceError::NoAreas(pid)),
        }
    }
}
