//! Memory policies as `numa_maps` shows them.

use std::collections::HashMap;

use samara_mm::Policy;

use crate::os::proc;
use crate::os::sys::Tid;

/// The memory policies of a task's areas by their starts.
pub(crate) fn policies(tid: Tid) -> Option<HashMap<u64, Option<Policy>>> {
    let bytes = proc::contents(&format!("/proc/{tid}/numa_maps")).ok()?;
    Some(policies_in(&String::from_utf8_lossy(&bytes)))
}

fn policies_in(text: &str) -> HashMap<u64, Option<Policy>> {
    let line = |line: &str| {
        let (start, rest) = line.split_once(' ')?;
        // A mode may contain a blank. The policy ends at the first blank after the mode's name.
        let end = ["prefer (many)", "weighted interleave"]
            .iter()
            .find(|name| rest.starts_with(**name))
            .map_or(0, |n| n.len());
        let end = rest[end..].find(' ').map_or(rest.len(), |i| end + i);
        Some((u64::from_str_radix(start, 16).ok()?, rest[..end].to_owned(), rest.contains(" stack")))
    };
    let lines: Vec<(u64, String, bool)> = text.lines().filter_map(line).collect();
    // An area without a policy shows the thread's own, as the stack does.
    let none = lines.iter().find(|(_, _, stack)| *stack).map_or("default", |(_, text, _)| text).to_owned();
    lines.into_iter().map(|(start, text, _)| (start, if text == none { None } else { policy(&text) })).collect()
}

/// A policy as `numa_maps` writes it: `bind:0-1`, `interleave=static:0,2`, `local`.
fn policy(text: &str) -> Option<Policy> {
    let (mode, list) = text.split_once(':').unwrap_or((text, ""));
    let (name, modifiers) = mode.split_once('=').unwrap_or((mode, ""));
    let names = ["default", "prefer", "bind", "interleave", "local", "prefer (many)", "weighted interleave"];
    let mut mode = names.iter().position(|n| *n == name).filter(|n| *n > 0)? as u32;
    for modifier in modifiers.split('|') {
        mode |= match modifier {
            "static" => 1 << 15,
            "relative" => 1 << 14,
            "balancing" => 1 << 13,
            _ => 0,
        };
    }
    let mut nodes = [0; Policy::WORDS];
    for part in list.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        for node in first..=last.min(64 * Policy::WORDS - 1) {
            *nodes.get_mut(node / 64)? |= 1 << (node % 64);
        }
    }
    Some(Policy { mode, nodes, home: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read() {
        let text = "1000 default anon=1\n2000 prefer (many):0 anon=2\n3000 bind=static:0-1,65 heap\n4000 weighted interleave:2\n\
                    5000 local\n7000 default stack anon=3\n";
        let all = policies_in(text);
        let of = |mode, words: [u64; 2]| {
            let mut nodes = [0; Policy::WORDS];
            nodes[..2].copy_from_slice(&words);
            Some(Policy { mode, nodes, home: None })
        };
        let want = [None, of(5, [1, 0]), of(2 | 1 << 15, [3, 2]), of(6, [4, 0]), of(4, [0, 0]), None];
        let starts = [0x1000, 0x2000, 0x3000, 0x4000, 0x5000, 0x7000];
        assert_eq!(starts.map(|start| all[&start]), want);
        // A thread with a policy of its own.
        let all = policies_in("1000 interleave:0\n2000 bind:0\n7000 interleave:0 stack\n");
        assert_eq!((all[&0x1000], all[&0x2000]), (None, of(2, [1, 0])));
    }
}
