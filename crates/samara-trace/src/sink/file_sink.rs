//! Writes events to a trace file on its own thread. Knows nothing of the encoding.
//!
//! The recorder appends events to a list under a lock that is nearly always free. The thread takes
//! the whole list, encodes it and writes it as one batch: when [`BATCH_EVENTS`] events have come,
//! or [`BATCH_TIME`] after the first of them. If the recorder is [`QUEUE_WEIGHT`] ahead of the
//! disk, it waits.
//!
//! - **SINK-1** events reach the writer in the order in which the sink received them, each once.
//! - **SINK-2** the file's name refers to an older file only while no header has been written, and
//!   never once the recorder can have started the program. From then on it refers to the new trace,
//!   which has at least its header.
//! - **SINK-3** after a failure the file is cut back to its last whole batch. Later events count in
//!   the totals and are not written.

use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};

use super::{Sink, SinkError};
use crate::event::Event;
use crate::file::{Header, TraceWriter, WriteError, weight};
use crate::output::{Access, OutputFile, OutputName};
use crate::summary::{Summary, Tally};
use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Events after which a batch is written.
const BATCH_EVENTS: usize = 4096;
/// Bytes, before compression, after which a batch is written.
const BATCH_WEIGHT: u64 = 4 << 20;
/// A batch is written at the latest this long after its first event.
const BATCH_TIME: Duration = Duration::from_millis(100);
/// Bytes, before compression, that may wait to be written.
const QUEUE_WEIGHT: u64 = 64 << 20;

/// A [`Sink`] that writes a trace file and, if it is asked to ([`sum_up`](FileSink::sum_up)), keeps
/// totals of the events.
///
/// If the file takes no more bytes (a full disk, a limit), the trace ends early and the sink
/// continues the totals: [`Written::error`] says why, and [`Written::summary`] covers the whole
/// recording.
///
/// An existing file is moved aside, to `.samara-PID-0.old` beside it, before the new file is
/// created under its name. So a recorder that is killed at any time leaves nothing there, or the
/// beginning of the new trace. The first event removes the older file;
/// [`discard`](FileSink::discard) before that puts it back. Only its owner may read the new file
/// ([`Access`]). Exception: it keeps the permissions of an older file of this user, in a directory
/// in which only this user makes files.
///
/// If the recorder is killed by SIGKILL, the file lacks the events of the last tenth of a second or
/// the last few thousand, whichever is less. If the file is written more slowly than events come,
/// it lacks up to 64 MiB of events more.
///
/// ```no_run
/// use samara_trace::event::{Event, EventKind};
/// use samara_trace::file::Header;
/// use samara_trace::{FileSink, Sink};
///
/// let mut sink = FileSink::create("t.samara", &Header::new("python3".as_ref(), &[]))?;
/// // A recorder does this.
/// sink.event(Event::new(0, EventKind::Exec))?;
/// let written = sink.finish();
/// println!("{} events in {} bytes", written.events, written.bytes);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct FileSink {
    path: PathBuf,
    /// Committed by the first event, which removes the older file.
    output: OutputFile,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Written>>,
}

/// The result of a [`FileSink`].
#[derive(Debug)]
pub struct Written {
    /// Number of events in the file.
    pub events: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Totals of all events that the sink received, including those that are not in the file, if
    /// [`FileSink::sum_up`] asked for them.
    pub summary: Option<Summary>,
    /// Why the file ends early. `None`: it does not.
    pub error: Option<WriteError>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// The thread waits here for events. Notified at the first event of a batch, at a full batch
    /// and at the end.
    filled: Condvar,
    /// The recorder waits here for room. Notified when the thread has taken the queue, and when the
    /// thread ends.
    taken: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    events: Vec<Event>,
    weight: u64,
    /// Set when no more events will come. `Finished` writes the end marker; `Dropped` (the sink was
    /// dropped) does not.
    end: Option<End>,
    /// The size at which writing stops.
    limit: Option<u64>,
    /// Whether events are summed up.
    sums_up: bool,
    /// Set when the thread has ended; says why.
    failed: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Finished,
    Dropped,
}

impl Shared {
    // If the thread panicked the queue is still valid: no step in a critical section can panic half
    // way.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error if a limit does not allow the writing thread.
fn no_thread(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("no thread can be started ({error}): see ulimit -u and ulimit -v"))
}

