//! `mbind`: its mode, its modifiers and its node mask.
//!
//! It does not know which pages move: the model has no pages.

use super::host::Host;
use super::system_call::{Did, SystemCall};
use crate::area::{Backing, Policy};
use crate::errno::Errno;
use crate::space::index::AreaIndex;
use crate::space::limits::Caps;
use crate::space::place::Placement;

/// `set_mempolicy(2)`: modes.
const MODES: u32 = 7;
const DEFAULT: u32 = 0;
const PREFERRED: u32 = 1;
const LOCAL: u32 = 4;
/// `set_mempolicy(2)`: modifiers of modes.
const NUMA_BALANCING: u32 = 1 << 13;
const RELATIVE: u32 = 1 << 14;
const STATIC: u32 = 1 << 15;
/// `mbind(2)`: MPOL_MF_STRICT, MPOL_MF_MOVE and MPOL_MF_MOVE_ALL.
const FLAGS: u32 = 7;
const MOVE_ALL: u32 = 4;

impl<B: Backing, I: AreaIndex<B>, H: Host<B>, P: Placement<B, I>> SystemCall<'_, B, I, H, P> {
    pub(super) fn mbind(&mut self) -> Did {
        let [start, len, mode, mask, bits, flags] = *self.args;
        let modifiers = mode as u32 & Policy::MODIFIERS;
        let kind = mode as u32 & !Policy::MODIFIERS;
        let both = modifiers & (RELATIVE | STATIC) == RELATIVE | STATIC;
        let numa = modifiers & NUMA_BALANCING != 0 && !matches!(kind, Policy::BIND | Policy::PREFERRED_MANY);
        if kind >= MODES || both || numa {
            return Err(Errno::EINVAL.into());
        }
        let mut nodes = self.node_mask(mask, bits)?;
        if flags as u32 & !FLAGS != 0 {
            return Err(Errno::EINVAL.into());
        }
        if flags as u32 & MOVE_ALL != 0 && !self.space.caps().contains(Caps::SYS_NICE) {
            return Err(Errno::EPERM.into());
        }
        let none = nodes == [0; Policy::WORDS];
        // A length that rounds up to 0 counts as 0.
        if self.space.aligned(start) && self.space.page_up(len) == 0 {
            return Ok(0);
        }
        self.space.end_of(start, len)?;
        if kind == DEFAULT {
            if !none {
                return Err(Errno::EINVAL.into());
            }
            let done = self.space.set_policy(start, len, None);
            return self.done(done);
        }
        let takes_none = match kind {
            PREFERRED | LOCAL => modifiers & (RELATIVE | STATIC) == 0,
            _ => false,
        };
        if (none && !takes_none) || (kind == LOCAL && !none) {
            return Err(Errno::EINVAL.into());
        }
        // A relative mask is folded onto the nodes that exist. An absolute mask keeps only those; a
        // static one is remembered as it was.
        if modifiers & RELATIVE == 0 {
            let mut there = nodes;
            let exist = self.host.nodes();
            there.iter_mut().enumerate().for_each(|(i, word)| *word &= exist.get(i).copied().unwrap_or(0));
            if !none && there == [0; Policy::WORDS] {
                return Err(Errno::EINVAL.into());
            }
            nodes = if modifiers & STATIC == 0 { there } else { nodes };
        }
        // To prefer no node is to prefer the local one.
        let mode = if kind == PREFERRED && none { LOCAL } else { kind | modifiers };
        let done = self.space.set_policy(start, len, Some(Policy { mode, nodes, home: None }));
        self.done(done)
    }

    /// A node mask of `bits - 1` bits.
    fn node_mask(&mut self, mask: u64, bits: u64) -> Result<[u64; Policy::WORDS], Errno> {
        // As much as a page holds, as in Linux.
        const MOST: u64 = 4096 * 8;
        let (mut words, bits) = ([0; Policy::WORDS], bits.wrapping_sub(1));
        if bits == 0 || mask == 0 {
            return Ok(words);
        }
        if bits > MOST {
            return Err(Errno::EINVAL);
        }
        for i in 0..bits.div_ceil(64) {
            let mut word = [0; 8];
            self.host.read(mask.wrapping_add(i * 8), &mut word)?;
            let kept = (bits - i * 64).min(64);
            let word = u64::from_le_bytes(word) & (u64::MAX >> (64 - kept));
            match words.get_mut(i as usize) {
                Some(to) => *to = word,
                None if word != 0 => return Err(Errno::EINVAL),
                None => {}
            }
        }
        Ok(words)
    }
}
