//! The results of a run, read from the arena. Knows no calls.

use super::threads::{NOTED, Timed};
use super::{HEAD, TEXT_LEN};
use crate::harness::QueriedArea;
use crate::op::{BASE, END, Op};

/// The address range whose areas are noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The window, with a guard area at both ends.
    Window,
    /// The whole address space.
    Whole,
}

impl Scope {
    pub fn bounds(self) -> (u64, u64) {
        match self {
            Scope::Window => (BASE, END),
            Scope::Whole => (0, u64::MAX),
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It did everything.
    Done,
    /// By a signal.
    Killed(i32),
    /// Otherwise.
    Status(i32),
}

/// A call of a thread, with the moments of its beginning and its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<C> {
    /// The call, and its result.
    pub what: C,
    /// When it began.
    pub began: u64,
    /// When it ended: later.
    pub ended: u64,
}

/// The ops of a thread, with their results and times.
pub type Events = Vec<Event<(Op, i64)>>;

/// The result of a run.
#[derive(Debug)]
pub struct Outcome<'a> {
    pub ended: Ended,
    /// How many ops were done.
    pub done: usize,
    pub(super) words: &'a [u64],
    pub(super) text: &'a [u8],
}

impl<'a> Outcome<'a> {
    /// The areas before the first op, and for each op its result (a negative errno) and the areas
    /// after it.
    pub fn frames(&self) -> (Areas<'a>, Frames<'a>) {
        let mut frames = Frames { words: &self.words[HEAD..], left: self.done };
        (frames.areas(), frames)
    }

    /// For each op of the threads its result, beginning and end; and the areas after all of them.
    pub fn together(&self, threads: &[Vec<Timed>]) -> (Vec<Events>, Areas<'a>) {
        let (_, mut frames) = self.frames();
        frames.by_ref().for_each(drop);
        let mut noted = |timed: &Timed| {
            let (notes, rest) = frames.words.split_at(NOTED);
            frames.words = rest;
            Event { what: (timed.op, notes[0] as i64), began: notes[1], ended: notes[2] }
        };
        let events = threads.iter().map(|thread| thread.iter().map(&mut noted).collect()).collect();
        (events, frames.areas())
    }

    pub fn smaps(&self) -> std::borrow::Cow<'a, str> {
        let len = (self.words[TEXT_LEN] as usize).min(self.text.len());
        String::from_utf8_lossy(&self.text[..len])
    }
}

/// Areas as words.
#[derive(Clone, Debug, Default)]
pub struct Areas<'a>(&'a [u64]);

impl Iterator for Areas<'_> {
    type Item = QueriedArea;
    fn next(&mut self) -> Option<QueriedArea> {
        let ([start, end, perms, offset], rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(QueriedArea { start: *start, end: *end, perms: *perms, offset: *offset })
    }
}

/// Results and areas, op by op.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    words: &'a [u64],
    left: usize,
}

impl<'a> Frames<'a> {
    fn areas(&mut self) -> Areas<'a> {
        let (areas, rest) = self.words[1..].split_at(4 * self.words[0] as usize);
        self.words = rest;
        Areas(areas)
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = (i64, Areas<'a>);
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let ret = self.words[0] as i64;
        self.words = &self.words[1..];
        Some((ret, self.areas()))
    }
}
