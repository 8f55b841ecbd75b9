//! The type of a row of the table: everything that a row can say of a call. Knows no call.
//!
//! Neighbours: `table` has the rows; `Call`'s methods read them.

use samara_mm::linux;

use super::Call;
use super::names::Kind::{self, *};
use super::names::{ANY, Value};

/// A condition on one 32-bit word of a call's arguments. The filter tests it without a stop.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// Every such call.
    Always,
    /// Only if the low word of argument `.0` is one of `.1`.
    Is(u8, &'static [Value]),
}

/// A property that a call has always, never, or with some arguments.
#[derive(Clone, Copy, Debug)]
pub enum If {
    Never,
    Always,
    Args(fn(&[u64; 6]) -> bool),
}

impl If {
    /// Whether it holds with some arguments.
    pub(super) const fn ever(self) -> bool {
        !matches!(self, If::Never)
    }

    pub fn holds(self, args: &[u64; 6]) -> bool {
        match self {
            If::Never => false,
            If::Always => true,
            If::Args(holds) => holds(args),
        }
    }
}

/// What a call does to areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It changes areas.
    Areas,
    /// It changes areas, and its arguments do not show how far it reaches: the kernel is asked for
    /// everything.
    Wide,
    /// It makes a process or a thread.
    Task,
    /// It makes a process, and waits for it.
    TaskAndWait,
    /// It loads a program.
    Exec,
    /// It changes no area.
    None,
}

/// Which ranges a call may change, as far as its arguments and its result tell.
#[derive(Clone, Copy, Debug)]
pub enum Reach {
    /// None, or only the kernel knows which.
    Untold,
    /// All areas.
    Everything,
    /// The range that starts at argument `.0` and is as long as argument `.1` says.
    Range(usize, usize),
    /// The area at the address in argument `.0`. Only the kernel knows its length.
    Area(usize),
    /// The new mapping, at the result.
    Maps(Place),
    /// The moved memory, from the range of the first two arguments to the result.
    Moves(Place),
    /// From the former break to the result.
    Break,
    /// The ranges in memory: argument `at` points to their starts and lengths, as many as argument
    /// `count` says.
    Ranges { at: usize, count: usize },
    /// The range in memory at argument `.0`: start and length.
    RangeAt(usize),
}

/// How a call's arguments say where it maps memory, or moves memory to.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The argument that is the address.
    pub at: usize,
    /// The argument that is the length. `None`: only the kernel knows the length.
    pub len: Option<usize>,
    /// Whether the address is given. Otherwise the kernel chooses one.
    pub given: If,
    /// Whether the address is given and the call replaces what is there.
    pub replaces: If,
    /// The argument and the bits in it that fix the address and replace nothing, if the call has
    /// such bits. `None`: the address alone fixes it.
    pub give: Option<(usize, u64)>,
}

/// The attributes that a call sets on existing areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sets {
    Protection,
    Lock,
    /// The memory policy.
    Policy,
    /// Other attributes that are a flag or a name, as `madvise` sets them.
    Flags,
    /// Unknown ones.
    Any,
}

/// How the model follows a call that has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFollows {
    /// It applies the call too.
    Makes,
    /// It applies the call too. If the kernel's result differs, pages stopped the call half way,
    /// and the model takes over the kernel's view.
    MakesUnlessPages,
    /// It does nothing: the call changes no area.
    Nothing,
    /// It takes over the kernel's view, if the call was not refused.
    Kernel,
}

/// What a call reads of the program's memory.
#[derive(Clone, Copy, Debug)]
pub enum Reads {
    Nothing,
    /// Address and length, from its arguments. The model may be asked even if they cannot be read.
    Detail(fn(&[u64; 6]) -> (u64, u64)),
    /// Address and length, from its arguments. The model is asked only if the recorder can read
    /// them as the kernel does.
    Request(fn(&[u64; 6]) -> (u64, u64)),
}

