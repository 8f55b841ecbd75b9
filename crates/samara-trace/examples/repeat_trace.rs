//! Repeats a trace until it has a given number of events, and writes it as one long trace to
//! standard output, to measure readers of traces. Each repetition has new spaces and later times.
//!
//!     cargo build --release -p samara-trace --example repeat_trace
//!     target/release/examples/repeat_trace t.samara 100000000 | samara report /dev/stdin

use std::fs::File;
use std::io::BufWriter;

use samara_trace::event::{Event, EventKind};
use samara_trace::file::{TraceReader, TraceWriter};

/// Events of a batch.
const BATCH: usize = 4096;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(path), Some(events)) = (args.next(), args.next()) else {
        return Err("usage: repeat_trace TRACE EVENTS".into());
    };
    let events: u64 = events.parse()?;
    let header = TraceReader::new(File::open(&path)?)?.header().clone();
    let mut writer = TraceWriter::new(BufWriter::new(std::io::stdout().lock()), &header)?;
    let (mut seq, mut begin_ns, mut spaces) = (0, 0, 0);
    let mut defined = false;
    while seq < events {
        let (mut last_ns, mut last_space, mut batch) = (0, 0, Vec::with_capacity(BATCH));
        for event in TraceReader::new(File::open(&path)?)? {
            let event = event?;
            // Stacks and their names are the same each time.
            if event.kind.defines() && defined {
                continue;
            }
            last_ns = last_ns.max(event.exit_ns);
            last_space = last_space.max(event.space);
            let mut args = event.args;
            if event.kind == EventKind::Fork {
                args[0] += spaces;
            }
            let (entry_ns, exit_ns) = (event.entry_ns + begin_ns, event.exit_ns + begin_ns);
            batch.push(Event { seq, entry_ns, exit_ns, space: event.space + spaces, args, ..event });
            seq += 1;
            if batch.len() == BATCH {
                writer.write(&batch)?;
                batch.clear();
            }
        }
        writer.write(&batch)?;
        (begin_ns, spaces, defined) = (begin_ns + last_ns + 1, spaces + last_space + 1, true);
    }
    writer.finish()?;
    Ok(())
}
