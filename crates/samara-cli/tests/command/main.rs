//! The command `samara`, run as a user runs it: exit codes, output, files and traces.

mod attach;
mod cases;
mod check;
mod counts;
mod export;
mod help_and_usage;
mod hostile_names;
mod inspect;
mod nostop;
mod outputs;
mod refusals;
mod replay;
mod report;
mod run;
mod samples;
#[path = "../../../samara-trace/tests/file/seal.rs"]
mod seal;
mod show_and_events;
mod stacks;
mod switching;
mod terminal;
mod top;
mod top_pid;
mod trace;
mod watch;

#[allow(unreachable_pub)] // It is public in the test kit.
#[path = "../../../samara-testkit/src/skip.rs"]
mod skip;
