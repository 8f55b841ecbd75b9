//! Finds the rule for an address in its module's unwind tables, and steps to the caller by it.
//!
//! Knows three registers: the instruction pointer, the stack pointer and the frame pointer. A row
//! that needs another register is not used.

use gimli::{
    CfaRule, EvaluationResult, FrameDescriptionEntry, Location, Register, RegisterRule, UnwindExpression, UnwindOffset,
    UnwindSection, UnwindTableRow, Value, X86_64,
};

use super::module::Sections;
use super::tables::{self, Bytes, WithRow};

/// Most evaluated operations of an expression, because a program chooses expressions.
const OPERATIONS: u32 = 1000;

/// Reads a word of memory.
pub(super) type Read<'r> = dyn FnMut(u64) -> Option<u64> + 'r;

/// The registers of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Registers {
    pub(super) ip: u64,
    pub(super) sp: u64,
    pub(super) bp: u64,
}

impl Registers {
    fn get(&self, register: Register) -> Option<u64> {
        match register {
            X86_64::RA => Some(self.ip),
            X86_64::RSP => Some(self.sp),
            X86_64::RBP => Some(self.bp),
            _ => None,
        }
    }
}

/// How to find the caller of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// By a row of the tables.
    Row(Row),
    /// By expressions in the tables, which are evaluated each time.
    Expressions,
    /// There is no caller: the tables say that it is the first function.
    First,
    /// A signal interrupted the function before it, whose registers are on the stack.
    Signal,
    /// The tables have no usable row. The frame pointer is used, although the register may hold
    /// something else.
    Guess,
}

/// Places of the caller's registers. Offsets are from the caller's stack pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// That stack pointer is the frame pointer, or else the stack pointer, plus `above`.
    by_frame_pointer: bool,
    above: i64,
    /// Where the frame pointer was saved. `None`: it is still in its register.
    frame_pointer: Option<i64>,
    return_address: i64,
}

impl Row {
    /// The registers of the caller.
    pub(super) fn caller(self, regs: Registers, read: &mut Read<'_>) -> Option<Registers> {
        let base = if self.by_frame_pointer { regs.bp } else { regs.sp };
        let sp = base.wrapping_add_signed(self.above);
        let ip = read(sp.wrapping_add_signed(self.return_address))?;
        let bp = match self.frame_pointer.map(|offset| sp.wrapping_add_signed(offset)) {
            // Below the stack pointer: near its end, a function has restored the register.
            Some(at) => read(at).or_else(|| (at < regs.sp).then_some(regs.bp))?,
            None => regs.bp,
        };
        Some(Registers { ip, sp, bp })
    }
}

/// The rule of an address of a module.
pub(super) fn rule(sections: &Sections, at: u64) -> Rule {
    tables::row(sections, at, Classify).unwrap_or(Rule::Guess)
}

struct Classify;

impl WithRow for Classify {
    type Out = Rule;

    fn with<'a, S: UnwindSection<Bytes<'a>>>(
        self,
        _: &S,
        entry: &FrameDescriptionEntry<Bytes<'a>>,
        row: &UnwindTableRow<usize>,
    ) -> Option<Rule>
    where
        S::Offset: UnwindOffset<usize>,
    {
        use RegisterRule::{Expression, Offset, SameValue, Undefined, ValExpression};
        if entry.is_signal_trampoline() {
            return Some(Rule::Signal);
        }
        let [ra, bp, sp] = [X86_64::RA, X86_64::RBP, X86_64::RSP].map(|register| row.register(register));
        let is_expression = |rule: &Option<RegisterRule<usize>>| matches!(rule, Some(Expression(_) | ValExpression(_)));
        if matches!(ra, None | Some(Undefined)) {
            return Some(Rule::First);
        }
        let (base, above) = match row.cfa() {
            CfaRule::Expression(_) => return Some(Rule::Expressions),
            _ if [&ra, &bp].into_iter().any(is_expression) || !matches!(sp, None | Some(SameValue | Undefined)) => {
                return Some(Rule::Expressions);
            }
            CfaRule::RegisterAndOffset { register, offset } => (*register, *offset),
        };
        let Some(Offset(return_address)) = ra else { return None };
        let frame_pointer = if let Some(Offset(offset)) = bp { Some(offset) } else { None };
        let is_known = base == X86_64::RSP || base == X86_64::RBP;
        let by_frame_pointer = base == X86_64::RBP;
        is_known.then_some(Rule::Row(Row { by_frame_pointer, above, frame_pointer, return_address }))
    }
}

