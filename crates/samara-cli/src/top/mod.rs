//! The live view of `samara top`: keys, and the loop that shows a source of events until the user
//! leaves. The parts, one file each:
//!
//! - `state`: the totals up to a moment; `view`, `detail`: the shown data;
//! - `draw`: data to cells; `terminal`: takes the terminal and gives it back;
//! - `live`: a recording; `player`: a trace file.
//!
//! Knows nothing of the command line.

mod detail;
mod draw;
pub(crate) mod live;
pub(crate) mod player;
mod state;
mod terminal;
mod view;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use signal_hook::SigId;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};

use self::draw::{Chosen, HELP, HELP_TRACE};
use self::live::Live;
use self::player::{Control, Player};
use self::state::State;
use self::terminal::Screen;
use self::view::{Key, Order, Table, View};
use crate::format::time;
use crate::line;
use crate::output::to_terminal;

/// How often the view is drawn, and how long a key may wait for a signal to be seen.
const FRAME: Duration = Duration::from_millis(100);
/// How long a program that was asked to end by a signal to samara may take.
const GRACE: Duration = Duration::from_secs(3);
/// How long `hang_up` sleeps between two looks at whether the program has ended.
const SHORT: Duration = Duration::from_millis(10);

const KEYS: &str = "tab table  s sort  r reverse  enter details  space pause  ? help  q quit";
const KEYS_TRACE: &str = "space play  <- -> seek  + - speed  tab table  enter details  ? help  q quit";

/// The source of events.
pub(crate) enum Source {
    Live(Live),
    Trace(Box<Player>),
}

impl Source {
    /// Moves on a source that is driven here. Returns whether there is more to do at once.
    fn advance(&mut self) -> bool {
        match self {
            Source::Live(_) => false,
            Source::Trace(player) => player.advance(),
        }
    }

    fn look<R>(&mut self, look: impl FnOnce(&mut State, u64) -> R) -> R {
        match self {
            Source::Live(live) => {
                let now = live.now_ns();
                look(&mut live.state(), now)
            }
            Source::Trace(player) => {
                let now = player.now_ns();
                look(player.state(), now)
            }
        }
    }

    /// Whether a recording is running.
    fn runs(&self) -> bool {
        matches!(self, Source::Live(live) if !live.is_over())
    }

    /// Whether the recorded process was attached to. It must be neither ended nor stopped.
    fn is_attached(&self) -> bool {
        matches!(self, Source::Live(live) if live.let_go().is_some())
    }

    /// Asks for the end of a recording. An attached process is let go. A started program is asked
    /// to end, with its whole process group, which it leads; a stopped one is continued for that.
    fn ask(&self, signal: Signal) {
        let Source::Live(live) = self else { return };
        if let Some(let_go) = live.let_go() {
            return let_go.ask();
        }
        let pid = live.state().first().and_then(|(pid, _)| i32::try_from(pid).ok());
        if let Some(pid) = pid.filter(|pid| *pid > 1 && self.runs()) {
            // It may have ended just now.
            let _ = killpg(Pid::from_raw(pid), signal);
            let _ = killpg(Pid::from_raw(pid), Signal::SIGCONT);
        }
    }

    /// Ends a recording whose terminal is gone: sends the program SIGHUP, and waits for its end,
    /// but not longer than [`GRACE`].
    fn hang_up(&self) {
        self.ask(Signal::SIGHUP);
        let asked = Instant::now();
        while self.runs() && !self.is_attached() && asked.elapsed() < GRACE {
            thread::sleep(SHORT);
        }
        if self.runs() && !self.is_attached() {
            self.ask(Signal::SIGKILL);
        }
    }

    fn status(&mut self, is_paused: bool) -> String {
        if let Source::Trace(player) = self {
            return player.status();
        }
        let (runs, is_attached) = (self.runs(), self.is_attached());
        let paused = if is_paused { "; the view is paused" } else { "" };
        let text = self.look(|state, now| match state.first() {
            None if is_attached => "attaching".to_owned(),
            None => "starting".to_owned(),
            Some((_, Some(ended))) => {
                let others = if runs && state.focus().is_some() { "; others go on" } else { "" };
                format!("ended {} after {}{others}", line::how(ended.status), time(ended.ns))
            }
            Some((_, None)) if runs && is_attached => format!("attached for {:.1} s", now as f64 / 1e9),
            Some((_, None)) if runs => format!("running for {:.1} s", now as f64 / 1e9),
            Some((_, None)) => format!("recorded for {}", time(now)),
        });
        text + paused
    }
}

