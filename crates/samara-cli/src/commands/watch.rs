//! `samara watch`: reads all processes repeatedly, shows the readings, and keeps the areas of a
//! process that comes near the limit. This is the loop; [`crate::watch`] has the parts.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use samara_record::inspect::{InspectError, max_map_count};
use samara_record::{RecordError, Running, processes};
use samara_trace::output::{Access, OutputName};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

use super::early::ignored;
use super::trace::not_run;
use crate::cli::Watch;
use crate::exit;
use crate::format::{bytes, count, plural};
use crate::output::{self, BOLD, clean, clean_json, error, shown, styled};
use crate::pace;
use crate::summary::quoted;
use crate::watch::alert::{Alert, Limits, Reason};
use crate::watch::budget::{Budget, used};
use crate::watch::cause::{self, Cause};
use crate::watch::exec::Exec;
use crate::watch::find::Which;
use crate::watch::keep::{self, Folder, KeepError, KeptFile, default_folder, recording_beside};
use crate::watch::lines::Lines;
use crate::watch::metrics;
use crate::watch::reading::{Own, Reading, Row};
use crate::watch::record::Recorder;
use crate::watch::serve::{self, ServedText};
use crate::watch::table::{Meter, Table};

/// Files that this process may open besides those of processes.
const FILES: u64 = 128;
/// Maximum number of alerts of one reading whose areas are kept; the others are only reported.
const ALERTS: usize = 16;
/// Factor by which the next reading comes sooner if a process would reach the limit before the one
/// after it.
const SOONER: u32 = 10;
/// A failed attempt to keep areas is repeated after this time.
const AGAIN: Duration = Duration::from_secs(60);
/// Time between two looks whether a command of an alert has ended.
const POLL: Duration = Duration::from_millis(20);

pub(crate) fn run(args: &Watch) -> ExitCode {
    let path = args.state.clone().unwrap_or_else(|| default_folder(|name| std::env::var_os(name)));
    let folder = Folder::new(path, args.keep_size, args.keep_age);
    if args.list {
        return list(args, &folder);
    }
    if let Some(group) = args.groups.iter().find(|group| !processes::group_folder(group).join("cgroup.procs").exists())
    {
        let why = "is no control group: give its folder, or its path below /sys/fs/cgroup";
        return super::failed(format!("{} {why}", shown(group)));
    }
    for pid in &args.pids {
        match Running::find(*pid) {
            // They cannot be recorded, but they can be watched.
            Ok(_) | Err(RecordError::Itself | RecordError::Traced { .. }) => {}
            Err(why) => return not_run(&why),
        }
    }
    let mut watcher = match Watcher::new(args, folder) {
        Ok(watcher) => watcher,
        Err(code) => return code,
    };
    if args.once { watcher.once() } else { watcher.go_on() }
}

/// Prints the kept files.
fn list(args: &Watch, folder: &Folder) -> ExitCode {
    let kept = match folder.list() {
        Ok(kept) => kept,
        Err(why) => return super::failed(why.to_string()),
    };
    let printed = output::styled_stdout(|out| {
        if args.json {
            return kept.iter().try_for_each(|kept| {
                let line = json!({
                    "time": keep::rfc3339(&kept.time), "name": kept.name, "pid": kept.pid, "areas": kept.areas, "reason": kept.reason,
                    "file": kept.path.to_string_lossy(), "file_bytes": kept.bytes,
                });
                writeln!(out, "{}", clean_json(&line.to_string()))
            });
        }
        let all = bytes(kept.iter().map(|kept| kept.bytes).sum());
        let title = match folder.path().exists() {
            true => format!("{}: {} kept, {all}", shown(folder.path()), counted(&kept)),
            false => format!("{}: there is no such folder; nothing was kept there", shown(folder.path())),
        };
        writeln!(out, "{} {title}", styled(BOLD, "samara:"))?;
        kept.iter().try_for_each(|kept| {
            let who = format!("{} ({})", kept.name, kept.pid);
            let file = clean(&quoted(&kept.path.to_string_lossy()));
            writeln!(out, "  {}  {who:<24} {:>9} areas  {:<7} {file}", kept.time, count(kept.areas), kept.reason)
        })
    });
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => super::failed(format!("cannot write to standard output: {why}")),
    }
}

