//! The terminal: takes it, gives it back as it was, also on a panic, and reads keys. Does not know
//! the content.
//!
//! - **SCREEN-1** only a separate thread waits for keys: when a terminal is closed, crossterm 0.29
//!   reads its end for ever.

use std::io::{self, Stdout, Write};
use std::mem::ManuallyDrop;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::crossterm::{cursor, execute};

/// Whether the terminal is ours. Relaxed: it guards no other data.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal, while it is ours. Dropping it gives it back.
pub(crate) struct Screen {
    /// Never dropped: it would print that it cannot show the cursor, which panics if standard error
    /// is a terminal that was closed. `Screen` does the rest of its cleanup.
    pub(crate) terminal: ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>,
    events: Receiver<io::Result<Event>>,
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// There is no terminal, or it refuses.
    pub(crate) fn take() -> io::Result<Screen> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                // The message is to be read.
                give_back();
                before(panic);
            }));
        });
        enter()?;
        let terminal = terminal().inspect_err(|_| give_back())?;
        let events = events().inspect_err(|_| give_back())?;
        Ok(Screen { terminal, events })
    }

    /// Waits for a key, or another event of the terminal, at most `most`.
    ///
    /// # Errors
    /// The terminal cannot be read.
    pub(crate) fn event(&self, most: Duration) -> io::Result<Option<Event>> {
        match self.events.recv_timeout(most) {
            Ok(event) => event.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("keys cannot be read any more")),
        }
    }

    /// Whether it is still ours. Not after a panic of another thread.
    pub(crate) fn is_taken(&self) -> bool {
        IS_TAKEN.load(Ordering::Relaxed)
    }

    /// Gives the terminal back, runs something, and takes it again.
    pub(crate) fn leave_for(&mut self, run: impl FnOnce()) -> io::Result<()> {
        give_back();
        run();
        self.take_again()
    }

    /// Takes the terminal as if for the first time: another program may have changed it.
    pub(crate) fn take_again(&mut self) -> io::Result<()> {
        let _ = disable_raw_mode();
        enter()?;
        // The screen is empty now. (`Terminal::clear` would ask the terminal where its cursor is.)
        self.terminal = terminal()?;
        Ok(())
    }
}

fn terminal() -> io::Result<ManuallyDrop<Terminal<CrosstermBackend<Stdout>>>> {
    Terminal::new(CrosstermBackend::new(io::stdout())).map(ManuallyDrop::new)
}

/// Starts to read events, on a thread that ends with samara.
fn events() -> io::Result<Receiver<io::Result<Event>>> {
    let (told, tells) = mpsc::channel();
    thread::Builder::new().name("samara-keys".into()).spawn(move || {
        loop {
            let event = event::read();
            let failed = event.is_err();
            if told.send(event).is_err() || failed {
                return;
            }
        }
    })?;
    Ok(tells)
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn enter() -> io::Result<()> {
    enable_raw_mode()?;
    IS_TAKEN.store(true, Ordering::Relaxed);
    execute!(io::stdout(), EnterAlternateScreen, cursor::Hide).inspect_err(|_| give_back())
}

fn give_back() {
    if IS_TAKEN.swap(false, Ordering::Relaxed) {
        // A terminal that is gone takes nothing.
        let _ = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show);
        let _ = disable_raw_mode();
        let _ = io::stdout().flush();
    }
}
