//! Processes that a fault ended, and the history of the memory at the fault's address. Knows
//! nothing of files, and prints nothing.

use std::collections::HashMap;

use crate::event::{AreaRecord, Event, EventKind, StepKind};
use crate::file::{Place, Replay, Space, call_name};
use crate::survey::ACCESS;
use crate::uapi;
use crate::why::Origins;

/// Bits of [`AreaRecord::perms`].
const WRITE: u8 = 2;
const EXEC: u8 = 4;
/// Advice of `madvise`.
const GUARD_INSTALL: i32 = 102;
const GUARD_REMOVE: i32 = 103;
/// Maximum distance from a stack's end of an access to the stack: the size of a large frame.
const FRAME: u64 = 1 << 20;
/// Maximum distance below the stack pointer that programs write to before they move it.
const BELOW: u64 = 4096;
/// `si_code` of SIGSEGV where a protection key forbade the access.
const SEGV_PKUERR: i32 = 4;

/// A process that ended by SIGSEGV or SIGBUS, for a fault, or by the signal that it then sent
/// itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Crash {
    /// The process.
    pub pid: u32,
    /// Its space.
    pub space: u64,
    /// The number of the fault's signal.
    pub signal: i32,
    /// The number of the signal that ended it: another one if its handler ended it.
    pub ended_by: i32,
    /// Why it faulted, as `si_code` says.
    pub code: i32,
    /// The address at which it faulted.
    pub address: u64,
    /// The area that holds the address; `None` if nothing is mapped there.
    pub area: Option<AreaRecord>,
    /// The instruction that faulted, if there is memory where it should be.
    pub caller: Option<Place>,
    /// The address of that instruction, and the stack pointer, as far as they are known.
    pub registers: (Option<u64>, Option<u64>),
    /// The event of its end.
    pub seq: u64,
    /// When it ended, in nanoseconds since the recording began.
    pub ns: u64,
}

/// The cause of a crash, from the events before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Before {
    /// Why the access is not allowed, if memory is at the address or a stack above it.
    pub forbidden: Option<Forbidden>,
    /// The memory that was taken away.
    pub lost: Option<Lost>,
}

/// Why an access was not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Forbidden {
    /// What forbids it.
    pub how: Forbids,
    /// The site that had mapped the memory ([`Origins::sites`]); `None`: not known.
    pub made: Option<u32>,
    /// The later call that forbade it. `None`: the memory was mapped so, or no call did it.
    pub by: Option<By>,
}

/// A call that forbade an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct By {
    /// Its site.
    pub site: u32,
    /// Its event.
    pub seq: u64,
    /// When it had returned, in nanoseconds since the recording began.
    pub ns: u64,
}

/// What forbids an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Forbids {
    /// The memory has no access.
    NoAccess,
    /// It may not be written.
    NoWriting,
    /// It may not be executed.
    NoExecuting,
    /// A protection key.
    ProtectionKey,
    /// A guard that `madvise` made (MADV_GUARD_INSTALL).
    Guard,
    /// The guard below the stack of a thread.
    StackGuard,
    /// The address is below the first stack, which may not grow further.
    StackEnd,
    /// The address is beyond the end of the file that is mapped there.
    FileEnd,
}

impl Forbids {
    /// Its name in machine-readable output.
    pub fn name(self) -> &'static str {
        match self {
            Forbids::NoAccess => "no-access",
            Forbids::NoWriting => "no-writing",
            Forbids::NoExecuting => "no-executing",
            Forbids::ProtectionKey => "protection-key",
            Forbids::Guard => "guard",
            Forbids::StackGuard => "stack-guard",
            Forbids::StackEnd => "stack-end",
            Forbids::FileEnd => "file-end",
        }
    }
}