/// A call, and everything about it except its rules.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub(super) call: Call,
    /// `None`: no event has this call.
    pub(super) name: Option<&'static str>,
    /// The number on x86-64. On x32 it is the same with one more bit, unless `x32` has another.
    pub nr: u32,
    pub(super) x32: Option<u32>,
    /// The numbers on i386.
    pub(super) compat: &'static [u32],
    /// Its number as an option of `ipc` on i386, if it is one.
    pub(super) ipc: &'static [Value],
    /// Which calls with this number it stands for.
    pub(super) when: When,
    /// What its arguments are, for printing.
    pub(super) args: &'static [Kind],
    /// Whether its result is an address.
    pub(super) address: bool,
    pub(super) effect: Effect,
    pub reach: Reach,
    pub sets: Sets,
    pub follow: ModelFollows,
    /// The engine in charge decides it. If it does so with some arguments, users can make the call
    /// fail.
    pub decided: If,
    /// The engine in charge decides it also if the call is about another process's memory.
    pub decided_for_others: If,
    /// Only a kernel with memory nodes has it.
    pub needs_nodes: bool,
    /// A security module may refuse it if the protection in argument 2 makes memory executable.
    pub makes_executable: bool,
    /// It refuses a range that starts within a page.
    pub from_page_start: bool,
    /// The argument that is advice.
    pub advice: Option<usize>,
    /// It fails at the rate of `--fail-rate` if no call is named.
    pub fails_by_rate: bool,
    /// It may wait for another thread of the program: see [`Call::may_block`].
    pub(super) blocks: If,
    /// It brings pages in or moves them: see [`Call::needs_pages`].
    pub(super) pages: If,
    /// A refused call may leave changes: cut areas, an emptied place, or the first of many areas
    /// moved. False: it leaves nothing, or the same as a refusal by the model.
    pub stops_half_way: bool,
    pub reads: Reads,
}

impl Row {
    /// A row for a call that is not in the model's table.
    pub(super) const fn new(
        call: Call,
        nr: u32,
        name: Option<&'static str>,
        compat: &'static [u32],
        args: &'static [Kind],
    ) -> Row {
        Row {
            call,
            name,
            nr,
            x32: None,
            compat,
            ipc: &[],
            when: When::Always,
            args,
            address: false,
            effect: Effect::Areas,
            reach: Reach::Range(0, 1),
            sets: Sets::Any,
            follow: ModelFollows::Kernel,
            decided: If::Never,
            decided_for_others: If::Never,
            needs_nodes: false,
            makes_executable: false,
            from_page_start: false,
            advice: None,
            fails_by_rate: false,
            blocks: If::Never,
            pages: If::Never,
            stops_half_way: false,
            reads: Reads::Nothing,
        }
    }

    /// Whether Linux locks areas for it: the engine decides the call, or it copies a space.
    pub fn takes_lock(&self) -> bool {
        self.decided.ever() || matches!(self.effect, Effect::Task | Effect::TaskAndWait)
    }

    /// A row for a call of the model's table, with the name from there.
    pub(super) const fn modelled(call: Call, nr: u64, compat: &'static [u32], args: &'static [Kind]) -> Row {
        let mut i = 0;
        while linux::CALLS[i].0 != nr {
            i += 1;
        }
        Row { follow: ModelFollows::Makes, ..Row::new(call, nr as u32, Some(linux::CALLS[i].1), compat, args) }
    }

    /// A row for a call that the engine decides.
    pub(super) const fn decided(call: Call, nr: u64, compat: &'static [u32], args: &'static [Kind]) -> Row {
        Row { decided: If::Always, ..Row::modelled(call, nr, compat, args) }
    }

    /// A row for an option of `prctl` that concerns areas.
    pub(super) const fn prctl(call: Call, option: &'static [Value]) -> Row {
        Row {
            when: When::Is(0, option),
            effect: Effect::Wide,
            reach: Reach::Untold,
            sets: Sets::Flags,
            follow: ModelFollows::Kernel,
            ..Row::modelled(call, linux::PRCTL, &[172], &[Command, Hex, Hex, Hex, Hex])
        }
    }

    /// A row for an `ioctl` on a userfaultfd. It points to a range, and perhaps a mode.
    pub(super) const fn uffd(call: Call, request: &'static [Value]) -> Row {
        Row {
            x32: Some(514),
            when: When::Is(1, request),
            effect: Effect::Wide,
            reach: Reach::RangeAt(2),
            sets: Sets::Flags,
            reads: Reads::Detail(|a| (a[2], 24)),
            ..Row::new(call, 16, Some("ioctl"), &[54], &[Int, Request, Addr])
        }
    }

    /// A row for a call that no event has.
    pub(super) const fn unseen(call: Call, nr: u32, compat: &'static [u32]) -> Row {
        Row { effect: Effect::None, ..Row::new(call, nr, None, compat, ANY) }
    }
}