/// How many surveys and recordings there are.
fn counted(kept: &[KeptFile]) -> String {
    let recordings = kept.iter().filter(|kept| kept.is_recording()).count() as u64;
    match (kept.len() as u64 - recordings, recordings) {
        (surveys, 0) => plural(surveys, "survey"),
        (0, recordings) => plural(recordings, "recording"),
        (surveys, recordings) => format!("{} and {}", plural(surveys, "survey"), plural(recordings, "recording")),
    }
}

/// A message that is printed when it changes, so that no reading repeats it.
#[derive(Debug, Default)]
struct Trouble(Option<String>);

impl Trouble {
    /// Sets the present trouble, and prints it if it is new. `None`: no trouble.
    fn tell(&mut self, now: Option<String>) {
        if let Some(text) = now.as_ref().filter(|_| now != self.0) {
            error(text);
        }
        self.0 = now;
    }
}

/// The state of a watch between two readings.
struct Watcher<'a> {
    args: &'a Watch,
    began: SystemTime,
    folder: Folder,
    table: Table,
    limits: Limits,
    shown: ServedText,
    /// The address where it listens.
    address: Option<SocketAddr>,
    exec: Option<Exec>,
    recorder: Option<Recorder>,
    /// Alerts by reason, surveys that were kept, and those that were not.
    alerts: BTreeMap<String, u64>,
    kept: u64,
    not_kept: u64,
    /// When keeping failed last.
    tried: Option<Instant>,
    no_file: Trouble,
    no_state: Trouble,
    no_record: Trouble,
    no_reading: Trouble,
    no_rights: Trouble,
    no_reader: Trouble,
    /// Standard output, if it gets JSON.
    lines: Option<Lines>,
}