/// Memory that a call replaced, moved away or unmapped before a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    /// How it relates to the fault's address.
    pub near: Near,
    /// The site that had mapped it ([`Origins::sites`]); `None`: not known.
    pub made: Option<u32>,
    /// The site of the call.
    pub by: u32,
    /// The event of the call.
    pub seq: u64,
    /// When it had returned, in nanoseconds since the recording began.
    pub ns: u64,
    /// The memory: first address, and end.
    pub range: (u64, u64),
    /// Whether the call mapped other memory in its place.
    pub replaced: bool,
    /// Whether the call moved it to another place.
    pub moved: bool,
}

/// How memory relates to the address of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Near {
    /// The address was in it.
    There,
    /// It was in the range of the area that holds the address.
    InArea,
    /// It was elsewhere, and the call mapped over a part of it and over other addresses. A program
    /// that reads the replaced memory may get a null pointer, and fault at another address.
    Elsewhere,
}

/// The history of a space, as far as it concerns a fault's address.
#[derive(Clone, Copy, Debug, Default)]
struct Past {
    /// The call that took away the memory of the address's page, if nothing happened to the page
    /// since. If other memory is there now, the call replaced it.
    there: Option<Lost>,
    /// The last memory that was replaced in the area of the address, and elsewhere.
    in_area: Option<Lost>,
    elsewhere: Option<Lost>,
    /// The call that last changed the page's access; `None`: none since it was mapped.
    changed: Option<By>,
    /// The call that made the page a guard.
    guard: Option<By>,
}

impl Crash {
    /// The crash that an event reports. `replay` is as before the event.
    pub(crate) fn of(event: &Event, replay: &Replay) -> Option<Crash> {
        let address = event.fault()?;
        let space = replay.space_of(event.pid);
        let ended_by = event.result as i32 & 0x7f;
        let told = event.args[2] as i32;
        Some(Crash {
            pid: event.pid,
            space: replay.process(event.pid)?.space,
            signal: if told == 0 { ended_by } else { told },
            ended_by,
            code: event.args[1] as i32,
            address,
            area: space.and_then(|space| space.at(address)),
            caller: event.ip.zip(space).and_then(|(ip, space)| space.place(ip)),
            registers: (event.ip, Some(event.args[3]).filter(|at| *at != 0)),
            seq: event.seq,
            ns: event.exit_ns,
        })
    }

    /// The cause of this crash, from the events of the trace up to it: the last thing that happened
    /// to the page of the address. If memory is there: what forbids the access, the call that
    /// forbade it, and the memory that was replaced. If none is there: the call that took it away.
    ///
    /// Otherwise: the last call that replaced memory in the area of the address; or, if nothing is
    /// mapped there, the last one that mapped over a part of some memory and over other addresses.
    /// Calls from the site that had mapped the memory, and the loader's, do not count as replacing.
    pub fn before(&self, events: impl Iterator<Item = Event>) -> Before {
        let (mut replay, mut origins) = (Replay::default(), Origins::default());
        let mut all: HashMap<u64, Past> = HashMap::new();
        for event in events.take_while(|event| event.seq < self.seq || event.kind.defines()) {
            if event.kind.defines() {
                continue;
            }
            let was = replay.space(event.space).and_then(|space| space.at(self.address));
            let found = match event.kind {
                EventKind::Call => self.lost_in(&event, &replay, &origins),
                _ => Vec::new(),
            };
            if replay.apply(&event).is_err() {
                return Before::default();
            }
            let site = origins.apply(&event, &replay);
            if event.kind == EventKind::Fork
                && let Some(inherited) = all.get(&event.args[0]).copied()
            {
                all.insert(event.space, inherited);
            }
            // A fork has copied its parent's history instead.
            if let Some(site) = site.filter(|_| event.kind != EventKind::Fork) {
                let by = By { site, seq: event.seq, ns: event.exit_ns };
                let now = replay.space(event.space).and_then(|space| space.at(self.address));
                let past = all.entry(event.space).or_default();
                self.follow(past, &event, by, [was.as_ref(), now.as_ref()], found);
            }
            replay.dropped().iter().filter(|space| **space != self.space).for_each(|space| {
                all.remove(space);
            });
        }
        let past = all.remove(&self.space).unwrap_or_default();
        self.judge(&past, &replay, &origins)
    }