/// Signals to this process since the watch for them began, which is before the recording: otherwise
/// a signal would cut that off.
pub(crate) struct Signals {
    /// The last one that asks to end; 0 for none. Relaxed, like the other: they guard no data.
    end: Arc<AtomicUsize>,
    continued: Arc<AtomicBool>,
    ids: Vec<SigId>,
}

impl Signals {
    pub(crate) fn watch() -> io::Result<Signals> {
        let mut signals = Signals { end: Arc::default(), continued: Arc::default(), ids: Vec::new() };
        for signal in [SIGTERM, SIGHUP, SIGINT, SIGQUIT] {
            let end = Arc::clone(&signals.end);
            signals.ids.push(signal_hook::flag::register_usize(signal, end, signal as usize)?);
        }
        signals.ids.push(signal_hook::flag::register(SIGCONT, Arc::clone(&signals.continued))?);
        Ok(signals)
    }

    /// A signal that came before.
    pub(crate) fn note(&self, signal: Signal) {
        self.end.store(signal as usize, Ordering::Relaxed);
    }

    fn asked(&self) -> Option<Signal> {
        Signal::try_from(i32::try_from(self.end.swap(0, Ordering::Relaxed)).ok()?).ok()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}

/// How the view was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// By the user.
    Quit,
    /// By a signal to this process.
    Signal(Signal),
}

/// What the user has chosen, in every table.
struct Ui {
    title: String,
    limit: Option<u64>,
    table: Table,
    orders: [Order; Table::ALL.len()],
    rows: [usize; Table::ALL.len()],
    /// The row that is shown in detail, and its lines.
    detail: Option<(Key, Vec<String>)>,
    help: bool,
    /// The first line that is shown of a text.
    scroll: usize,
    is_paused: bool,
    view: View,
    /// Rows that the screen has room for.
    page: usize,
    message: Option<String>,
    /// The deadline for leaving, once the user has asked for it.
    leaving: Option<Option<Instant>>,
    colour: bool,
}

/// Shows a source until the user leaves, or a signal asks for it; a closed terminal counts as
/// SIGHUP. `limit`: `vm.max_map_count`.
///
/// # Errors
/// The terminal cannot be used.
pub(crate) fn run(source: &mut Source, signals: &Signals, title: String, limit: Option<u64>) -> io::Result<Left> {
    let left = Screen::take().and_then(|mut screen| show(&mut screen, signals, source, Ui::new(title, limit)));
    // A started program cannot go on without a recorder.
    if left.is_err() {
        source.hang_up();
    } else if source.runs() {
        source.ask(Signal::SIGKILL);
    }
    match left {
        Err(_) if !to_terminal() => Ok(Left::Signal(Signal::SIGHUP)),
        left => left,
    }
}

fn show(screen: &mut Screen, signals: &Signals, source: &mut Source, mut ui: Ui) -> io::Result<Left> {
    let mut left = Left::Quit;
    let mut drawn: Option<Instant> = None;
    loop {
        let has_more = source.advance();
        if !screen.is_taken() {
            return Err(io::Error::other("a thread of samara has died"));
        }
        if signals.continued.swap(false, Ordering::Relaxed) {
            screen.take_again()?;
            drawn = None;
        }
        if let Some(signal) = signals.asked() {
            left = Left::Signal(signal);
            ui.ask(source, signal, Some(Instant::now() + GRACE));
        }
        let is_late = |deadline: Option<Instant>| deadline.is_some_and(|deadline| deadline <= Instant::now());
        if ui.leaving.is_some_and(|deadline| !source.runs() || is_late(deadline)) {
            return Ok(left);
        }
        if matches!(source, Source::Live(live) if live.has_failed()) {
            return Ok(left);
        }
        if drawn.is_none_or(|drawn| drawn.elapsed() >= FRAME) {
            ui.refresh(source);
            let chosen = ui.chosen(source);
            screen.terminal.draw(|frame| ui.page = draw::draw(frame, &ui.view, &chosen).max(1))?;
            drawn = Some(Instant::now());
        }
        let wait = if has_more { Duration::ZERO } else { FRAME.saturating_sub(drawn.map_or(FRAME, |d| d.elapsed())) };
        let mut next = screen.event(wait)?;
        while let Some(event) = next {
            drawn = None;
            match event {
                Event::Key(key) if key.kind != KeyEventKind::Release => match ui.key(key, source) {
                    Next::Stay => {}
                    Next::Leave => return Ok(left),
                    Next::Stop => screen.leave_for(|| {
                        // If the stop fails, the view continues.
                        let _ = signal_hook::low_level::emulate_default_handler(SIGTSTP);
                    })?,
                },
                _ => {}
            }
            next = screen.event(Duration::ZERO)?;
        }
    }
}