impl<'a> Watcher<'a> {
    fn new(args: &'a Watch, folder: Folder) -> Result<Watcher<'a>, ExitCode> {
        let which = Which { pids: args.pids.clone(), names: args.names.clone(), groups: args.groups.clone() };
        let mut parts = args.keep_at.clone();
        parts.sort_unstable();
        // A counter that begins above 0 has not increased, to Prometheus.
        let reasons = parts.clone().into_iter().map(Reason::At).chain([Reason::Growth]);
        let (own, files) = descriptors();
        let mut watcher = Watcher {
            args,
            began: SystemTime::now(),
            folder,
            table: Table::new(which, files),
            limits: Limits { parts, ahead: args.ahead },
            shown: ServedText::default(),
            address: None,
            exec: args.exec.clone().map(|command| Exec::new(command, own)),
            recorder: args.record.map(Recorder::new),
            alerts: reasons.map(|reason| (reason.to_string(), 0)).collect(),
            kept: 0,
            not_kept: 0,
            tried: None,
            no_file: Trouble::default(),
            no_state: Trouble::default(),
            no_record: Trouble::default(),
            no_reading: Trouble::default(),
            no_rights: Trouble::default(),
            no_reader: Trouble::default(),
            lines: None,
        };
        watcher.table.every = args.every;
        if let Some(address) = args.listen {
            match serve::serve(address, watcher.shown.clone()) {
                Ok(address) => watcher.address = Some(address),
                Err(why) => {
                    let what = "give another address by --listen, or end what listens there";
                    return Err(super::failed(format!("cannot listen at {address}: {why}; {what}")));
                }
            }
        }
        Ok(watcher)
    }

    /// One reading.
    fn once(&mut self) -> ExitCode {
        let limit = max_map_count();
        let Some(reading) = self.read(limit, None) else { return exit::FAILED.into() };
        self.finish_commands(|| {
            std::thread::sleep(POLL);
            false
        });
        let lowest = |row: &Row| limit.is_some_and(|limit| self.limits.part(row.areas, limit).is_some());
        let is_near = self.table.told(limit).any(|(row, _)| lowest(&row));
        let text = metrics::text(&reading);
        if self.args.textfile.is_some() && !self.write(&text) {
            return exit::FAILED.into();
        }
        let json = self.args.json.then(|| clean_json(&reading.json().to_string()) + "\n");
        match output::stdout(|out| out.write_all(json.as_ref().unwrap_or(&text).as_bytes())) {
            Err(why) => super::failed(format!("cannot write to standard output: {why}")),
            Ok(()) if is_near => exit::CONDITION.into(),
            Ok(()) if self.table.which.is_pids() && reading.unreadable > 0 => exit::FAILED.into(),
            Ok(()) => ExitCode::SUCCESS,
        }
    }

    /// Reads again and again, until a signal comes.
    fn go_on(&mut self) -> ExitCode {
        let (mut ends, signals) = match signals() {
            Ok(pair) => pair,
            Err(why) => return super::failed(format!("cannot watch for signals: {why}")),
        };
        // Open as long as signals may come.
        let _signals = signals;
        if self.args.json {
            match Lines::new() {
                Ok(lines) => self.lines = Some(lines),
                Err(why) => return super::failed(format!("cannot make a thread: {why}")),
            }
        }
        self.say_start();
        if let Err(why) = self.folder.open() {
            self.no_state.tell(Some(format!("nothing will be kept: {why}")));
        }
        let mut cleared: Option<Instant> = None;
        let mut meter = Meter::new(Budget::new(self.args.budget));
        let mut is_late = false;
        loop {
            let began = Instant::now();
            // Removes old files even if nothing new is kept. `open` refuses another user's folder
            // (KEEP-3).
            if cleared.is_none_or(|cleared| cleared.elapsed() >= AGAIN) && self.folder.open().is_ok() {
                let _ = self.folder.make_room(SystemTime::now(), 0); // reported when something is kept
                cleared = Some(began);
            }
            let limit = max_map_count();
            let reading = self.read(limit, Some(&mut meter));
            let is_urgent = self.table.is_urgent(limit, self.args.every.saturating_mul(2));
            meter.settle();
            let every = if is_urgent { self.args.every / SOONER } else { self.args.every };
            let wait = every.saturating_sub(began.elapsed()).max(meter.budget.wait());
            let interval = began.elapsed() + wait;
            if let Some(mut reading) = reading {
                reading.own.interval = interval;
                self.show(&reading);
            }
            let was_late = std::mem::replace(&mut is_late, interval > self.args.every.mul_f64(1.5));
            if is_late && !was_late {
                let why = match meter.budget.wait().is_zero() {
                    true => "a reading takes longer than --every".to_owned(),
                    false => format!("readings take more than {} % of a processor (--budget)", self.args.budget),
                };
                let (now, asked) = (interval.as_secs_f64(), self.args.every.as_secs_f64());
                say(format!("{why}: the next one is after {now:.1} s, not {asked:.1} s"));
            } else if was_late && !is_late {
                say("the interval is again the one that --every asks for".to_owned());
            }
            if self.table.has_ended() {
                say("no process that --pid names is left".to_owned());
                self.finish_commands(|| has_come(&mut ends, POLL));
                self.recorded(Recorder::stop);
                return ExitCode::SUCCESS;
            }
            if has_come(&mut ends, wait) {
                self.recorded(Recorder::stop);
                return ExitCode::SUCCESS;
            }
        }
    }

    /// Prints what is watched, how often, and where the results are.
    fn say_start(&self) {
        let (what, every) = (self.table.which.to_string(), humantime::format_duration(self.args.every));
        let ends = match (self.table.which.is_pids(), self.args.pids.len()) {
            (false, _) => "until ^C",
            (true, 1) => "until ^C or its end",
            (true, _) => "until ^C or their end",
        };
        let mut places = vec![format!("keeps areas in {}", shown(self.folder.path()))];
        places.extend(self.args.textfile.as_ref().map(|file| format!("writes {}", shown(file))));
        places.extend(self.address.map(|address| format!("listens at http://{address}/metrics")));
        // A closed standard error cannot show the message.
        let _ = writeln!(
            anstream::stderr(),
            "{} watching {} every {every}, {ends}\n  {}",
            styled(BOLD, "samara:"),
            clean(&what),
            places.join("; ")
        );
    }

    /// Reads all processes, and then does the due work, alerts first. `None`: the processes cannot
    /// be listed.
    fn read(&mut self, limit: Option<u64>, mut meter: Option<&mut Meter>) -> Option<Reading> {
        let (time, began) = (SystemTime::now(), Instant::now());
        let read = self.table.read(meter.as_deref_mut());
        let failed = read.is_err();
        self.no_reading.tell(read.err().map(|why| format!("cannot list the processes: {why}")));
        if failed {
            return None;
        }
        if let Some(meter) = &mut meter {
            meter.settle();
        }
        self.alerts(limit);
        if let Some(meter) = &mut meter {
            meter.settle_alerts();
        }
        let (mut top, others, unreadable) = self.table.rows(self.args.top, limit);
        let who = if self.table.which.is_pids() { "a process that --pid names" } else { "some processes" };
        let hidden = (unreadable > 0).then(|| {
            format!("the areas of {who} may not be read, and are not watched: {}", processes::why_unreadable())
        });
        self.no_rights.tell(hidden);
        self.table.find_causes(&mut top, meter);
        let own = Own {
            began: Some(self.began),
            took: began.elapsed(),
            interval: self.args.every,
            asked: self.args.every,
            cpu: used(),
            counts: self.table.counts,
            oldest: self.table.oldest(),
            alerts: self.alerts.clone(),
            kept: self.kept,
            not_kept: self.not_kept,
        };
        Some(Reading { time, limit, top, others, unreadable, own })
    }

    /// Keeps and reports processes near the limit.
    fn alerts(&mut self, limit: Option<u64>) {
        self.reap();
        self.recorded(Recorder::ended);
        let Some(limit) = limit.filter(|limit| *limit > 0) else { return };
        let tries = self.tried.is_none_or(|tried| tried.elapsed() >= AGAIN);
        let (mut due, mut again) = (Vec::new(), Vec::new());
        for (row, told) in self.table.told(Some(limit)) {
            // At the limit, there is nothing to forecast.
            let ahead = row.left.filter(|left| !left.is_zero());
            let reasons = told.read(&self.limits, (row.areas, limit), ahead, (row.grew, row.per_second > Some(0.0)));
            if reasons.is_empty() {
                again.extend(told.not_kept.filter(|_| tries).map(|reason| (row.clone(), reason)));
            }
            due.extend(reasons.into_iter().map(|reason| (row.clone(), reason)));
        }
        due.sort_by_key(|(row, _)| std::cmp::Reverse(row.areas));
        for (i, (row, reason)) in due.into_iter().enumerate() {
            *self.alerts.entry(reason.to_string()).or_default() += 1;
            let kept = if i < ALERTS || self.args.once {
                self.keep(&row, reason)
            } else {
                self.table.keeps(row.pid, Some(reason)); // at the next reading
                None
            };
            let (cause, file) = kept.unzip();
            say(told(&row, limit, cause.flatten().as_ref(), file.as_deref()));
            if let Some(file) = &file {
                self.record(row.pid, reason, file);
            }
            let Some(exec) = &mut self.exec else { continue };
            let (pid, name, areas) = (row.pid, row.name, row.areas);
            let alert = Alert { reason, pid, name, areas, limit, per_second: row.per_second, left: row.left, file };
            exec.run(alert);
        }
        self.reap();
        for (row, reason) in again.into_iter().take(ALERTS) {
            if let Some((cause, file)) = self.keep(&row, reason) {
                say(told(&row, limit, cause.as_ref(), Some(&file)));
            }
        }
    }

    /// Manages the commands of alerts, and reports one that has failed.
    fn reap(&mut self) {
        if let Some(why) = self.exec.as_mut().and_then(Exec::reap) {
            error(format!("the command of --exec {why}"));
        }
    }

    /// Waits for the commands of alerts; each has a time limit. `pause` sleeps for a moment, and
    /// returns true to end the waiting.
    fn finish_commands(&mut self, mut pause: impl FnMut() -> bool) {
        while self.exec.as_ref().is_some_and(Exec::is_busy) && !pause() {
            self.reap();
        }
    }

    /// Keeps the areas of a process, unless none are kept. Returns their cause, and the file.
    fn keep(&mut self, row: &Row, reason: Reason) -> Option<(Option<Cause>, PathBuf)> {
        if self.args.once && self.args.state.is_none() {
            return None;
        }
        let kept = self.folder.keep(row.pid, reason);
        self.table.keeps(row.pid, kept.is_err().then_some(reason));
        match kept {
            Ok((path, event)) => {
                self.kept += 1;
                self.no_state.tell(None);
                let cause = cause::of(&event);
                self.table.set_cause(row.pid, row.areas, cause.clone());
                Some((cause, path))
            }
            // The process has ended meanwhile: there is nothing to keep.
            Err(KeepError::Look(InspectError::NoProcess(_) | InspectError::NoSpace(_) | InspectError::Ended(_))) => {
                self.table.keeps(row.pid, None);
                None
            }
            Err(why) => {
                self.not_kept += 1;
                self.tried = Some(Instant::now());
                let text =
                    format!("the areas of process {} are not kept (the next try is in a minute): {why}", row.pid);
                self.no_state.tell(Some(text));
                None
            }
        }
    }

    /// Begins to record a process whose areas were kept, if asked to and if no recording runs.
    fn record(&mut self, pid: u32, reason: Reason, kept: &Path) {
        let Some(recorder) = self.recorder.as_mut().filter(|recorder| !recorder.is_busy()) else { return };
        // KEEP-2, KEEP-3.
        let room = self.folder.open().and_then(|_| self.folder.make_room(SystemTime::now(), self.folder.part()));
        if let Err(why) = room {
            return self.no_record.tell(Some(format!("process {pid} is not recorded: {why}")));
        }
        let file = recording_beside(kept, reason);
        let failed = recorder.start(pid, &file, self.folder.part()).err();
        self.folder.recording = failed.is_none().then_some(file);
        self.no_record.tell(failed.map(|why| format!("process {pid} is not recorded: {why}")));
    }

    /// Reports a recording that has ended.
    fn recorded(&mut self, ended: impl FnOnce(&mut Recorder) -> Option<Result<PathBuf, String>>) {
        let Some(ended) = self.recorder.as_mut().and_then(ended) else { return };
        self.folder.recording = None;
        match ended {
            Ok(file) => {
                self.no_record.tell(None);
                say(format!("recorded: {} why {}", super::own_name(), clean(&quoted(&file.to_string_lossy()))));
                let room = self.folder.make_room(SystemTime::now(), 0);
                self.no_state.tell(room.err().map(|why| why.to_string()));
            }
            Err(why) => self.no_record.tell(Some(format!("not recorded: {why}"))),
        }
    }

    /// Shows a reading.
    fn show(&mut self, reading: &Reading) {
        let text = metrics::text(reading);
        if self.args.textfile.is_some() {
            self.write(&text);
        }
        self.shown.set(text);
        let Some(lines) = &mut self.lines else { return };
        match lines.print(clean_json(&reading.json().to_string())) {
            Ok(true) => self.no_reader.tell(None),
            Ok(false) => self
                .no_reader
                .tell(Some("standard output is not read: watching goes on, and leaves readings out of it".to_owned())),
            Err(why) if why.kind() == io::ErrorKind::BrokenPipe => {
                say("standard output has no reader any more: watching goes on, without JSON".to_owned());
            }
            Err(why) => error(format!("cannot write to standard output: {why}; watching goes on")),
        }
    }

    /// Writes the textfile. False: it cannot be written, which was reported.
    fn write(&mut self, text: &str) -> bool {
        let Some(path) = &self.args.textfile else { return true };
        let written = write_whole(path, text);
        let is_written = written.is_ok();
        self.no_file.tell(written.err().map(|why| format!("cannot write to {}: {why}", shown(path))));
        is_written
    }
}

/// Replaces a file atomically. Others may read it, as far as the umask lets them.
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    output::refuse_size_signal();
    let mut file = OutputName::resolve(path)?.whole(Access::Umask)?;
    file.write_all(text.as_bytes())?;
    file.commit()
}