    /// Updates the history of a space by one event. `was` and `now`: the areas of the address
    /// before and after it; `found`: the memory that it took away.
    fn follow(&self, past: &mut Past, event: &Event, by: By, areas: [Option<&AreaRecord>; 2], found: Vec<Lost>) {
        let (mut there, mut in_area) = (None, None);
        for lost in found.into_iter().filter(|lost| !lost.replaced || lost.made != Some(by.site)) {
            let lost = Some(Lost { by: by.site, ..lost });
            match lost.map(|lost| lost.near) {
                Some(Near::There) => there = lost,
                Some(Near::InArea) => in_area = lost,
                _ => past.elsewhere = lost,
            }
        }
        let laid =
            |step: &crate::event::Step| step.kind == StepKind::Mapped && (step.start..step.end).contains(&self.address);
        past.in_area = in_area.or(past.in_area);
        match areas {
            [Some(was), Some(now)] if !event.plan.iter().any(laid) => {
                if was.perms != now.perms {
                    (past.changed, past.there) = (Some(by), None);
                }
            }
            [None, None] => {}
            // The history of an earlier mapping at these addresses no longer matters.
            _ => (past.there, past.in_area, past.changed, past.guard) = (there, in_area, None, None),
        }
        if event.nr.and_then(call_name) == Some("madvise")
            && event.result == 0
            && self.address.wrapping_sub(event.args[0])
                < event.args[1].checked_next_multiple_of(4096).unwrap_or(u64::MAX)
        {
            match event.args[2] as i32 {
                GUARD_INSTALL => past.guard = Some(by),
                GUARD_REMOVE => past.guard = None,
                _ => {}
            }
        }
    }

    /// The cause of the fault, from the history of the space.
    fn judge(&self, past: &Past, replay: &Replay, origins: &Origins) -> Before {
        let Some(area) = &self.area else {
            let forbidden =
                self.is_below_stack(replay).then_some(Forbidden { how: Forbids::StackEnd, made: None, by: None });
            let lost = past.there.or(past.elsewhere).filter(|_| forbidden.is_none());
            return Before { forbidden, lost };
        };
        let made = origins.maker(self.space, self.address);
        let forbidden = self.forbids(area, past).map(|(how, by)| {
            let closed = matches!(how, Forbids::NoAccess | Forbids::Guard);
            let is_stack = made.is_some_and(|site| origins.sites().get(site as usize).is_some_and(is_for_stack));
            match closed && (is_stack || self.is_near_stack_pointer()) {
                true => Forbidden { how: Forbids::StackGuard, made, by: None },
                false => Forbidden { how, made, by },
            }
        });
        // The access that a later call set weighs more than the memory that was there before. The
        // access that came with the mapping does not.
        let is_late = forbidden.is_some_and(|forbidden| forbidden.by.is_some());
        let is_guard = forbidden.is_some_and(|forbidden| forbidden.how == Forbids::StackGuard);
        let in_area = past.in_area.filter(|lost| forbidden.is_none() || Some(lost.by) == made);
        let lost = past.there.or(in_area).filter(|_| !is_late && !is_guard);
        Before { forbidden, lost }
    }

    /// What forbids the access to the memory at the address, and the call that forbade it. No call:
    /// the memory was mapped so.
    fn forbids(&self, area: &AreaRecord, past: &Past) -> Option<(Forbids, Option<By>)> {
        if self.signal == uapi::SIGBUS {
            // SIGBUS on huge pages: they ran out. Memory without a name has no end.
            let is_file = area.inode != 0 && !area.name.starts_with("/dev/zero") && !area.name.contains("hugepage");
            return (self.code == uapi::BUS_ADRERR && is_file).then_some((Forbids::FileEnd, None));
        }
        if self.code == SEGV_PKUERR {
            return Some((Forbids::ProtectionKey, None));
        }
        let how = match area.perms {
            perms if perms & ACCESS == 0 => Forbids::NoAccess,
            perms if perms & EXEC == 0 && self.registers.0 == Some(self.address) => Forbids::NoExecuting,
            _ if past.guard.is_some() => return Some((Forbids::Guard, past.guard)),
            perms if perms & WRITE == 0 => Forbids::NoWriting,
            _ => return None,
        };
        Some((how, past.changed))
    }