impl FileSink {
    /// Creates the file, writes its header, and starts the thread.
    ///
    /// An older file with that name is kept until the first event, for
    /// [`discard`](FileSink::discard): the older trace survives if the program is not found. An
    /// older file that cannot be moved aside (the directory is not writable, the file is a mount
    /// point) is emptied. A FIFO blocks here until it has a reader.
    ///
    /// # Errors
    /// The file cannot be opened or created, or the header cannot be written.
    pub fn create(path: impl Into<PathBuf>, header: &Header) -> io::Result<Self> {
        let path = path.into();
        let output = OutputName::resolve(&path)?.replace(Access::default())?;
        Self::with_output(output, path, header)
    }

    /// Writes the header to an output that has its name ([`OutputName::replace`],
    /// [`OutputFile::create_new`]), and starts the thread. `path` is for messages.
    ///
    /// # Errors
    /// The header cannot be written. The output has been discarded.
    pub fn with_output(mut output: OutputFile, path: impl Into<PathBuf>, header: &Header) -> io::Result<Self> {
        match output.file().try_clone().and_then(|file| Self::start(file, header)) {
            Ok((shared, thread)) => Ok(FileSink { path: path.into(), output, shared, thread: Some(thread) }),
            Err(error) => {
                output.discard();
                Err(error)
            }
        }
    }

    fn start(file: File, header: &Header) -> io::Result<(Arc<Shared>, JoinHandle<Written>)> {
        // On a temporary thread: the signal that it blocks stays blocked there only.
        let writer = std::thread::scope(|scope| {
            let begin = std::thread::Builder::new().spawn_scoped(scope, || {
                block_size_signal();
                TraceWriter::new(file, header)
            });
            let begin = begin.map_err(no_thread)?;
            match begin.join() {
                Ok(Ok(writer)) => Ok(writer),
                Ok(Err(WriteError::Io(error))) => Err(error),
                Ok(Err(other)) => Err(io::Error::other(other)),
                Err(_) => Err(io::Error::other("the thread that writes the header died")),
            }
        })?;
        let shared = Arc::new(Shared::default());
        let (theirs, areas) = (Arc::clone(&shared), header.max_map_count);
        let thread = std::thread::Builder::new().name("samara-file".into());
        let thread = thread.spawn(move || write_all(&theirs, writer, areas)).map_err(no_thread)?;
        Ok((shared, thread))
    }

    /// Writes no further events once the file has this many bytes. It then ends early, a batch
    /// later at most; the summary still has all events.
    pub fn limit(&self, bytes: u64) {
        self.shared.lock().limit = Some(bytes);
    }

    /// Asks for totals of the events: [`Written::summary`]. Call it before the first event. Totals
    /// take more processor time than the file does; `samara summary` computes them from a file.
    pub fn sum_up(&self) {
        self.shared.lock().sums_up = true;
    }

    /// Abandons the recording.
    ///
    /// If no event has come, the former state is restored: an older file is put back, and a file
    /// that did not exist is removed (through a symbolic link, which stays). Otherwise the trace
    /// stays without its end marker.
    pub fn discard(mut self) {
        self.give_up();
    }

    fn give_up(&mut self) {
        self.end(End::Dropped);
        self.output.discard();
    }

