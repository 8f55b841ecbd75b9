//! The trace file: its format, damaged and forged files, the sink that writes it, and the replay of
//! its events.

mod format;
mod hostile;
#[cfg(target_os = "linux")]
mod output;
mod replay;
mod samples;
mod seal;
#[cfg(target_os = "linux")]
mod sink;
mod space;
mod stacks;
