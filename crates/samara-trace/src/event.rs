//! Events: the content of a trace, as plain data. Knows nothing of ptrace, of models or of files.
//!
//! An event says what happened (a call, a new program, a child, an end, an area that changed
//! without a call, a difference) and carries its whole effect: the areas in `window` after it. A
//! reader that applies the effects in order has the address space at any moment, without knowing
//! Linux's rules.

pub use samara_mm::{Step, StepKind};

/// The [`Event::text`] of a call or a fork whose effect cannot be known.
///
/// Either other calls were in the kernel at the same time in an unknown order, and the model took
/// over the kernel's areas. Or a recorder that does not stop tasks did not see the whole effect:
/// events were lost before it, or memory may have been written before two areas touched, which
/// decides whether they merge.
pub const UNSURE: &str = "unsure";

/// The text of an [`EventKind::Learnt`] before which events were lost, or that read a space while
/// it changed. Some of its areas are unknown until an [`EventKind::Checked`] after which the space
/// continues ([`Event::goes_on`]).
pub const LOST: &str = "events are missing from here on";

/// Kinds of [`Event`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// A system call that can change an address space returned.
    Call,
    /// A program was loaded (the first one too). `areas` is the whole space, `text` the program's
    /// path. `areas` is empty if the recorder may not read the space or does not follow the program
    /// (`samara_record::Follow`).
    Exec,
    /// The recording began while the process ran already: the recorder attached to it, or a signal
    /// started the recording (`samara_record::Signal`). `areas` is the whole space at that time,
    /// `text` the program's path.
    Found,
    /// A process was created with a copy of its parent's space. `areas` is the whole space,
    /// `args[0]` the parent's space.
    Fork,
    /// A process was created that shares its parent's space (`vfork`, `CLONE_VM` without
    /// `CLONE_THREAD`). `args[2]` is the end of the stack that it begins with; 0: its parent's, or
    /// not known.
    Share,
    /// A thread was created in a process (`CLONE_THREAD`): `tid`. `args[0]` is the thread that
    /// created it, `args[1]` the end of the stack that it begins with; 0: not known.
    Thread,
    /// A process ended. `result` is its wait status as `waitpid` gives it. If a fault ended it
    /// (SIGSEGV or SIGBUS from the kernel), or a signal that it sent itself in the fault's handler,
    /// `args[0]` and `args[1]` are `si_addr` and `si_code`: see [`Event::fault`]. `args[2]` is the
    /// fault's signal and `args[3]` the stack pointer; both are 0 in older traces. The space ends
    /// with its last user.
    Exit,
    /// Areas changed without a call, for a known cause: a stack grew on a fault, for example.
    /// `text` says the cause. `args[2]` is the number of records dropped by the kernel so far.
    Learnt,
    /// Model and kernel differ and nothing explains it. `text` says how; `areas` is what the kernel
    /// has.
    Difference,
    /// The model was compared with the whole of `/proc/PID/maps`: at a process's end, or when the
    /// recorder let go of it or was stopped by a signal. `result` 0 means that they are equal to
    /// the byte. `args[1]` is 1 if the space continues after it, as under a recorder that stops
    /// nothing ([`Event::goes_on`]). `args[2]` is as for `Learnt`.
    Checked,
    /// A file with code, or code without a file, that stacks refer to by the number `args[0]`.
    /// Numbers count from 0. `text` is the build id in hexadecimal, or `-`, a space, and the name
    /// as the maps line shows it; `[anon]` for code without a file, which each process (`pid`) has
    /// of its own.
    Module,
    /// A call stack that later events refer to by the number `args[0]`. Numbers count from 0.
    /// `text` lists its frames, the innermost first, as [`crate::file::Stacks`] reads them.
    /// `args[1]` says how it ends: 0 with the thread's first function, 1 with more frames than are
    /// kept, 2 where it could not be followed further.
    Stack,
    /// The functions at the address `args[1]` of the module `args[0]`. `text` has a line for each,
    /// the innermost first: its name, a tab, and the place in the source, if it is known
    /// (`dir/file.c:12`). `args[2]` is when they began to be there, as [`Event::entry_ns`] counts:
    /// a JIT compiler may replace code.
    Symbol,
}

