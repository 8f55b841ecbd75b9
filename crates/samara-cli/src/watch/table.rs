//! The table of all watched processes, and the choice of what to read now.
//!
//! A reading reads the sign of every process. It counts new processes, and those whose sign
//! changed, unless counting them so often would take more than half of the budget. Processes that
//! will soon reach the limit are counted nevertheless, as long as the budget lasts. While there is
//! budget, it also counts processes without a change for a minute, the oldest first, and finds
//! causes. Knows nothing of limits, and not the use of a reading.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use super::alert::{Raised, Reason};
use super::budget::{Budget, used_here};
use super::cause::{self, Cause};
use super::count::{Counted, NotCounted, Sign, Statm, count, other_thread};
use super::find::{self, Which};
use super::reading::{Others, Row};
use crate::pace::Pace;

/// A process whose sign has not changed is counted again after this time.
const AGAIN: Duration = Duration::from_secs(60);
/// A cause is found again when the number of areas has changed by more than one eighth.
const CHANGED: u64 = 8;
/// Time per area to find a cause, until it was measured.
const CAUSE: Duration = Duration::from_micros(8);

/// When the areas of a process were counted.
#[derive(Clone, Copy, Debug)]
struct LastCount {
    counted: Counted,
    /// Its sign just before.
    sign: Statm,
    at: Instant,
    cost: Duration,
}

/// A process.
#[derive(Debug)]
struct Process {
    name: String,
    /// KeptFile open. `None`: too many files are open; it is opened each time, and `started` shows
    /// whether it is the same process.
    sign: Option<Sign>,
    started: u64,
    /// The thread whose files show the space: the first one, until it ends.
    by: u32,
    now: Statm,
    seen: Option<LastCount>,
    /// When reading it was refused.
    refused: Option<Instant>,
    pace: Pace,
    /// It would reach the limit before the reading after the next one.
    is_urgent: bool,
    /// The number of areas at the last search for a cause, and the result.
    cause: Option<(u64, Option<Cause>)>,
    told: Raised,
}

/// What to do with a process in a reading.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Nothing,
    Count,
    /// Count it if there is time. It was last counted at this time.
    CountIfTime(Instant),
}

/// The processes.
#[derive(Debug)]
pub(crate) struct Table {
    all: BTreeMap<u32, Process>,
    pub(crate) which: Which,
    /// The usual time between two readings.
    pub(crate) every: Duration,
    began: Instant,
    /// Number of processes whose files `/proc` refused at this reading.
    hidden: u64,
    /// Number of signs that are open, and its maximum.
    open: usize,
    most_open: usize,
    buffer: Vec<u8>,
    /// Number of counts of areas.
    pub(crate) counts: u64,
    /// Time per area to find a cause.
    cause_cost: Duration,
    /// Bytes of a page.
    page: u64,
}

/// The budget as time passes.
#[derive(Debug)]
pub(crate) struct Meter {
    pub(crate) budget: Budget,
    used: Duration,
    at: Instant,
}

impl Meter {
    pub(crate) fn new(budget: Budget) -> Meter {
        Meter { budget, used: used_here(), at: Instant::now() }
    }

    /// Counts the time since the last call. Returns the processor time that was used.
    pub(crate) fn settle(&mut self) -> Duration {
        let (now, all) = (Instant::now(), used_here());
        let spent = all.saturating_sub(self.used);
        self.budget.pass(now.duration_since(self.at));
        self.budget.spend(spent);
        (self.used, self.at) = (all, now);
        spent
    }

    /// Counts the time used since the last call as alerts' debt, which is paid back over time.
    pub(crate) fn settle_alerts(&mut self) {
        let all = used_here();
        self.budget.owe(all.saturating_sub(self.used));
        self.used = all;
    }
}

impl Table {
    /// A table that keeps at most this many files open.
    pub(crate) fn new(which: Which, most_open: usize) -> Table {
        let page = samara_record::Options::new("").header().page_size;
        let (all, buffer, began) = (BTreeMap::new(), Vec::new(), Instant::now());
        Table {
            all,
            which,
            every: Duration::ZERO,
            began,
            hidden: 0,
            open: 0,
            most_open,
            buffer,
            counts: 0,
            cause_cost: CAUSE,
            page,
        }
    }

