//! Records a program and prints what the recorder found: `cargo run -p samara-record --example
//! record -- [-v] PROGRAM ARGS...`
#![forbid(unsafe_code)]

use samara_record::{Options, record};
use samara_trace::event::{Event, EventKind};
use samara_trace::{Sink, SinkError};

struct Print {
    verbose: bool,
}

impl Sink for Print {
    fn event(&mut self, event: Event) -> Result<(), SinkError> {
        let loud = matches!(event.kind, EventKind::Difference | EventKind::Learnt)
            || (event.kind == EventKind::Checked && event.result != 0);
        if self.verbose || loud {
            eprintln!(
                "{} {:?} pid {} tid {} nr {:?} {:x?} = {:x} {} {:x?} {:x?}",
                event.seq,
                event.kind,
                event.pid,
                event.tid,
                event.nr,
                event.args,
                event.result,
                event.text,
                event.window,
                event.plan
            );
        }
        Ok(())
    }
}

fn main() -> std::process::ExitCode {
    let mut args = std::env::args_os().skip(1).peekable();
    let verbose = args.next_if(|a| a == "-v").is_some();
    let Some(program) = args.next() else {
        eprintln!("usage: record [-v] PROGRAM ARGS...");
        return std::process::ExitCode::FAILURE;
    };
    match record(&Options::new(program).args(args), &mut Print { verbose }) {
        Ok(outcome) => {
            eprintln!("{}: {:#?}", outcome.status, outcome.counters);
            std::process::ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            std::process::ExitCode::FAILURE
        }
    }
}