    /// Whether the address is near the stack pointer, where the thread's stack would continue.
    fn is_near_stack_pointer(&self) -> bool {
        self.registers
            .1
            .is_some_and(|sp| self.address < sp.saturating_add(FRAME) && sp <= self.address.saturating_add(BELOW))
    }

    /// Whether the address is a little below the first stack, which has grown as far as it may.
    fn is_below_stack(&self, replay: &Replay) -> bool {
        let above = replay.space(self.space).and_then(|space| space.between(self.address, u64::MAX).next());
        let near =
            |area: &AreaRecord| area.start - self.address.min(area.start) <= FRAME || self.is_near_stack_pointer();
        self.signal == uapi::SIGSEGV && above.is_some_and(|area| area.name == "[stack]" && near(&area))
    }

    /// The memory that a call took away and that may have to do with the fault. `replay` and
    /// `origins` are as before the call.
    fn lost_in(&self, event: &Event, replay: &Replay, origins: &Origins) -> Vec<Lost> {
        let Some(space) = replay.space(event.space) else { return Vec::new() };
        let gone = event.plan.iter().filter(|step| step.kind == StepKind::Unmapped);
        let found = gone.filter_map(|step| {
            let range = (step.start, step.end);
            let meets = |step: &&crate::event::Step| step.start < range.1 && range.0 < step.end;
            let mapped = event.plan.iter().filter(|step| step.kind == StepKind::Mapped).find(meets);
            let moved = event.plan.iter().filter(|step| step.kind == StepKind::Moved).any(|step| meets(&step));
            let (near, at) = self.near(range, mapped.map(|step| (step.start, step.end)))?;
            let was = space.at(at)?;
            if mapped.is_some() && !may_surprise(event, space, &was) {
                return None;
            }
            let (made, replaced) = (origins.maker(event.space, at), mapped.is_some());
            let moved = moved && !replaced;
            Some(Lost { near, made, by: 0, seq: event.seq, ns: event.exit_ns, range, replaced, moved })
        });
        found.collect()
    }

    /// How an unmapped range relates to the address, and the address at which to look up the lost
    /// memory. `mapped`: the range that the same call mapped over it.
    fn near(&self, range: (u64, u64), mapped: Option<(u64, u64)>) -> Option<(Near, u64)> {
        if (range.0..range.1).contains(&self.address) {
            return Some((Near::There, self.address));
        }
        let mapped = mapped?;
        match &self.area {
            Some(area) => (range.0 < area.end && area.start < range.1).then(|| (Near::InArea, range.0.max(area.start))),
            None => (mapped.0 < range.0 || range.1 < mapped.1).then_some((Near::Elsewhere, range.0)),
        }
    }
}

/// Whether a call that mapped over this memory may surprise the program: the memory had access, and
/// the call is not the loader's, which lays the parts of a file over one another.
fn may_surprise(event: &Event, space: &Space, was: &AreaRecord) -> bool {
    let place = event.ip.and_then(|ip| space.place(ip));
    let file = place.as_ref().map_or("", |place| place.name.rsplit('/').next().unwrap_or_default());
    let same_file = |now: &AreaRecord| now.inode != 0 && (now.dev, now.inode) == (was.dev, was.inode);
    was.perms & ACCESS != 0 && !file.starts_with("ld-") && !event.areas.iter().any(same_file)
}

/// Whether a site's calls map stacks of threads.
fn is_for_stack(site: &crate::why::Site) -> bool {
    site.nr.and_then(call_name) == Some("mmap") && site.args[3] as i32 & uapi::MAP_STACK != 0
}

#[cfg(test)]
#[path = "crash_tests.rs"]
mod tests;
