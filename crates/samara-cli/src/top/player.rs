//! A trace file as a source of events: plays it, and goes to any moment of it. Knows nothing of the
//! terminal.
//!
//! To go forward it reads on; to go back it reads again from the beginning. Both are done in
//! pieces, so keys are handled meanwhile.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use samara_trace::event::Event;
use samara_trace::file::{FileError, Header, Stacks, TraceReader};

use super::state::State;
use crate::moment::Moment;

/// Time for reading events at once.
const GO: Duration = Duration::from_millis(40);
/// Events that are read between two looks at the clock.
const EVENTS: u32 = 64;
/// A step of ← and → is this part of the time of the trace.
const STEPS: u64 = 50;
/// The powers of two by which a trace is played slower or faster than it was recorded.
const SPEEDS: std::ops::RangeInclusive<i32> = -10..=10;

/// The effect of a key on the shown moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    /// Plays, or pauses.
    Pause,
    /// Twice as fast, or half as fast.
    Faster,
    Slower,
    /// A fiftieth of the time back, or forward.
    Back,
    Forward,
    /// One event back, or forward.
    Previous,
    Next,
    Begin,
    End,
}

/// Facts about a trace from one reading.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) header: Header,
    /// Its stacks, with the names of their functions.
    stacks: Stacks,
    /// The times of the first event and of the last readable one; and the damage, if that is not
    /// the end.
    begin_ns: u64,
    end_ns: u64,
    pub(crate) events: u64,
    pub(crate) damage: Option<FileError>,
}

impl Content {
    /// Reads a whole trace.
    pub(crate) fn of(reader: TraceReader<File>) -> Content {
        let header = reader.header().clone();
        let mut content =
            Content { header, stacks: Stacks::default(), begin_ns: 0, end_ns: 0, events: 0, damage: None };
        let mut is_damaged = false;
        for event in reader {
            match event {
                Ok(event) => {
                    // With a wrong definition the stacks have no meaning any more.
                    is_damaged = is_damaged || content.stacks.note(&event).is_err();
                    if content.events == 0 {
                        content.begin_ns = event.exit_ns;
                    }
                    content.events += 1;
                    if !event.kind.defines() {
                        content.end_ns = content.end_ns.max(event.exit_ns);
                    }
                }
                Err(error) => content.damage = Some(error),
            }
        }
        if is_damaged {
            content.stacks = Stacks::default();
        }
        content
    }
}

/// A trace at a moment.
pub(crate) struct Player {
    path: PathBuf,
    reader: Option<TraceReader<File>>,
    content: Content,
    state: State,
    /// The next event; it is later than the moment.
    next: Option<Event>,
    /// The wanted moment; it is shown when `is_there`.
    wanted: Moment,
    is_there: bool,
    /// The start of playing, and the speed.
    playing: Option<Instant>,
    speed: i32,
    /// Why the file could not be opened again.
    failed: Option<String>,
}

impl Player {
    /// `at`: the moment to begin with, paused. Without one it is played from the beginning.
    pub(crate) fn new(path: &Path, reader: TraceReader<File>, content: Content, at: Option<Moment>) -> Player {
        let begin = Moment::Time(content.begin_ns);
        Player {
            path: path.to_owned(),
            reader: Some(reader),
            state: State::with_names(content.stacks.clone()),
            content,
            next: None,
            wanted: at.unwrap_or(begin),
            is_there: false,
            playing: at.is_none().then(Instant::now),
            speed: 0,
            failed: None,
        }
    }

    /// Moves towards the wanted moment, which follows the clock while playing. Returns whether
    /// there is more to do at once.
    pub(crate) fn advance(&mut self) -> bool {
        if self.is_there
            && let Some(since) = self.playing
        {
            let now = Instant::now();
            let passed = (now - since).as_nanos() as f64 * 2f64.powi(self.speed);
            self.playing = Some(now);
            let from = self.now_ns();
            self.wanted = Moment::Time(from.saturating_add(passed as u64).min(self.content.end_ns));
            self.is_there = false;
        }
        let began = Instant::now();
        while !self.is_there {
            for _ in 0..EVENTS {
                if !self.step() {
                    self.arrive();
                    break;
                }
            }
            if began.elapsed() > GO {
                break;
            }
        }
        !self.is_there
    }