/// The registers of the caller of a frame whose rule has expressions. `None`: they depend on
/// unknown values.
pub(super) fn evaluated(sections: &Sections, at: u64, regs: Registers, read: &mut Read<'_>) -> Option<Registers> {
    tables::row(sections, at, Evaluate { regs, read })
}

struct Evaluate<'r, 'm> {
    regs: Registers,
    read: &'r mut Read<'m>,
}

impl WithRow for Evaluate<'_, '_> {
    type Out = Registers;

    fn with<'a, S: UnwindSection<Bytes<'a>>>(
        self,
        section: &S,
        entry: &FrameDescriptionEntry<Bytes<'a>>,
        row: &UnwindTableRow<usize>,
    ) -> Option<Registers>
    where
        S::Offset: UnwindOffset<usize>,
    {
        let Evaluate { regs, read } = self;
        let encoding = entry.cie().encoding();
        let value = |expression: &UnwindExpression<usize>, first: Option<u64>, read: &mut Read<'_>| {
            let expression = expression.get(section).ok()?;
            let mut evaluation = expression.evaluation(encoding);
            evaluation.set_max_iterations(OPERATIONS);
            if let Some(first) = first {
                evaluation.set_initial_value(first);
            }
            let mut result = evaluation.evaluate().ok()?;
            loop {
                result = match result {
                    EvaluationResult::Complete => break,
                    EvaluationResult::RequiresRegister { register, .. } => {
                        evaluation.resume_with_register(Value::Generic(regs.get(register)?)).ok()?
                    }
                    EvaluationResult::RequiresMemory { address, size: 8, space: None, .. } => {
                        evaluation.resume_with_memory(Value::Generic(read(address)?)).ok()?
                    }
                    _ => return None,
                };
            }
            match evaluation.as_result() {
                [piece] => match piece.location {
                    Location::Address { address } => Some(address),
                    _ => None,
                },
                _ => None,
            }
        };
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => regs.get(*register)?.wrapping_add_signed(*offset),
            CfaRule::Expression(expression) => value(expression, None, read)?,
        };
        let mut restored = |register: Register, same: u64| match row.register(register) {
            None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => Some(same),
            Some(RegisterRule::Offset(offset)) => read(cfa.wrapping_add_signed(offset)),
            Some(RegisterRule::ValOffset(offset)) => Some(cfa.wrapping_add_signed(offset)),
            Some(RegisterRule::Expression(expression)) => {
                let at = value(&expression, Some(cfa), read)?;
                read(at)
            }
            Some(RegisterRule::ValExpression(expression)) => value(&expression, Some(cfa), read),
            _ => None,
        };
        Some(Registers {
            ip: restored(X86_64::RA, 0)?,
            sp: restored(X86_64::RSP, cfa)?,
            bp: restored(X86_64::RBP, regs.bp)?,
        })
    }
}

/// The registers of the caller by the frame pointer. `is_inner`: the thread is in this function, or
/// a signal interrupted it, so it may not have set the frame pointer yet. Then a return address (by
/// `is_code`) on top of the stack leads to the caller.
pub(super) fn guessed(
    regs: Registers,
    is_inner: bool,
    is_code: impl Fn(u64) -> bool,
    read: &mut Read<'_>,
) -> Option<Registers> {
    if is_inner && let Some(ip) = read(regs.sp).filter(|ip| is_code(*ip)) {
        return Some(Registers { ip, sp: regs.sp.wrapping_add(8), bp: regs.bp });
    }
    let sp = regs.bp.checked_add(16).filter(|sp| *sp > regs.sp)?;
    let (bp, ip) = (read(regs.bp)?, read(regs.bp.wrapping_add(8))?);
    (ip != 0).then_some(Registers { ip, sp, bp })
}
