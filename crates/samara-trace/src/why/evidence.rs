//! Collects the evidence for one cause, and makes the verdict from it. Does not know the rules that
//! find causes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use super::callers::Callers;
use super::piece::Act;
use super::{Advice, PARTS, Part, Role, Survival, Verdict, VerdictKind};
use crate::event::AreaRecord;
use crate::survey::{PatternKind, size};

/// Fewer areas than this are no verdict.
pub(super) const LEAST: u64 = 8;
/// A verdict does not name a place with less than one hundredth of the times of the busiest place
/// of the same role.
const SMALL_PART: u64 = 100;

/// The key of a verdict.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cause {
    pub(super) kind: VerdictKind,
    pub(super) pattern: Option<PatternKind>,
    /// The reasons, the folder, or the file.
    pub(super) reason: String,
    pub(super) moved: bool,
    /// See [`Verdict::inferred`].
    pub(super) inferred: bool,
    /// The first site of the place that did it.
    pub(super) by: u32,
}

impl Cause {
    /// Whether it is the order in which pieces of files were mapped.
    pub(super) fn is_order(&self) -> bool {
        self.pattern == Some(PatternKind::FileViews) || (self.reason == "offset" && !self.moved)
    }
}

#[derive(Default)]
pub(super) struct Evidence {
    pub(super) areas: HashSet<u64>,
    pub(super) would_go: u64,
    /// The number of areas that would go too, if several places set the same flags, not their own.
    pub(super) turns: u64,
    pub(super) bytes: u64,
    pub(super) times: u64,
    pub(super) sizes: BTreeMap<u64, u64>,
    /// The threads that mapped the memory, of arenas.
    pub(super) threads: HashSet<u64>,
    /// For a leak: how much of the mapped memory is still there.
    pub(super) kept: Option<Survival>,
    /// The number of areas that would go if guards were installed.
    pub(super) installs: u64,
    /// How many boundaries have memory of `MAP_NORESERVE` on one side only.
    pub(super) unreserved: u64,
    /// The same as `installs` with slices of one mapping.
    pub(super) slices: u64,
    /// By the first site of each place.
    parts: BTreeMap<(Role, u32), Share>,
    pub(super) first: Option<(u64, u64)>,
}

/// What the calls of one place did.
#[derive(Default)]
struct Share {
    times: u64,
    events: HashSet<u64>,
    /// How often each of its sites.
    sites: BTreeMap<u32, u64>,
}

impl Evidence {
    /// One more instance of the cause: its range.
    pub(super) fn instance(&mut self, start: u64, end: u64) {
        self.times += 1;
        *self.sizes.entry(end - start).or_default() += 1;
        self.first.get_or_insert((start, end));
    }

    pub(super) fn part(&mut self, callers: &Callers, role: Role, act: Option<Act>) {
        if let Some(act) = act {
            let share = self.parts.entry((role, callers.of(act.site))).or_default();
            share.times += 1;
            share.events.insert(act.event);
            *share.sites.entry(act.site).or_default() += 1;
        }
    }

    /// Adds other evidence for the same cause. The caller sums the bytes.
    pub(super) fn join(&mut self, other: Evidence) {
        self.areas.extend(other.areas);
        self.would_go += other.would_go;
        (self.installs, self.slices) = (self.installs + other.installs, self.slices + other.slices);
        self.turns += other.turns;
        self.unreserved += other.unreserved;
        self.times += other.times;
        other.sizes.into_iter().for_each(|(size, n)| *self.sizes.entry(size).or_default() += n);
        for (part, share) in other.parts {
            let all = self.parts.entry(part).or_default();
            all.times += share.times;
            all.events.extend(share.events);
            share.sites.into_iter().for_each(|(site, n)| *all.sites.entry(site).or_default() += n);
        }
        self.first = [self.first, other.first].into_iter().flatten().min();
    }

    /// Adds a call that contributed.
    pub(super) fn call(&mut self, callers: &Callers, role: Role, act: Act) {
        if let Some(share) = self.parts.get_mut(&(role, callers.of(act.site))) {
            share.events.insert(act.event);
        }
    }

    pub(super) fn area(&mut self, area: &AreaRecord) {
        if self.areas.insert(area.start) {
            self.bytes = self.bytes.saturating_add(size(area));
        }
    }

    /// The verdict. `kept`: for each site, and for each place, how much of its mapped memory is
    /// still there. (How often memory was mapped that was there is not known.)
    pub(super) fn verdict(self, cause: Cause, callers: &Callers, kept: &[HashMap<u32, Survival>; 2]) -> Verdict {
        let [sites, places] = kept;
        let seen = self;
        let part = |((role, place), share): (&(Role, u32), &Share)| {
            // Other stacks may lead to the place, and have nothing to do with the verdict.
            let by_stacks = || places.get(place).map(|all| all.part(share.sites.keys().filter_map(|by| sites.get(by))));
            let is_counted = *role == Role::Made && !callers.is_found(*place);
            let kept = seen.kept.or_else(by_stacks).filter(|_| is_counted);
            // The most frequent stack; of equally frequent ones the last.
            let most = share.sites.iter().max_by_key(|(site, times)| (**times, **site));
            let site = most.map_or(*place, |(site, _)| *site);
            let (calls, sites) = (share.events.len() as u64, share.sites.len() as u64);
            Part { role: *role, site, times: share.times, calls, sites, kept }
        };
        let mut parts: Vec<Part> = seen.parts.iter().map(part).collect();
        parts.sort_by_key(|part| (part.role, Reverse(part.times), part.site));
        // Of each role the first ones, without those that hardly count.
        let mut role = (Role::Made, 0, 0);
        parts.retain(|part| {
            role = if part.role == role.0 { (role.0, role.1 + 1, role.2) } else { (part.role, 1, part.times) };
            role.2 = role.2.max(part.times);
            role.1 <= PARTS && part.times * SMALL_PART >= role.2
        });
        let (mut folder, mut file, mut reason) = (String::new(), String::new(), String::new());
        match (cause.kind, cause.pattern) {
            (VerdictKind::ManyFiles, _) => folder = cause.reason,
            (_, Some(PatternKind::FileViews)) => file = cause.reason,
            _ => reason = cause.reason,
        }
        let most = seen.sizes.iter().max_by_key(|(size, n)| (**n, **size));
        let (common, common_times) = most.map_or((0, 0), |(size, n)| (*size, *n));
        let installs = matches!(cause.pattern, Some(PatternKind::GuardPages | PatternKind::GuardedStacks));
        let advice = [
            Some(Advice::GuardInstall { fewer: seen.installs }).filter(|_| installs && seen.installs >= LEAST),
            Some(Advice::OneMapping { fewer: seen.slices }).filter(|_| seen.slices > 0),
        ];
        Verdict {
            advice: advice.into_iter().flatten().collect(),
            kind: cause.kind,
            pattern: cause.pattern,
            reason,
            moved: cause.moved,
            is_unreserved: seen.times > 0 && seen.unreserved == seen.times,
            inferred: cause.inferred,
            folder,
            file,
            arenas: seen.threads.len() as u64,
            areas: seen.areas.len() as u64,
            would_go: seen.would_go,
            bytes: seen.bytes,
            times: seen.times,
            common,
            common_times,
            sizes: (
                seen.sizes.keys().next().map_or(0, |size| *size),
                seen.sizes.keys().next_back().map_or(0, |size| *size),
            ),
            first: seen.first.unwrap_or_default(),
            parts,
        }
    }
}
