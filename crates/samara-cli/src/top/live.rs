//! A recording as a source of events. The recorder runs on one thread; a second thread moves the
//! state on. Knows nothing of the terminal.
//!
//! The recorder holds the program at every event, so its sink does no more than append the event to
//! a queue. The second thread takes the whole queue every few hundredths of a second. It waits only
//! for a view that is being made, so a blocked terminal does not block the recording.
//!
//! - **LIVE-1** every event reaches the state, in order, and before `is_over` is true.
//! - **LIVE-2** the queue has at most [`QUEUE`] events and areas, plus one event. When it is full,
//!   the recorder waits.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use samara_record::{LetGo, Outcome, RecordError};
use samara_trace::event::Event;
use samara_trace::{FileSink, Written};
use samara_trace::{Sink, SinkError};

use super::state::State;

/// How often the queue is taken.
const TAKE: Duration = Duration::from_millis(20);
/// From this number of events and areas on the recorder waits.
const QUEUE: usize = 1 << 18;
/// How long the state is left to waiting readers each time.
const SHORT: Duration = Duration::from_micros(50);
/// Events that are applied at once. A view that is to be made waits for at most this many.
const GO: usize = 512;

/// The result of a recording.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) outcome: Result<Outcome, RecordError>,
    /// The trace, if one was written.
    pub(crate) written: Option<Written>,
}

/// A running recording.
pub(crate) struct Live {
    shared: Arc<Shared>,
    began: Instant,
    let_go: Option<LetGo>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Notified when the queue is half full, and at the end.
    filled: Condvar,
    /// Notified when the queue was taken, and when the state will take no more.
    taken: Condvar,
    state: Mutex<State>,
    /// Number of readers that wait for the state. A lock alone is not fair, and the view would
    /// starve. Relaxed: it guards no other data.
    looking: AtomicUsize,
    /// Set when the last event has reached the state. Notified by `over`.
    recorded: Mutex<Option<Recorded>>,
    over: Condvar,
}

#[derive(Default)]
struct Queue {
    events: Vec<Event>,
    weight: usize,
    /// No more events will come, or none will be taken.
    is_closed: bool,
}

/// Data is consistent after a panic of another thread: it is changed in single steps, except the
/// state, which is only read from then on.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The recorder's end of the queue.
struct Feed {
    shared: Arc<Shared>,
    file: Option<FileSink>,
}

impl Sink for Feed {
    fn event(&mut self, event: Event) -> Result<(), SinkError> {
        if let Some(file) = &mut self.file {
            file.event(event.clone())?;
        }
        let mut queue = lock(&self.shared.queue);
        while queue.weight > QUEUE && !queue.is_closed {
            queue = self.shared.taken.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        if queue.is_closed {
            return Err(SinkError::new("the view has failed"));
        }
        let before = queue.weight;
        queue.weight += 1 + event.areas.len() + event.plan.len();
        queue.events.push(event);
        if before <= QUEUE / 2 && queue.weight > QUEUE / 2 {
            self.shared.filled.notify_one();
        }
        Ok(())
    }
}

/// Closes the queue when a thread ends, also by a panic.
struct Closing<'a>(&'a Shared);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        lock(&self.0.queue).is_closed = true;
        self.0.filled.notify_one();
        self.0.taken.notify_one();
    }
}

impl Live {
    /// Starts a recording. `record` feeds the sink until the recording is over: from a program that
    /// it starts, or from anything else. `let_go`: lets go of an attached process.
    pub(crate) fn start<R>(record: R, file: Option<FileSink>, let_go: Option<LetGo>) -> std::io::Result<Live>
    where
        R: FnOnce(&mut dyn Sink) -> Result<Outcome, RecordError> + Send + 'static,
    {
        let shared = Arc::new(Shared::default());
        let live = Live { shared: Arc::clone(&shared), began: Instant::now(), let_go };
        let mut feed = Feed { shared: Arc::clone(&shared), file };
        let recorder = thread::Builder::new().name("samara-record".into()).spawn(move || {
            let shared = Arc::clone(&feed.shared);
            let _closing = Closing(&shared);
            let outcome = record(&mut feed);
            let written = match &outcome {
                Ok(_) => feed.file.take().map(FileSink::finish),
                Err(_) => {
                    feed.file.take().into_iter().for_each(FileSink::discard);
                    None
                }
            };
            Recorded { outcome, written }
        })?;
        thread::Builder::new().name("samara-state".into()).spawn(move || {
            let _closing = Closing(&shared);
            shared.take_all();
            let died = || RecordError::System("recording", std::io::Error::other("its thread has died"));
            let recorded = recorder.join().unwrap_or_else(|_| Recorded { outcome: Err(died()), written: None });
            *lock(&shared.recorded) = Some(recorded);
            shared.over.notify_all();
        })?;
        Ok(live)
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.looking.fetch_add(1, Ordering::Relaxed);
        let state = lock(&self.shared.state);
        self.shared.looking.fetch_sub(1, Ordering::Relaxed);
        state
    }

    /// Lets go of the process, if it was attached to.
    pub(crate) fn let_go(&self) -> Option<&LetGo> {
        self.let_go.as_ref()
    }

    /// Nanoseconds since the recording began. They stand still when it is over.
    pub(crate) fn now_ns(&self) -> u64 {
        match self.is_over() {
            true => self.state().now_ns(),
            false => u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX),
        }
    }

    /// Whether all events have reached the state.
    pub(crate) fn is_over(&self) -> bool {
        lock(&self.shared.recorded).is_some()
    }

    /// Whether nothing could be recorded.
    pub(crate) fn has_failed(&self) -> bool {
        lock(&self.shared.recorded).as_ref().is_some_and(|recorded| recorded.outcome.is_err())
    }

    /// Waits for the end, at most `most`. Returns the result of the recording, once.
    pub(crate) fn wait(&self, most: Duration) -> Option<Recorded> {
        let recorded = lock(&self.shared.recorded);
        let waited = self.shared.over.wait_timeout_while(recorded, most, |recorded| recorded.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }
}

impl Shared {
    /// Moves the state on until no more events will come.
    fn take_all(&self) {
        loop {
            let queue = lock(&self.queue);
            let due = |queue: &mut Queue| queue.weight <= QUEUE / 2 && !queue.is_closed;
            let waited = self.filled.wait_timeout_while(queue, TAKE, due);
            let mut queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            let (events, is_closed) = (std::mem::take(&mut queue.events), queue.is_closed);
            queue.weight = 0;
            drop(queue);
            self.taken.notify_one();
            for some in events.chunks(GO) {
                while self.looking.load(Ordering::Relaxed) > 0 {
                    thread::sleep(SHORT);
                }
                let mut state = lock(&self.state);
                some.iter().for_each(|event| state.add(event));
            }
            if is_closed {
                return;
            }
        }
    }
}
