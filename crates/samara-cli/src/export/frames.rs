//! The call stack of a site as functions, each with its place in the source and in its file. Text
//! that a program chose is escaped. Knows nothing of formats.

use std::borrow::Cow;

use samara_trace::file::{Frame, Stacks};
use samara_trace::why::Site;

use crate::line;
use crate::output::clean;
use crate::why::Sites;

/// A function of a call stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: String,
    /// Its source file and the line there, if they are known.
    pub(crate) file: String,
    pub(crate) line: u32,
    /// Its frame. `None`: it is a call, or stands for missing functions.
    pub(crate) frame: Option<Frame>,
    /// Number of functions into which it is inlined, in the same frame.
    pub(crate) depth: u32,
}

impl Entry {
    pub(crate) fn word(name: String) -> Entry {
        Entry { name, file: String::new(), line: 0, frame: None, depth: 0 }
    }
}

/// The functions of a site, the outermost first, and then the call.
pub(crate) fn entries(sites: Sites<'_>, site: &Site) -> Vec<Entry> {
    let mut all = Vec::new();
    let stack = sites.stack(site);
    if let Some(stack) = stack {
        all.extend(line::missing(stack.end).map(|word| Entry::word(word.to_owned())));
        for frame in stack.frames.iter().rev() {
            all.extend(functions(sites.stacks(), frame));
        }
    }
    all.push(call(sites, site));
    all
}

/// The call of a site: its name, and, if there is no stack to distinguish calls, its arguments.
pub(crate) fn call(sites: Sites<'_>, site: &Site) -> Entry {
    Entry::word(match site.nr.filter(|_| sites.stack(site).is_some()) {
        Some(nr) => line::name(nr),
        None => sites.text(site),
    })
}

/// The functions of a frame, the outermost first. There is at least one.
pub(crate) fn functions(stacks: &Stacks, frame: &Frame) -> Vec<Entry> {
    let guessed = if frame.guessed { "? " } else { "" };
    let entry = |(depth, (name, place)): (usize, (Cow<'_, str>, &str))| {
        let (file, line) = place.rsplit_once(':').unwrap_or((place, ""));
        let line: Option<u32> = line.parse().ok();
        Entry {
            name: format!("{guessed}{}", clean(&name)),
            file: clean(if line.is_some() { file } else { place }),
            line: line.unwrap_or(0),
            frame: Some(*frame),
            depth: depth as u32,
        }
    };
    line::functions(stacks, frame).into_iter().enumerate().map(entry).collect()
}