impl EventKind {
    /// Whether an event of this kind only defines something that others refer to.
    pub fn defines(self) -> bool {
        matches!(self, EventKind::Module | EventKind::Stack | EventKind::Symbol)
    }
}

/// One event of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Position in the order in which the recorder applied the events, from 0.
    pub seq: u64,
    /// What happened.
    pub kind: EventKind,
    /// When the call was entered, in nanoseconds since the recording began (CLOCK_MONOTONIC).
    pub entry_ns: u64,
    /// When the call had returned. Equal to `entry_ns` if no call was entered.
    pub exit_ns: u64,
    /// The address space: a number that is not reused within a trace.
    pub space: u64,
    /// The process (thread group).
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Number of the system call on the traced architecture, if there was one.
    pub nr: Option<u32>,
    /// Raw arguments of the call.
    pub args: [u64; 6],
    /// Raw result of the call: a value, or a negative errno.
    pub result: i64,
    /// Whether another call of the same space was in flight at the same time.
    pub overlapped: bool,
    /// What the call did to areas, in order.
    ///
    /// A trace says which ranges changed, not how: the [`FlagChange`](samara_mm::FlagChange) of
    /// every [`StepKind::Changed`] is the default one. Steps that only concern the content of pages
    /// ([`StepKind::Discarded`]) are not recorded.
    pub plan: Vec<Step>,
    /// The part of the space, `[start, end)`, that `areas` describes; `None` if nothing changed.
    pub window: Option<(u64, u64)>,
    /// The areas that meet `window` after the event, ascending and without overlaps. They are
    /// whole, so they may reach out of the window.
    pub areas: Vec<AreaRecord>,
    /// A path, or the subject of a difference. For a call that the engine refused on its own: the
    /// cause (`samara_record::Cause::word`). For a call that the kernel refused by a known rule:
    /// that rule ([`Refused`](crate::Refused)). For a call of unknown effect: [`UNSURE`]. Otherwise
    /// empty.
    pub text: String,
    /// The stack from which a call, a fork or a thread was made: the number of an
    /// [`EventKind::Stack`] before this event. `None` if stacks are not recorded, or this one could
    /// not be read.
    pub stack: Option<u32>,
    /// The address of the instruction that made the call, fork or thread, or whose fault ended the
    /// process.
    pub ip: Option<u64>,
    /// For a call: resident memory, if it is recorded.
    pub resident: Option<Resident>,
}

impl Event {
    /// An event without content: numbers are 0, lists and text are empty, options are `None`.
    ///
    /// ```
    /// use samara_trace::event::{Event, EventKind};
    /// let exit = Event { pid: 7, tid: 7, result: 3 << 8, ..Event::new(12, EventKind::Exit) };
    /// assert_eq!((exit.seq, exit.areas.len(), exit.ip), (12, 0, None));
    /// ```
    pub fn new(seq: u64, kind: EventKind) -> Event {
        Event {
            seq,
            kind,
            entry_ns: 0,
            exit_ns: 0,
            space: 0,
            pid: 0,
            tid: 0,
            nr: None,
            args: [0; 6],
            result: 0,
            overlapped: false,
            plan: Vec::new(),
            window: None,
            areas: Vec::new(),
            text: String::new(),
            stack: None,
            ip: None,
            resident: None,
        }
    }

    /// The fault address of a process that SIGSEGV or SIGBUS killed, or that ended itself by a
    /// signal in the handler of one. `None`: something else ended it, the trace's version has no
    /// address, or the kernel does not report it (an address that no process can have).
    ///
    /// ```
    /// use samara_trace::event::{Event, EventKind};
    /// let args = [0x1000, 1, 0, 0, 0, 0];
    /// let killed = Event { result: 11, args, ..Event::new(0, EventKind::Exit) };
    /// assert_eq!(killed.fault(), Some(0x1000));
    /// assert_eq!(Event { args: [0; 6], ..killed }.fault(), None);
    /// ```
    pub fn fault(&self) -> Option<u64> {
        // SI_KERNEL: a general protection fault.
        const UNKNOWN: u64 = 0x80;
        let told = self.kind == EventKind::Exit && self.args[1] > 0 && self.args[1] != UNKNOWN;
        told.then_some(self.args[0])
    }

