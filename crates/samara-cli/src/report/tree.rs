//! The call stacks of a trace as one tree of functions, and texts by number.
//!
//! - **STACKS-TREE-1** there are at most [`NODES`] functions in the tree. Deeper ones are left out,
//!   and their calls count for the deepest kept one. A text has at most [`TEXT`] characters, and
//!   all together have some [`TEXTS`] bytes; further ones are `…`.

use std::collections::HashMap;

use samara_trace::file::{Stack, Stacks};

use crate::line;
use crate::output::clean;

/// Most functions in the tree.
pub(super) const NODES: usize = 60_000;
/// Most characters of a text.
const TEXT: usize = 200;
/// Most bytes of all texts.
const TEXTS: usize = 1536 << 10;
/// Stands for an omitted part.
const MORE: &str = "\u{2026}";

/// Texts, each once, by number.
#[derive(Debug)]
pub(super) struct Texts {
    pub(super) all: Vec<String>,
    numbers: HashMap<String, u32>,
    bytes: usize,
}

impl Default for Texts {
    /// The first one is empty.
    fn default() -> Self {
        Texts { all: vec![String::new()], numbers: HashMap::from([(String::new(), 0)]), bytes: 0 }
    }
}

impl Texts {
    /// The number of a text. `None`: it has none yet.
    pub(super) fn known(&self, text: &str) -> Option<u32> {
        self.numbers.get(&shown(text)).copied()
    }

    /// The number of a text, in printable form.
    pub(super) fn number(&mut self, text: &str) -> u32 {
        let mut text = shown(text);
        if self.bytes > TEXTS && !self.numbers.contains_key(&text) {
            text = MORE.to_owned();
        }
        *self.numbers.entry(text).or_insert_with_key(|text| {
            self.bytes += text.len();
            self.all.push(text.clone());
            (self.all.len() - 1) as u32
        })
    }
}

/// A text in printable form, cut to the maximum length.
pub(super) fn shown(text: &str) -> String {
    let mut text = clean(text);
    if let Some((end, _)) = text.char_indices().nth(TEXT) {
        text.truncate(end);
        text.push_str(MORE);
    }
    text
}

/// A function, called from the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node {
    /// The position of the caller, which comes first; `None`: it is the outermost.
    pub(super) parent: Option<u32>,
    /// Texts: its name, and its place in the source, which may be empty.
    pub(super) name: u32,
    pub(super) place: u32,
    pub(super) guessed: bool,
}

/// The tree.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    known: HashMap<Node, u32>,
}

impl Tree {
    /// The innermost function of a stack.
    pub(super) fn of(&mut self, stacks: &Stacks, stack: &Stack, texts: &mut Texts) -> Option<u32> {
        let mut at = line::missing(stack.end).and_then(|word| self.below(None, word, "", false, texts));
        for frame in stack.frames.iter().rev() {
            for (name, place) in line::functions(stacks, frame) {
                match self.below(at, &name, &stacks.short_place(place), frame.guessed, texts) {
                    Some(node) => at = Some(node),
                    None => return at,
                }
            }
        }
        at
    }

    /// A function below another. `None`: there are too many.
    fn below(&mut self, parent: Option<u32>, name: &str, place: &str, guessed: bool, texts: &mut Texts) -> Option<u32> {
        let full = self.nodes.len() >= NODES;
        let mut number = |text: &str| if full { texts.known(text) } else { Some(texts.number(text)) };
        let (name, place) = (number(name)?, number(place)?);
        let node = Node { parent, name, place, guessed };
        match self.known.get(&node) {
            Some(number) => Some(*number),
            None if full => None,
            None => {
                let number = self.nodes.len() as u32;
                self.nodes.push(node);
                self.known.insert(node, number);
                Some(number)
            }
        }
    }
}