    /// Reads all processes. Without a meter every process is counted.
    ///
    /// # Errors
    /// The processes cannot be listed.
    pub(crate) fn read(&mut self, mut meter: Option<&mut Meter>) -> io::Result<()> {
        let pids = self.which.processes()?;
        let sure = self.which.sure()?;
        let gone: Vec<u32> = self.all.keys().copied().filter(|pid| !pids.contains(pid)).collect();
        gone.into_iter().for_each(|pid| self.remove(pid));
        // The debt of alerts was paid while nothing was read.
        if let Some(meter) = &mut meter {
            meter.settle();
        }
        self.hidden = 0;
        let mut later = Vec::new();
        for pid in pids {
            if !self.sign(pid) {
                continue;
            }
            let Some(process) = self.all.get_mut(&pid) else { continue };
            let named = self.which.names.is_empty() || sure.contains(&pid) || self.which.has_name(&process.name);
            if !named {
                (process.seen, process.refused, process.pace) = (None, None, Pace::default());
                continue;
            }
            match process.need(meter.as_deref()) {
                Need::Nothing => {}
                Need::Count => self.count(pid, meter.as_deref_mut()),
                Need::CountIfTime(at) => later.push((at, pid)),
            }
        }
        later.sort_unstable();
        for (_, pid) in later {
            let cost = self.all.get(&pid).and_then(|process| process.seen).map_or(Duration::ZERO, |seen| seen.cost);
            if meter.as_ref().is_none_or(|meter| meter.budget.affords(cost)) {
                self.count(pid, meter.as_deref_mut());
            }
        }
        let elapsed = self.began.elapsed();
        for process in self.all.values_mut() {
            // A process whose sign changed and that was not counted has no number now.
            if let Some(seen) = process.seen.filter(|seen| !seen.sign.differs(&process.now)) {
                process.pace.add(elapsed, seen.counted.areas, self.every);
            }
        }
        Ok(())
    }

    fn remove(&mut self, pid: u32) {
        if self.all.remove(&pid).is_some_and(|process| process.sign.is_some()) {
            self.open -= 1;
        }
    }

    /// Reads the sign of a process, which may be new. False: it has ended.
    fn sign(&mut self, pid: u32) -> bool {
        if let Some(process) = self.all.get_mut(&pid) {
            let now = match &process.sign {
                Some(sign) => sign.read(),
                None if find::started(pid) == process.started => Sign::open(pid).and_then(|sign| sign.read()),
                None => Err(io::ErrorKind::NotFound.into()),
            };
            match now {
                Ok(now) => {
                    // A program that was loaded has another name, and any can take one.
                    if !self.which.names.is_empty() {
                        process.name = find::name(pid);
                    }
                    process.see(pid, now);
                    return true;
                }
                // Another process may have the number by now.
                Err(_) => self.remove(pid),
            }
        }
        let (sign, now) = match Sign::open(pid).and_then(|sign| sign.read().map(|now| (sign, now))) {
            Ok(pair) => pair,
            Err(why) => {
                self.hidden += u64::from(why.kind() == io::ErrorKind::PermissionDenied);
                return false;
            }
        };
        let keeps = self.open < self.most_open;
        self.open += usize::from(keeps);
        let mut process = Process {
            name: find::name(pid),
            sign: keeps.then_some(sign),
            started: if keeps { 0 } else { find::started(pid) },
            by: pid,
            now,
            seen: None,
            refused: None,
            pace: Pace::default(),
            is_urgent: false,
            cause: None,
            told: Raised::default(),
        };
        process.see(pid, now);
        self.all.insert(pid, process);
        true
    }

    fn count(&mut self, pid: u32, mut meter: Option<&mut Meter>) {
        if let Some(meter) = &mut meter {
            meter.settle();
        }
        let by = self.all.get(&pid).map_or(pid, |process| process.by);
        let counted = count(by, &mut self.buffer);
        self.counts += 1;
        let cost = meter.map_or(Duration::ZERO, Meter::settle);
        let Some(process) = self.all.get_mut(&pid) else { return };
        let at = Instant::now();
        process.name = find::name(pid);
        match counted {
            Ok(counted) => {
                process.refused = None;
                process.seen = Some(LastCount { counted, sign: process.now, at, cost });
            }
            Err(NotCounted::Refused) => {
                (process.seen, process.refused, process.pace) = (None, Some(at), Pace::default());
            }
            Err(NotCounted::Ended) => self.remove(pid),
        }
    }

    /// The counted processes that are chosen: rows for those with the most areas, a sum for the
    /// others. And the number of unreadable processes.
    pub(crate) fn rows(&self, most: usize, limit: Option<u64>) -> (Vec<Row>, Others, u64) {
        let refused = self.all.values().filter(|process| process.refused.is_some() && process.now.has_space());
        let refused = refused.count() as u64 + self.hidden;
        let page = self.page;
        let shown = self.all.iter().filter(|(_, process)| process.now.has_space());
        let shown = shown.filter_map(|(pid, process)| Some((*pid, process, process.seen?.counted)));
        let mut shown: Vec<_> = shown.collect();
        shown.sort_by_key(|(pid, _, counted)| (std::cmp::Reverse(counted.areas), *pid));
        let rest = shown.split_off(most.min(shown.len()));
        let others = rest.iter().fold(Others::default(), |sum, (_, process, counted)| Others {
            processes: sum.processes + 1,
            areas: sum.areas.saturating_add(counted.areas),
            mapped: sum.mapped.saturating_add(process.now.mapped.saturating_mul(page)),
            resident: sum.resident.saturating_add(process.now.resident.saturating_mul(page)),
        });
        let shown = shown.into_iter().map(|(pid, process, counted)| row(pid, process, counted, limit, page));
        (shown.collect(), others, refused)
    }