    fn arrive(&mut self) {
        self.is_there = true;
        if self.playing.is_some() {
            // The time for going there does not count as playing.
            self.playing = Some(Instant::now());
            if matches!(self.wanted, Moment::Time(ns) if ns >= self.content.end_ns) {
                self.playing = None;
            }
        }
        if self.playing.is_none() {
            self.state.rest();
        }
    }

    /// Reads one event, if it is over at the wanted moment.
    fn step(&mut self) -> bool {
        if self.next.is_none() {
            // An error was found when the file was read for the first time.
            self.next = self.reader.as_mut().and_then(|reader| reader.next()?.ok());
        }
        match self.next.take_if(|event| self.wanted.includes(event)) {
            Some(event) => {
                self.state.add(&event);
                true
            }
            None => false,
        }
    }

    fn go(&mut self, wanted: Moment) {
        let is_back = match wanted {
            Moment::Time(ns) => ns < self.now_ns(),
            Moment::Event(seq) => seq < self.state.events().saturating_sub(1),
            Moment::Clock(_) | Moment::Peak => false, // resolved to an event or a time before
        };
        if is_back {
            let opened = File::open(&self.path).map_err(|error| error.to_string());
            match opened.and_then(|file| TraceReader::new(file).map_err(|error| error.to_string())) {
                Ok(reader) => {
                    self.reader = Some(reader);
                    self.state = State::with_names(self.content.stacks.clone());
                    self.next = None;
                }
                Err(why) => {
                    self.failed = Some(why);
                    return;
                }
            }
        }
        (self.wanted, self.is_there) = (wanted, false);
    }

    pub(crate) fn control(&mut self, control: Control) {
        let (begin, end) = (self.content.begin_ns, self.content.end_ns);
        // Keys in quick succession add up.
        let now = match self.wanted {
            Moment::Time(ns) if !self.is_there => ns,
            _ => self.now_ns(),
        };
        let part = (end / STEPS).max(1000);
        match control {
            Control::Pause => {
                self.playing = if self.playing.is_some() { None } else { Some(Instant::now()) };
                // Played from the end, it begins again.
                if self.playing.is_some() && now >= end {
                    self.go(Moment::Time(begin));
                }
            }
            Control::Faster => self.speed = (self.speed + 1).min(*SPEEDS.end()),
            Control::Slower => self.speed = (self.speed - 1).max(*SPEEDS.start()),
            Control::Back => self.go(Moment::Time(now.saturating_sub(part).max(begin))),
            Control::Forward => self.go(Moment::Time(now.saturating_add(part).min(end))),
            Control::Begin => self.go(Moment::Time(begin)),
            Control::End => self.go(Moment::Time(end)),
            Control::Previous | Control::Next => {
                self.playing = None;
                let done = self.state.events();
                let next = if control == Control::Next { done } else { done.saturating_sub(2) };
                self.go(Moment::Event(next.min(self.content.events.saturating_sub(1))));
            }
        }
    }

    pub(crate) fn state(&mut self) -> &mut State {
        &mut self.state
    }

    /// The moment that is shown.
    pub(crate) fn now_ns(&self) -> u64 {
        match self.wanted {
            Moment::Time(ns) if self.is_there => ns.max(self.state.last_ns()).min(self.content.end_ns),
            _ => self.state.last_ns(),
        }
    }

    pub(crate) fn content(&self) -> &Content {
        &self.content
    }

    /// The status of playing, in a few words.
    pub(crate) fn status(&self) -> String {
        use crate::format::{count, time};
        let what = match (&self.failed, self.is_there, self.playing) {
            (Some(why), ..) => format!("cannot be read again: {}", crate::output::clean(why)),
            (None, false, None) => "reading".to_owned(),
            (None, _, Some(_)) => match self.speed {
                speed @ 0.. => format!("playing x{}", 1u32 << speed),
                speed => format!("playing x1/{}", 1u32 << -speed),
            },
            (None, true, None) => "paused".to_owned(),
        };
        let (now, end) = (time(self.now_ns()), time(self.content.end_ns));
        let (done, all) = (count(self.state.events()), count(self.content.events));
        format!("{what}, at {now} of {end}, {done} of {all} events")
    }
}