/// Raises the soft limit of descriptors as far as possible. Returns the former limit, and the
/// number of files of processes that may be kept open.
fn descriptors() -> (u64, usize) {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return (1024, 0) };
    let most = match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(_) => soft,
    };
    (soft, usize::try_from(most.saturating_sub(FILES)).unwrap_or(usize::MAX))
}

/// Returns a stream that gets a byte when this process is asked to end, and its other end, which
/// must stay open. Ignored signals stay ignored (`nohup`). A second signal ends this process at
/// once, whatever it waits for.
fn signals() -> io::Result<(UnixStream, UnixStream)> {
    let (ends, signals) = UnixStream::pair()?;
    let (ignored, has_come) = (ignored(), Arc::new(AtomicBool::new(false)));
    for signal in [SIGTERM, SIGINT, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0) {
        flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&has_come))?;
        flag::register(signal, Arc::clone(&has_come))?;
        signal_hook::low_level::pipe::register(signal, signals.try_clone()?)?;
    }
    Ok((ends, signals))
}

/// Waits. Returns whether a signal came that asks to end.
fn has_come(ends: &mut UnixStream, wait: Duration) -> bool {
    // With a wait of zero no signal would be read.
    let until = Instant::now() + wait.max(Duration::from_millis(1));
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        if ends.set_read_timeout(Some(left)).is_err() {
            return true;
        }
        match ends.read(&mut [0]) {
            Ok(_) => return true,
            Err(why) if [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut].contains(&why.kind()) => {}
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return true,
        }
    }
}

/// The message of an alert: the process's state, and what to do now.
fn told(row: &Row, limit: u64, cause: Option<&Cause>, file: Option<&Path>) -> String {
    let mut text = format!("{} ({}) has {} of {} areas", row.name, row.pid, count(row.areas), count(limit));
    if let Some(left) = row.left.filter(|left| !left.is_zero()) {
        // The rate of the forecast.
        let more = limit.saturating_sub(row.areas) as f64 / left.as_secs_f64();
        let more = plural((more * 60.0).round() as u64, "more area");
        text += &format!(", {more} a minute, the limit in {}", pace::about(left));
    }
    if let Some(cause) = cause {
        let pattern = cause.pattern.map_or_else(String::new, |pattern| format!(" ({pattern})"));
        text += &format!("; {}{pattern}", cause.verdict);
    }
    if let Some(file) = file {
        text += &format!("; {} why {}", super::own_name(), quoted(&file.to_string_lossy()));
    }
    text
}

/// Prints a message to standard error.
fn say(text: String) {
    // A closed standard error cannot show the message.
    let _ = writeln!(anstream::stderr(), "{} {}", styled(BOLD, "samara:"), clean(&text));
}