    /// Whether a process grows so fast that it would reach the limit within this time. The next
    /// readings count it whenever its sign has changed, as long as time is saved up for that.
    pub(crate) fn is_urgent(&mut self, limit: Option<u64>, within: Duration) -> bool {
        let Some(limit) = limit else { return false };
        for (pid, process) in &mut self.all {
            let age = || find::age(*pid);
            process.is_urgent =
                process.seen.is_some() && process.now.has_space() && process.pace.is_urgent(limit, within, age);
        }
        self.all.values().any(|process| process.is_urgent)
    }

    /// Finds the due causes of these processes, if there is time for it.
    pub(crate) fn find_causes(&mut self, rows: &mut [Row], mut meter: Option<&mut Meter>) {
        for row in rows {
            let Some(process) = self.all.get_mut(&row.pid) else { continue };
            let known = process.cause.as_ref().map(|(areas, _)| *areas);
            let is_due = known.is_none_or(|areas| areas.abs_diff(row.areas) > areas / CHANGED);
            let cost = self.cause_cost.saturating_mul(u32::try_from(row.areas).unwrap_or(u32::MAX));
            if !is_due || meter.as_ref().is_some_and(|meter| !meter.budget.affords(cost)) {
                continue;
            }
            if let Some(meter) = &mut meter {
                meter.settle();
            }
            let found = cause::lines(process.by).map(|look| cause::of(&cause::event(row.pid, look)));
            let cost = meter.as_mut().map(|meter| meter.settle());
            if let Some(cost) = cost.filter(|_| row.areas > 1000) {
                self.cause_cost = cost / u32::try_from(row.areas).unwrap_or(u32::MAX);
            }
            // A text that changed while it was read may be unusable: the next reading retries.
            if let Ok(found) = found {
                process.cause = Some((row.areas, found.clone()));
                row.cause = found;
            }
        }
    }

    /// Notes that the areas of a process were kept, or that an alert for this reason kept nothing.
    pub(crate) fn keeps(&mut self, pid: u32, not_kept: Option<Reason>) {
        if let Some(process) = self.all.get_mut(&pid) {
            process.told.not_kept = not_kept;
        }
    }

    /// Sets the cause of a process that was found in another way.
    pub(crate) fn set_cause(&mut self, pid: u32, areas: u64, cause: Option<Cause>) {
        if let Some(process) = self.all.get_mut(&pid) {
            process.cause = Some((areas, cause));
        }
    }

    /// All processes that were counted now, with the alerts that they have raised.
    pub(crate) fn told(&mut self, limit: Option<u64>) -> impl Iterator<Item = (Row, &mut Raised)> {
        let page = self.page;
        self.all.iter_mut().filter_map(move |(pid, process)| {
            let seen = process.seen.filter(|_| process.now.has_space())?;
            let row = row(*pid, process, seen.counted, limit, page);
            Some((row, &mut process.told))
        })
    }

    /// The age of the oldest number of areas.
    pub(crate) fn oldest(&self) -> Duration {
        let shown = self.all.values().filter(|process| process.now.has_space());
        let ages = shown.filter_map(|process| Some(process.seen?.at.elapsed()));
        ages.max().unwrap_or_default()
    }

    /// Whether all processes that were asked for by number have ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.which.is_pids() && !self.all.values().any(|process| process.now.has_space())
    }
}

impl Process {
    /// Notes the present sign of its first thread.
    fn see(&mut self, pid: u32, now: Statm) {
        let other = if now.has_space() { None } else { other_thread(pid) };
        (self.by, self.now) = other.unwrap_or((pid, now));
    }

    /// The work that is due now.
    fn need(&self, meter: Option<&Meter>) -> Need {
        if !self.now.has_space() {
            return Need::Nothing;
        }
        let later = |at: Instant| if at.elapsed() >= AGAIN { Need::CountIfTime(at) } else { Need::Nothing };
        match (&self.seen, self.refused, meter) {
            (None, Some(at), _) => later(at),
            (None, None, _) | (Some(_), _, None) => Need::Count,
            (Some(seen), _, Some(meter)) => {
                let is_urgent = self.is_urgent && meter.budget.affords(seen.cost);
                let may = is_urgent || seen.at.elapsed() >= meter.budget.pause(seen.cost);
                if seen.sign.differs(&self.now) && may { Need::Count } else { later(seen.at) }
            }
        }
    }
}

fn row(pid: u32, process: &Process, counted: Counted, limit: Option<u64>, page: u64) -> Row {
    Row {
        pid,
        name: process.name.clone(),
        areas: counted.areas,
        per_second: process.pace.per_second(),
        left: process.pace.left(limit),
        grew: process.pace.grew(),
        mapped: process.now.mapped.saturating_mul(page),
        resident: process.now.resident.saturating_mul(page),
        largest_gap: counted.largest_gap,
        cause: process.cause.as_ref().and_then(|(_, cause)| cause.clone()),
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
