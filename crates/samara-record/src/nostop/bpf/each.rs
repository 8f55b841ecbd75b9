//! Attaches the BPF programs to the tracepoints of each recorded call. This slows other system
//! calls, in all processes, half as much as programs at all calls do. Knows no records.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use aya::Ebpf;
use aya::programs::{ProgramError, TracePoint};

use super::first_line;
use crate::nostop::perf::{self, Counts, Event, Of};
use crate::nostop::source::CallsToRecord;
use crate::nostop::tracefs::Tracefs;
use crate::os::closing::close_apart;

/// Attached programs. Dropping this detaches them, which takes the kernel some 36 ms for each
/// event: see [`close_apart`].
#[derive(Debug)]
pub(super) struct EachCall(Vec<Event>);

impl EachCall {
    /// Attaches the programs. An error says in a few words why that is not possible: no tracefs,
    /// too few descriptors, or a kernel before Linux 5.15.
    pub(super) fn new(programs: &mut Ebpf, asked: CallsToRecord<'_>) -> Result<EachCall, String> {
        let tracefs = Tracefs::find().map_err(|e| format!("tracefs cannot be read: {e}"))?;
        let mut all = EachCall(Vec::new());
        for (name, kind, calls) in
            [("each_exit", "exit", asked.calls.to_vec()), ("each_enter", "enter", [asked.calls, asked.ends].concat())]
        {
            let program = programs.program_mut(name).ok_or_else(|| format!("the program {name} is missing"))?;
            let program: &mut TracePoint = program.try_into().map_err(|e: ProgramError| e.to_string())?;
            program
                .load()
                .map_err(|e| format!("the kernel, perhaps older than 5.15, refuses them: {}", first_line(&e)))?;
            let program = program.fd().map_err(|e| e.to_string())?.as_fd().as_raw_fd();
            for call in calls.into_iter().filter_map(samara_trace::calls::name) {
                all.attach(&tracefs, &format!("syscalls/sys_{kind}_{call}"), program)
                    .map_err(|e| format!("the kernel refuses sys_{kind}_{call}: {e}"))?;
            }
            if all.0.is_empty() {
                return Err("this kernel has no tracepoints of system calls".to_owned());
            }
        }
        Ok(all)
    }

    /// Calls that this kernel does not have are left out.
    fn attach(&mut self, tracefs: &Tracefs, name: &str, program: i32) -> io::Result<()> {
        let Some(tracepoint) = tracefs.tracepoint(name)? else { return Ok(()) };
        // The event's processor does not matter: the program runs on all. The event itself counts
        // nothing.
        let event = perf::open(Counts::Tracepoint(tracepoint.number), Of::All, 0, 1, 0)?;
        event.disable();
        event.run(program)?;
        self.0.push(event);
        Ok(())
    }
}

impl Drop for EachCall {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            close_apart(std::mem::take(&mut self.0).into_iter().map(Event::into_descriptor).collect());
        }
    }
}
