//! Groups sites by place in the program: calls of one kind from one line of a function, through any
//! number of callers.
//!
//! A function is identified by its name and line, with those that it is inlined into and, for code
//! in a header, those that called it. A function without a name is identified by the address of the
//! call. Each site without a call stack is one place. Knows no areas.

use std::collections::HashMap;

use super::births::{Course, Site};
use super::piece::Piece;
use crate::event::EventKind;
use crate::file::{Stacks, call_name};

/// For each site the first one of its place.
pub(super) struct Callers {
    first: Vec<u32>,
    /// The same of whole functions.
    functions: Vec<u32>,
    kinds: Vec<EventKind>,
}

/// Mappings of the sites of a place, in the whole trace.
#[derive(Clone, Copy, Default)]
pub(super) struct Mapped {
    pub(super) bytes: u64,
    pub(super) unmapped_bytes: u64,
    /// When they mapped something last.
    pub(super) last_ns: u64,
    /// How many events the space had had when they mapped something there last.
    pub(super) last: u64,
}

/// What identifies a place.
#[derive(PartialEq, Eq, Hash)]
enum Spot<'a> {
    /// The module, and names with places or source files, the innermost first.
    Functions(u32, Vec<(&'a str, &'a str)>),
    /// Module and address.
    At(u32, u64),
}

impl Callers {
    pub(super) fn new(sites: &[Site], stacks: &Stacks) -> Callers {
        let mut callers = Callers { first: Vec::new(), functions: Vec::new(), kinds: Vec::new() };
        type Known<'a> = HashMap<(EventKind, Option<u32>, Spot<'a>), u32>;
        let mut known: [Known<'_>; 2] = Default::default();
        for (number, site) in (0..).zip(sites) {
            let spots = spots(site, stacks).filter(|_| number > 0);
            let mut first = |which: usize, spot| *known[which].entry((site.kind, site.nr, spot)).or_insert(number);
            let [line, function] = spots.map_or([number; 2], |[line, function]| [first(0, line), first(1, function)]);
            callers.first.push(line);
            callers.functions.push(function);
            callers.kinds.push(site.kind);
        }
        callers
    }

    /// The first site of the place that a site is in.
    pub(super) fn of(&self, site: u32) -> u32 {
        self.first.get(site as usize).copied().unwrap_or(site)
    }

    /// The first site of the function that a site is in.
    pub(super) fn function_of(&self, site: u32) -> u32 {
        self.functions.get(site as usize).copied().unwrap_or(site)
    }

    /// Whether it is a call of the program, and not the start of it or of the recording.
    pub(super) fn is_call(&self, site: u32) -> bool {
        site != 0 && self.kinds.get(site as usize) == Some(&EventKind::Call)
    }

    /// Whether it is what was there when the recording began.
    pub(super) fn is_found(&self, site: u32) -> bool {
        self.kinds.get(site as usize) == Some(&EventKind::Found)
    }

    /// Whether something that was not recorded may keep two pieces apart, which `is_changed` by a
    /// call or not: both were there when the recording began, and were not one area then. (New
    /// memory that does not join what was there shows that the two differ.)
    pub(super) fn is_unsure(&self, [low, high]: [&Piece; 2], is_changed: bool) -> bool {
        match [low, high].map(|piece| self.is_found(piece.made.site)) {
            [true, true] => !is_changed || low.root() != high.root(),
            [false, false] => false,
            _ => !is_changed,
        }
    }

    /// The mappings of all sites that `of` maps to one number. `course` is that of the space.
    pub(super) fn mapped(sites: &[Site], course: &Course, of: impl Fn(u32) -> u32) -> HashMap<u32, Mapped> {
        let mut all: HashMap<u32, Mapped> = HashMap::new();
        for (number, site) in sites.iter().enumerate() {
            let number = number as u32;
            let mapped = all.entry(of(number)).or_default();
            mapped.last = mapped.last.max(course.mapped.get(&number).map_or(0, |mappings| mappings.last));
            mapped.bytes = mapped.bytes.saturating_add(site.all_bytes);
            mapped.unmapped_bytes = mapped.unmapped_bytes.saturating_add(site.unmapped_bytes);
            mapped.last_ns = mapped.last_ns.max(site.last_ns);
        }
        all
    }
}

/// Where a site is: by lines, and by functions alone.
fn spots<'a>(site: &Site, stacks: &'a Stacks) -> Option<[Spot<'a>; 2]> {
    let (stack, call) = (stacks.stack(site.stack?)?, site.nr.and_then(call_name).unwrap_or_default());
    let functions = stacks.own_functions(stack, call);
    let frame = stacks.own_frames(stack, call).first()?;
    if functions.is_empty() {
        return Some([Spot::At(frame.module, frame.at), Spot::At(frame.module, frame.at)]);
    }
    let file = |place: &'a str| place.rsplit_once(':').map_or(place, |(file, _)| file);
    let by = |at: &dyn Fn(&'a str) -> &'a str| {
        Spot::Functions(frame.module, functions.iter().map(|one| (&*one.name, at(&one.place))).collect())
    };
    Some([by(&|place| place), by(&file)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;

    /// Sites of mprotect from these stacks; frames are addresses in the one module.
    fn sites(stacks: &[&str], names: &[(u64, &str)]) -> (Vec<Site>, Stacks) {
        let (mut all, mut seq) = (Stacks::default(), 0);
        let mut note = |kind, args: [u64; 6], text: &str| {
            all.note(&Event { args, text: text.into(), ..Event::new(seq, kind) }).unwrap();
            seq += 1;
        };
        note(EventKind::Module, [0; 6], "- /bin/program");
        for (number, stack) in stacks.iter().enumerate() {
            note(EventKind::Stack, [number as u64, 0, 0, 0, 0, 0], stack);
        }
        for (at, name) in names {
            note(EventKind::Symbol, [0, *at, 0, 0, 0, 0], name);
        }
        let site = |stack| Site { nr: Some(10), stack, ..Site::new(EventKind::Call, 0) };
        let sites = [None].into_iter().chain((0..stacks.len() as u32).map(Some)).map(site);
        (sites.collect(), all)
    }

    #[test]
    fn one_line_is_one_place_whoever_called_its_function() {
        // Two calls in `guard`, from two places each; one by way of a stub; `guard` as inlined into
        // `other`; and addresses without a name. Calls on two lines are two places, but one
        // function.
        let stacks =
            ["0+10 0+100", "0+10 0+200", "0+14 0+100", "0+30 0+10", "0+20 0+100", "0+50 0+1", "0+50 0+2", "0+54"];
        let names = [
            (0x10, "guard\tsrc/g.c:5"),
            (0x14, "guard\tsrc/g.c:9"),
            (0x20, "guard\tsrc/g.c:5\nother\tsrc/o.c:7"),
            (0x30, "__mprotect\t"),
        ];
        let (sites, stacks) = sites(&stacks, &names);
        let callers = Callers::new(&sites, &stacks);
        let places: Vec<u32> = (0..sites.len() as u32).map(|site| callers.of(site)).collect();
        assert_eq!(places, [0, 1, 1, 3, 1, 5, 6, 6, 8]);
        let functions: Vec<u32> = (0..sites.len() as u32).map(|site| callers.function_of(site)).collect();
        assert_eq!(functions, [0, 1, 1, 1, 1, 5, 6, 6, 8]);
        assert_eq!(callers.of(1000), 1000);
    }
}
