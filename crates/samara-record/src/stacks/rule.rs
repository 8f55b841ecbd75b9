//! The unwind rule for an address, from the tables of its module: whether the unwinder may follow
//! them there.
//!
//! This check is needed because the unwinder silently falls back to the frame pointer if it does
//! not understand the tables, and evaluates expressions without a limit.

use gimli::{
    BaseAddresses, CfaRule, DebugFrame, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry, LittleEndian,
    Operation, RegisterRule, UnwindContext, UnwindExpression, UnwindSection, X86_64,
};

use super::module::Sections;

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// How to go on from an address to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// By the tables.
    Told,
    /// A signal interrupted the function before it: its registers are on the stack.
    Signal,
    /// The tables have nothing: by the frame pointer, which may not be one.
    Guess,
    /// The tables have a rule that is not evaluated.
    Refused,
}

/// The rule of an address of a module.
pub(super) fn rule(sections: &Sections, at: u64) -> Rule {
    found(sections, at).unwrap_or(Rule::Guess)
}

fn found(sections: &Sections, at: u64) -> Option<Rule> {
    let start = |section: &super::module::Section| section.as_ref().map(|(addresses, _)| addresses.start);
    let mut bases = BaseAddresses::default();
    if let Some(text) = &sections.text {
        bases = bases.set_text(text.start);
    }
    if let Some(got) = &sections.got {
        bases = bases.set_got(got.start);
    }
    if let Some((addresses, content)) = &sections.eh_frame {
        bases = bases.set_eh_frame(addresses.start);
        let frames = EhFrame::new(content, LittleEndian);
        let by_table = || {
            let (_, content) = sections.eh_frame_hdr.as_ref()?;
            let bases = bases.clone().set_eh_frame_hdr(start(&sections.eh_frame_hdr)?);
            let header = EhFrameHdr::new(content, LittleEndian).parse(&bases, 8).ok()?;
            header.table()?.fde_for_address(&frames, &bases, at, EhFrame::cie_from_offset).ok()
        };
        let entry = by_table().or_else(|| frames.fde_for_address(&bases, at, EhFrame::cie_from_offset).ok())?;
        return of_entry(&frames, &bases, &entry, at);
    }
    let (_, content) = sections.debug_frame.as_ref()?;
    let mut frames = DebugFrame::new(content, LittleEndian);
    frames.set_address_size(8);
    let entry = frames.fde_for_address(&bases, at, DebugFrame::cie_from_offset).ok()?;
    of_entry(&frames, &bases, &entry, at)
}

fn of_entry<'a, S: UnwindSection<Bytes<'a>>>(
    section: &S,
    bases: &BaseAddresses,
    entry: &FrameDescriptionEntry<Bytes<'a>>,
    at: u64,
) -> Option<Rule>
where
    S::Offset: gimli::UnwindOffset<usize>,
{
    if entry.is_signal_trampoline() {
        return Some(Rule::Signal);
    }
    let mut context = UnwindContext::new();
    let row = entry.unwind_info_for_address(section, bases, &mut context, at).ok()?;
    let expression = |expression: &UnwindExpression<usize>| {
        let expression = expression.get(section).ok()?;
        let mut operations = expression.operations(entry.cie().encoding());
        while let Some(operation) = operations.next().ok()? {
            match operation {
                Operation::Skip { .. } | Operation::Bra { .. } | Operation::Call { .. } => return Some(Rule::Refused),
                Operation::Deref { .. } => return None,
                _ => {}
            }
        }
        Some(Rule::Told)
    };
    let mut all = vec![match row.cfa() {
        CfaRule::RegisterAndOffset { .. } => Some(Rule::Told),
        CfaRule::Expression(at) => expression(at),
    }];
    for (register, rule) in row.registers() {
        // The rules of other registers do not matter here, but the unwinder evaluates them too.
        match rule {
            RegisterRule::Expression(at) | RegisterRule::ValExpression(at) => {
                let rule = expression(at);
                let matters = [X86_64::RA, X86_64::RBP, X86_64::RSP].contains(register);
                if matters || rule == Some(Rule::Refused) {
                    all.push(rule);
                }
            }
            _ => {}
        }
    }
    let refused = all.contains(&Some(Rule::Refused)).then_some(Rule::Refused);
    refused.or_else(|| all.into_iter().collect::<Option<Vec<_>>>().map(|_| Rule::Told))
}
