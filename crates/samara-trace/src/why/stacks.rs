//! Finds the real stacks among areas that look like stacks, and those of threads among these. Uses
//! the calls that mapped the areas, and the stacks that threads began with.

use std::collections::HashMap;

use super::births::Births;
use crate::event::AreaRecord;
use crate::survey::{Member, PatternKind};

/// Turns false stacks into guards. A stack is the upper end of a mapping that holds no other stack,
/// and its guard is the lower end of that mapping, or a separate mapping. Blocks that were cut from
/// one mapping are no stacks, nor are buffers between two guards. The stack that a thread began
/// with is one, whatever its size.
pub(super) fn settled(members: Vec<Member>, areas: &[AreaRecord], births: &Births) -> Vec<Member> {
    let mapping = |at: u64| births.piece(at).map(|piece| piece.made.event);
    let end = |start: u64| {
        let at = areas.partition_point(|area| area.start < start);
        areas.get(at).map_or(start, |area| area.end)
    };
    // The guard's first address, and the first one and the end of the stack above it.
    let is_stack = |member: &&Member| member.kind == PatternKind::ThreadStacks;
    let all: Vec<&Member> = members.iter().filter(is_stack).collect();
    let pairs = || all.chunks_exact(2).map(|pair| (pair[0].start, pair[1].start, end(pair[1].start)));
    let mut stacks: HashMap<u64, u64> = HashMap::new();
    pairs().filter_map(|(_, stack, _)| mapping(stack)).for_each(|event| *stacks.entry(event).or_default() += 1);
    let is_own = |(guard, stack, end): (u64, u64, u64)| {
        // A thread's stack is one wherever it lies.
        is_of_thread(births, stack, end) == Some(true)
            || mapping(stack).is_none_or(|event| {
                let near = [guard.checked_sub(1), Some(end)].into_iter().flatten();
                stacks.get(&event) == Some(&1) && near.filter_map(mapping).all(|other| other != event)
            })
    };
    let mut of_guards: HashMap<u64, bool> = HashMap::new();
    for pair in pairs().filter(|pair| !is_own(*pair)) {
        of_guards.extend([(pair.0, true), (pair.1, false)]);
    }
    let settle = |member: Member| match of_guards.get(&member.start) {
        Some(is_guard) if member.kind == PatternKind::ThreadStacks => {
            is_guard.then_some(Member { kind: PatternKind::GuardPages, ..member })
        }
        _ => Some(member),
    };
    // A small stack, or one with a large guard, looks like a guard beside memory.
    let stack_of = |member: &Member| {
        let i = areas.partition_point(|area| area.start < member.start);
        let (guard, stack) = (areas.get(i)?, areas.get(i + 1)?);
        let is_stack = guard.end == stack.start && is_of_thread(births, stack.start, stack.end) == Some(true);
        (is_stack && matches!(member.kind, PatternKind::GuardPages | PatternKind::Reservations)).then_some(stack.start)
    };
    let with_stack = |member: Member| match stack_of(&member) {
        None => [Some(member), None],
        Some(stack) => {
            let kind = PatternKind::ThreadStacks;
            [Some(Member { kind, ..member }), Some(Member { kind, start: stack, would_go: 0 })]
        }
    };
    members.into_iter().filter_map(settle).flat_map(with_stack).flatten().collect()
}

/// Whether a thread began with a stack that ends in this range. `None`: not known.
pub(super) fn is_of_thread(births: &Births, start: u64, end: u64) -> Option<bool> {
    let ends = births.stacks.as_ref()?;
    Some(start < end && ends.range(start + 1..=end).next().is_some())
}