/// The effect of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Stay,
    Leave,
    /// Stop this process, as ^Z does.
    Stop,
}

impl Ui {
    fn new(title: String, limit: Option<u64>) -> Ui {
        Ui {
            title,
            limit,
            table: Table::Calls,
            orders: Table::ALL.map(Table::order),
            rows: [0; Table::ALL.len()],
            detail: None,
            help: false,
            scroll: 0,
            is_paused: false,
            view: View::default(),
            page: 1,
            message: None,
            leaving: None,
            // https://no-color.org
            colour: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        }
    }

    fn at(&self) -> usize {
        Table::ALL.iter().position(|table| *table == self.table).unwrap_or(0)
    }

    /// Asks the program to end, or releases the process. The view ends after that, or at the
    /// deadline.
    fn ask(&mut self, source: &Source, signal: Signal, deadline: Option<Instant>) {
        source.ask(signal);
        self.leaving = Some(deadline);
        self.message = Some(match source.is_attached() {
            true => " the process is being let go; q again leaves the view at once ".to_owned(),
            false => format!(" {signal} was sent to the program; q again kills it "),
        });
    }

    /// Makes the view anew, unless it is paused.
    fn refresh(&mut self, source: &mut Source) {
        let (limit, table, order) = (self.limit, self.table, self.orders[self.at()]);
        if self.is_paused && matches!(source, Source::Live(_)) {
            return;
        }
        let detail = self.detail.as_ref().map(|(key, _)| key.clone());
        let (view, lines) = source.look(|state, now| {
            let view = view::view(state, now, limit, table, order);
            (view, detail.and_then(|key| detail::lines(state, now, &key)))
        });
        self.view = view;
        // Details that are not known any more stay as they were.
        if let (Some((_, shown)), Some(lines)) = (&mut self.detail, lines) {
            *shown = lines;
        }
        self.bound();
    }

    /// Keeps the chosen row among the rows.
    fn bound(&mut self) {
        let (at, last) = (self.at(), self.view.rows.len().saturating_sub(1));
        self.rows[at] = self.rows[at].min(last);
    }

    fn chosen(&self, source: &mut Source) -> Chosen {
        let is_trace = matches!(source, Source::Trace(_));
        let help = || {
            let more = if is_trace { HELP_TRACE } else { "" };
            HELP.lines().chain(more.lines()).map(str::to_owned).collect()
        };
        let text = match &self.detail {
            _ if self.help => Some((help(), self.scroll)),
            Some((_, lines)) => Some((lines.clone(), self.scroll)),
            None => None,
        };
        Chosen {
            table: self.table,
            order: self.orders[self.at()],
            row: self.rows[self.at()],
            text,
            status: source.status(self.is_paused),
            message: self.message.clone(),
            title: self.title.clone(),
            colour: self.colour,
            keys: if is_trace { KEYS_TRACE } else { KEYS },
        }
    }