    /// Whether this is a comparison after which the space continues.
    ///
    /// ```
    /// use samara_trace::event::{Event, EventKind};
    /// let last = Event::new(9, EventKind::Checked);
    /// assert!(!last.goes_on());
    /// assert!(Event { args: [0, 1, 0, 0, 0, 0], ..last }.goes_on());
    /// ```
    pub fn goes_on(&self) -> bool {
        self.kind == EventKind::Checked && self.args[1] == 1
    }

    /// Whether events of its space were lost before it ([`LOST`]).
    ///
    /// ```
    /// use samara_trace::event::{Event, EventKind, LOST};
    /// let event = Event { text: LOST.into(), ..Event::new(9, EventKind::Learnt) };
    /// assert!(event.is_loss() && !Event::new(9, EventKind::Learnt).is_loss());
    /// ```
    pub fn is_loss(&self) -> bool {
        self.kind == EventKind::Learnt && self.text == LOST
    }

    /// The error of a call that failed. `brk` returns no error number: if the break was to go up
    /// and did not, the error is ENOMEM.
    ///
    /// ```
    /// use samara_trace::event::{Event, EventKind};
    /// let mmap = Event { nr: Some(9), result: -12, ..Event::new(0, EventKind::Call) };
    /// assert_eq!(mmap.error(), Some(12));
    /// assert_eq!(Event { nr: Some(12), result: 0x5000, ..mmap }.error(), None);
    /// ```
    pub fn error(&self) -> Option<i32> {
        crate::calls::failed_with(self.nr?, self.args[0], self.result)
    }

    /// Bytes that became resident in the call, and bytes that ceased to be: one of the two is 0.
    pub(crate) fn populated_and_released(&self) -> (u64, u64) {
        let change = self.resident.map_or(0, |now| now.private_change.saturating_add(now.files_change));
        let of = |is: bool| if is { change.unsigned_abs() } else { 0 };
        (of(change > 0), of(change < 0))
    }
}

/// Resident memory of a process after a call, and its change during the call, in bytes, as the
/// kernel counts it. The change includes what other threads touched meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resident {
    /// Private pages: anonymous memory, and pages of private mappings that were written to.
    pub private: u64,
    /// Pages of files and of shared memory.
    pub files: u64,
    /// Change of `private`.
    pub private_change: i64,
    /// Change of `files`.
    pub files_change: i64,
}

impl Resident {
    /// `private` and `files` when the call began.
    pub fn before(&self) -> (u64, u64) {
        let back = |now: u64, change: i64| now.saturating_add_signed(change.saturating_neg());
        (back(self.private, self.private_change), back(self.files, self.files_change))
    }
}

/// An area as a trace keeps it: a line of `/proc/PID/maps`, and why the area was not merged with
/// the one before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AreaRecord {
    /// First address of the area.
    pub start: u64,
    /// End address, exclusive.
    pub end: u64,
    /// Bit 0: readable, 1: writable, 2: executable, 3: shared (`s` in the maps line).
    pub perms: u8,
    /// Offset into the backing, in bytes, as the maps line shows it (0 for anonymous memory).
    pub offset: u64,
    /// Major and minor number of the device.
    pub dev: (u32, u32),
    /// Inode.
    pub inode: u64,
    /// The name as the maps line shows it (`/usr/lib/x.so`, `[heap]`, or nothing).
    pub name: String,
    /// Why this area was not merged with the area that ends where it starts: names of
    /// `samara_mm::Reason`s joined by `+`. The reason `flags` also names the flags
    /// ([`flag_words`](crate::file::flag_words)). Empty if no area ends there, or if nothing keeps
    /// the two apart.
    pub apart: String,
}
