//! The trace file: its format, damaged and forged files, the sink that writes it, and the replay of
//! its events.

mod format;
mod hostile;
mod output;
mod replay;
mod samples;
mod seal;
mod sink;
mod stacks;
