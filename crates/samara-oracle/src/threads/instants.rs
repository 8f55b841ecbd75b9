//! What a call does at which instant, on the model, and what there must be in the end.

use crate::child::{Scope, Seen};
use crate::compare::Twist;
use crate::model::Model;
use crate::op::Op;
use crate::order::Rules;
use samara_mm::{Anon, Flags, Object};

/// What the kernel showed in the end.
pub(super) struct End {
    pub(super) seen: Vec<Seen>,
    pub(super) flags: Vec<(u64, Flags)>,
}

/// The rules of calls that are made at the same time.
pub(super) struct Instants {
    pub(super) end: End,
    twist: Option<Twist>,
    /// The model could not answer somewhere.
    pub(super) unknown: bool,
}

impl Instants {
    pub(super) fn new(end: End, twist: Option<Twist>) -> Instants {
        Instants { end, twist, unknown: false }
    }
}

impl Rules for Instants {
    type Call = (Op, i64);
    type Space = Model;
    type Shown = Vec<u64>;

    fn shown(&self, model: &Model) -> Vec<u64> {
        let mut identities = Vec::new();
        let mut number = |id| {
            let known = identities.iter().position(|known| *known == id);
            known.unwrap_or_else(|| {
                identities.push(id);
                identities.len() - 1
            }) as u64
        };
        let mut words = Vec::new();
        for a in model.space.areas() {
            let object = match &a.area.object {
                Object::Anonymous => 0,
                Object::File(file) => 2 + file.open,
                Object::Special(_) => 1,
            };
            let anon = match a.area.anon() {
                Anon::Identity { id, inherited } => 2 + 2 * number(id) + u64::from(inherited),
                Anon::Untouched => 0,
                _ => 1,
            };
            // Policies are local ones.
            let policy = u64::from(a.extras().policy.is_some());
            words.extend([a.start, a.end, a.area.flags.bits(), object, a.area.bias, anon, policy]);
        }
        words
    }

    fn next(&mut self, (op, answer): &(Op, i64), _: u32, model: &Model) -> Vec<(Model, bool)> {
        let Some(mut after) = model.snapshot() else {
            self.unknown = true;
            return Vec::new();
        };
        match after.step(*op).map(|answers| self.twist.map_or(answers, |twist| twist(*op, answers))) {
            Some(answers) if answers == *answer => vec![(after, true)],
            Some(_) => Vec::new(),
            None => {
                self.unknown = true;
                Vec::new()
            }
        }
    }

    fn is_end(&mut self, model: &Model) -> bool {
        let End { seen, flags } = &self.end;
        let of = |start: u64| flags.iter().find(|k| k.0 == start).map(|k| k.1);
        model.seen(Scope::Window).eq(seen.iter().copied())
            && model.flags().all(|(start, flags)| of(start) == Some(flags))
            && model.space.check().is_ok()
    }
}
