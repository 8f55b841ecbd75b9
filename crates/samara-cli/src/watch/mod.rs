//! `samara watch`: reads the areas of many processes repeatedly at low cost.
//!
//! One file each: `find` (which processes), `count` (one process: a sign that it changed, and the
//! number of its areas), `budget` (what reading may cost), `table` (all processes, and what to read
//! of them now), `cause` (the verdict on its areas), `reading` (the result), `metrics` (the result
//! for Prometheus), `serve` (over HTTP), `alert` (which processes are near the limit), `keep` (the
//! folder of what was kept), `exec` (a command at each alert), `record` (a recording at an alert),
//! `lines` (standard output). Knows nothing of options; the loop is the command's.
//!
//! - **WATCH-1** a number of areas was counted in the process's maps, never derived from anything
//!   else; its largest age is reported (`samara_watch_oldest_count_seconds`).
//! - **WATCH-2** over a minute or more, reading takes no more than its budget: required work delays
//!   the next reading, optional work waits. Time used for alerts delays only optional work, and
//!   requests delay nothing.

pub(crate) mod alert;
pub(crate) mod budget;
pub(crate) mod cause;
pub(crate) mod count;
pub(crate) mod exec;
pub(crate) mod find;
pub(crate) mod keep;
pub(crate) mod lines;
pub(crate) mod metrics;
pub(crate) mod reading;
pub(crate) mod record;
pub(crate) mod serve;
pub(crate) mod table;
