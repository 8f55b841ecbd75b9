//! What a trace is made of: events, as plain data. Knows nothing of ptrace, of models or of files.
//!
//! An event says what happened (a call, a new program, a child, an end, an area that changed
//! without a call, a difference) and carries its effect in full: the areas that stand in `window`
//! after it. Whoever lays the effects over one another in order has the address space at any
//! moment, without knowing Linux's rules.

/// The [`Event::text`] of a call, or of a fork, that was beside others in the kernel, and of which
/// nobody can know what it did, as their order is not known: what the kernel has was taken over.
pub const UNSURE: &str = "unsure";

/// What an event tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// A system call that can change an address space returned.
    Call,
    /// A new program was loaded (the first one too): `areas` is the whole space, `text` the
    /// program's path.
    Exec,
    /// A process was created with a copy of its parent's space: `areas` is the whole space,
    /// `args[0]` the parent's space.
    Fork,
    /// A process was created that shares its parent's space (`vfork`, `CLONE_VM` without
    /// `CLONE_THREAD`).
    Share,
    /// A process ended: `result` is its wait status as `waitpid` gives it. The space goes with its
    /// last user.
    Exit,
    /// Areas were found changed though no call explains it and none is needed: a stack grew on a
    /// fault, for one. `text` says what.
    Learnt,
    /// Model and kernel differ and nothing explains it: `text` says how; `areas` is what the kernel
    /// says.
    Difference,
    /// The model at a process's end was compared with the whole of `/proc/PID/maps`: `result` 0
    /// means equal to the byte.
    Checked,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Position in the order in which the recorder applied the events, from 0.
    pub seq: u64,
    /// What happened.
    pub kind: EventKind,
    /// When the call was entered, in nanoseconds since the recording began (CLOCK_MONOTONIC).
    pub entry_ns: u64,
    /// When it had returned. Equal to `entry_ns` where nothing was entered.
    pub exit_ns: u64,
    /// The address space: a number that is never used again within a trace.
    pub space: u64,
    /// The process (thread group).
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The system call's number on the traced architecture, where it was one.
    pub nr: Option<u32>,
    /// Its raw arguments.
    pub args: [u64; 6],
    /// Its raw result: a value, or a negative errno.
    pub result: i64,
    /// Whether another call of the same space was in flight at the same time.
    pub overlapped: bool,
    /// What the call really did, in order.
    pub plan: Vec<Step>,
    /// The part of the space, `[start, end)`, that `areas` describes; `None` where nothing changed.
    pub window: Option<(u64, u64)>,
    /// The areas that meet `window` once the event is over, whole (they may stick out), ascending.
    pub areas: Vec<AreaRecord>,
    /// A path, or what a difference is about; of a call that the engine in charge refused of its
    /// own, [why](crate::Cause::word); of one whose effect is not known, [`UNSURE`]; empty
    /// otherwise.
    pub text: String,
}

/// One thing that a call did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What was done.
    pub kind: StepKind,
    /// First address concerned.
    pub start: u64,
    /// First address after it.
    pub end: u64,
}

/// Kinds of [`Step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StepKind {
    /// Was mapped and is no longer.
    Unmapped,
    /// Was not mapped, or was something else, and is now.
    Mapped,
    /// An area was cut at `start` (`end` equals `start`).
    Split,
    /// Two areas became one at `start` (`end` equals `start`).
    Merged,
    /// Attributes changed.
    Changed,
    /// Moved away from here (the target is `Mapped`).
    Moved,
}

/// An area as a trace keeps it: a line of `/proc/PID/maps`, and why it is not one with the area
/// before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AreaRecord {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub end: u64,
    /// Bit 0 readable, 1 writable, 2 executable, 3 shared (the `s` of the maps line).
    pub perms: u8,
    /// Offset into the backing, in bytes, as the maps line shows it (0 for anonymous memory).
    pub offset: u64,
    /// Device, major and minor number.
    pub dev: (u32, u32),
    /// Inode.
    pub inode: u64,
    /// The name as the maps line shows it (`/usr/lib/x.so`, `[heap]`, or nothing).
    pub name: String,
    /// Why this area is not one with the area that ends where it starts: names of
    /// `samara_mm::Reason`s joined by `+`; empty where no area touches it, or where nothing
    /// keeps the two apart.
    pub apart: String,
}