    fn key(&mut self, key: KeyEvent, source: &mut Source) -> Next {
        if self.leaving.is_none() {
            self.message = None;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            match key.code {
                KeyCode::Char('c') => return self.quit(source, Signal::SIGINT),
                KeyCode::Char('z') if source.is_attached() => {
                    self.message = Some(" samara does not stop: the process would, too; q lets go of it ".to_owned());
                    return Next::Stay;
                }
                KeyCode::Char('z') => return Next::Stop,
                _ => return Next::Stay,
            }
        }
        match key.code {
            KeyCode::Char('q') => return self.quit(source, Signal::SIGTERM),
            KeyCode::Char('?' | 'h') => (self.help, self.scroll) = (!self.help, 0),
            KeyCode::Esc | KeyCode::Backspace => {
                if self.help {
                    self.help = false
                } else {
                    self.detail = None
                }
                self.scroll = 0;
            }
            KeyCode::Enter => self.open(source),
            KeyCode::Tab => self.choose(self.at() + 1, source),
            KeyCode::BackTab => self.choose(self.at() + Table::ALL.len() - 1, source),
            KeyCode::Char(digit @ '1'..='5') => self.choose(digit as usize - '1' as usize, source),
            KeyCode::Char('s') => {
                let (at, columns) = (self.at(), self.table.columns().len());
                self.orders[at].column = (self.orders[at].column + 1) % columns;
                self.sort();
            }
            KeyCode::Char('r') => {
                let at = self.at();
                self.orders[at].reverse = !self.orders[at].reverse;
                self.sort();
            }
            KeyCode::Up | KeyCode::Char('k') => self.by(-1),
            KeyCode::Down | KeyCode::Char('j') => self.by(1),
            KeyCode::PageUp => self.by(-(self.page as isize)),
            KeyCode::PageDown => self.by(self.page as isize),
            code => self.play(code, source),
        }
        Next::Stay
    }

    /// Keys that change the shown moment.
    fn play(&mut self, code: KeyCode, source: &mut Source) {
        let Source::Trace(player) = source else {
            match code {
                KeyCode::Char(' ') => self.is_paused = !self.is_paused,
                KeyCode::Home => self.by(isize::MIN),
                KeyCode::End => self.by(isize::MAX),
                _ => {}
            }
            return;
        };
        player.control(match code {
            KeyCode::Char(' ') => Control::Pause,
            KeyCode::Char('+' | '=') => Control::Faster,
            KeyCode::Char('-') => Control::Slower,
            KeyCode::Left => Control::Back,
            KeyCode::Right => Control::Forward,
            KeyCode::Char(',') => Control::Previous,
            KeyCode::Char('.') => Control::Next,
            KeyCode::Home => Control::Begin,
            KeyCode::End => Control::End,
            _ => return,
        });
    }

    /// Leaves, if nothing is recorded or this is the second request; otherwise asks for the end of
    /// the recording.
    fn quit(&mut self, source: &Source, signal: Signal) -> Next {
        if !source.runs() || self.leaving.is_some() {
            return Next::Leave;
        }
        self.ask(source, signal, None);
        Next::Stay
    }

    /// Shows another table, as it is now: for a past moment only one table is kept.
    fn choose(&mut self, number: usize, source: &mut Source) {
        self.table = Table::ALL[number % Table::ALL.len()];
        (self.detail, self.help, self.scroll) = (None, false, 0);
        self.is_paused = false;
        self.refresh(source);
    }

    fn sort(&mut self) {
        let order = self.orders[self.at()];
        view::sort(&mut self.view.rows, order);
    }

    /// Shows the details of the chosen row.
    fn open(&mut self, source: &mut Source) {
        if self.help || self.detail.is_some() {
            return;
        }
        let Some(key) = self.view.rows.get(self.rows[self.at()]).map(|row| row.key.clone()) else { return };
        let lines = source.look(|state, now| detail::lines(state, now, &key));
        let lines = lines.unwrap_or_else(|| vec!["nothing is known of it any more".to_owned()]);
        (self.detail, self.scroll) = (Some((key, lines)), 0);
    }

    /// Moves the chosen row, or a text.
    fn by(&mut self, rows: isize) {
        if self.help || self.detail.is_some() {
            let lines =
                self.detail.as_ref().map_or(HELP.lines().count() + HELP_TRACE.lines().count(), |(_, l)| l.len());
            self.scroll = self.scroll.saturating_add_signed(rows).min(lines.saturating_sub(1));
        } else {
            let at = self.at();
            self.rows[at] = self.rows[at].saturating_add_signed(rows);
            self.bound();
        }
    }
}
