//! The terminal: takes it, and gives it back as it was, also on a panic. Knows nothing of what is
//! shown.

use std::io::{self, Stdout, Write};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use ratatui::crossterm::{cursor, execute};

/// Whether the terminal is ours. Relaxed: it guards no other data.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal, while it is ours. Dropping it gives it back.
pub(crate) struct Screen {
    pub(crate) terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal.
    ///
    /// # Errors
    /// There is none, or it refuses.
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
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout())).inspect_err(|_| give_back())?;
        Ok(Screen { terminal })
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
        self.terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(())
    }
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