    /// Keeps the new file: the older one is not put back.
    fn keep(&mut self) {
        // The file has its name already: this removes the older one, and cannot fail.
        let _ = self.output.commit();
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the remaining events and the end marker. Returns what was written, and the totals.
    pub fn finish(mut self) -> Written {
        let written = self.end(End::Finished);
        self.keep();
        written.unwrap_or_else(|| Written {
            events: 0,
            bytes: 0,
            summary: None,
            error: Some(WriteError::Io(io::Error::other("the thread that writes the file died"))),
        })
    }

    fn end(&mut self, end: End) -> Option<Written> {
        let thread = self.thread.take()?;
        self.ask_to_end(end);
        thread.join().ok()
    }

    fn ask_to_end(&self, end: End) {
        self.shared.lock().end.get_or_insert(end);
        self.shared.filled.notify_one();
    }
}

impl Drop for FileSink {
    /// Writes the remaining events without the end marker. If no event has come, restores the
    /// former state.
    fn drop(&mut self) {
        self.give_up();
    }
}

impl Sink for FileSink {
    fn event(&mut self, event: Event) -> Result<(), SinkError> {
        self.keep();
        let mut queue = self.shared.lock();
        while queue.weight > QUEUE_WEIGHT && queue.failed.is_none() {
            queue = self.shared.taken.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(why) = &queue.failed {
            return Err(SinkError::new(format!("{}: {why}", self.path.display())));
        }
        let before = queue.weight;
        queue.weight += weight(&event);
        queue.events.push(event);
        let count = queue.events.len();
        if count == 1 || count == BATCH_EVENTS || (before < BATCH_WEIGHT && queue.weight >= BATCH_WEIGHT) {
            drop(queue);
            self.shared.filled.notify_one();
        }
        Ok(())
    }

    /// The thread writes the remaining events and the end marker: the file is whole soon after,
    /// although [`finish`](FileSink::finish) may be called much later.
    fn complete(&mut self) {
        self.keep();
        self.ask_to_end(End::Finished);
    }
}

/// The thread's function: writes batches until the end. `areas` is the limit of areas.
fn write_all(shared: &Shared, mut writer: TraceWriter<File>, areas: Option<u64>) -> Written {
    block_size_signal();
    // If this function panics, the recorder must not wait for room.
    let guard = Failed(shared);
    let mut tally = Tally::default();
    tally.set_limit(areas);
    let mut spare = Vec::new();
    let mut error = None;
    let (end, sums_up) = loop {
        let (events, end) = next_batch(shared, std::mem::take(&mut spare));
        let (limit, sums_up) = {
            let queue = shared.lock();
            (queue.limit, queue.sums_up)
        };
        if error.is_none() && !events.is_empty() {
            error = limit.filter(|limit| writer.bytes() >= *limit).map(WriteError::Limit).or_else(|| {
                let error = writer.write(&events).err()?;
                cut_back(&mut writer);
                Some(error)
            });
        }
        if sums_up {
            events.iter().for_each(|event| tally.add(event));
        }
        spare = events;
        spare.clear();
        if let Some(end) = end {
            break (end, sums_up);
        }
    };
    if error.is_none() && end == End::Finished {
        error = writer.finish().err();
        if error.is_some() {
            cut_back(&mut writer);
        }
    }
    drop(guard);
    let summary = sums_up.then(|| tally.summary());
    Written { events: writer.events(), bytes: writer.bytes(), summary, error }
}

/// Removes what a failed write left after the last whole batch.
fn cut_back(writer: &mut TraceWriter<File>) {
    let bytes = writer.bytes();
    let file = writer.output();
    // This may fail on a device or on a failing disk; then the reader finds the cut itself.
    let _ = file.set_len(bytes).and_then(|()| file.seek(io::SeekFrom::Start(bytes)));
}

/// A write past the limit of file sizes (`ulimit -f`) raises SIGXFSZ, which kills the process. If
/// the signal is blocked, the write fails with `EFBIG` instead. It is blocked in this thread only,
/// so the traced program inherits nothing.
fn block_size_signal() {
    let mut set = SigSet::empty();
    set.add(Signal::SIGXFSZ);
    // It cannot fail for a valid signal. If it did, `ulimit -f` would kill the recorder like any
    // other program.
    let _ = set.thread_block();
}

/// Waits for a batch and takes it; `spare` becomes the empty queue.
fn next_batch(shared: &Shared, spare: Vec<Event>) -> (Vec<Event>, Option<End>) {
    let mut queue = shared.lock();
    while queue.events.is_empty() && queue.end.is_none() {
        queue = shared.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
    let filling = |q: &mut Queue| q.end.is_none() && q.events.len() < BATCH_EVENTS && q.weight < BATCH_WEIGHT;
    queue = match shared.filled.wait_timeout_while(queue, BATCH_TIME, filling) {
        Ok((queue, _)) => queue,
        Err(poisoned) => poisoned.into_inner().0,
    };
    let events = std::mem::replace(&mut queue.events, spare);
    queue.weight = 0;
    let end = queue.end;
    drop(queue);
    shared.taken.notify_all();
    (events, end)
}

/// When dropped, reports that the thread has ended and wakes the recorder.
struct Failed<'a>(&'a Shared);

impl Drop for Failed<'_> {
    fn drop(&mut self) {
        self.0.lock().failed.get_or_insert_with(|| "the thread that writes the file has ended".into());
        self.0.taken.notify_all();
    }
}
