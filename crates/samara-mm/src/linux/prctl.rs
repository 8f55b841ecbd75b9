//! `prctl`: the options that concern memory, one verb per option.
//!
//! It knows no rules of areas. Neighbours: the table lists the options.

use super::host::Host;
use super::system_call::{Did, Refusal, SystemCall};
use crate::area::Backing;
use crate::errno::Errno;
use crate::space::features::Features;
use crate::space::index::AreaIndex;
use crate::space::mdwe::Mdwe;
use crate::space::place::Placement;

impl<B: Backing, I: AreaIndex<B>, H: Host<B>, P: Placement<B, I>> SystemCall<'_, B, I, H, P> {
    pub(super) fn prctl(&mut self) -> Did {
        self.prctl_option(self.args[0] as u32).unwrap_or(Err(Refusal::NotOurs))
    }

    /// PR_SET_VMA, as PR_SET_VMA(2const) says. Kernels built without names answer EINVAL. If the
    /// allocation of the name's `Arc` fails, the program ends.
    pub(super) fn set_vma(&mut self) -> Did {
        const ANON_NAME: u64 = 0;
        // With the zero at its end.
        const MOST: usize = 80;
        let [_, attribute, start, len, name, _] = *self.args;
        if attribute != ANON_NAME {
            return Err(Errno::EINVAL.into());
        }
        if name == 0 {
            let done = self.space.set_anon_name(start, len, None);
            return self.done(done);
        }
        let mut text = [0; MOST];
        for (i, at) in (0..).zip(&mut text) {
            self.host.read(name.wrapping_add(i), core::slice::from_mut(at))?;
            match *at {
                0 => break,
                b'[' | b']' | b'\\' | b'$' | b'`' => return Err(Errno::EINVAL.into()),
                b' '..=b'~' => {}
                _ => return Err(Errno::EINVAL.into()),
            }
        }
        let end = text.iter().position(|byte| *byte == 0).ok_or(Errno::EINVAL)?;
        let text = core::str::from_utf8(&text[..end]).map_err(|_| Errno::EINVAL)?;
        let done = self.space.set_anon_name(start, len, Some(text.into()));
        self.done(done)
    }

    pub(super) fn set_mdwe(&mut self) -> Did {
        self.knows(Features::MDWE)?;
        self.unused(2)?;
        let mdwe = Mdwe::from_bits(self.args[1])?;
        if mdwe.is_some_and(|mdwe| !mdwe.inherited) {
            self.knows(Features::MDWE_NO_INHERIT)?;
        }
        self.space.set_mdwe(mdwe)?;
        Ok(0)
    }

    pub(super) fn get_mdwe(&mut self) -> Did {
        self.knows(Features::MDWE)?;
        self.unused(1)?;
        Ok(self.space.mdwe().map_or(0, Mdwe::bits))
    }

    pub(super) fn set_memory_merge(&mut self) -> Did {
        self.knows(Features::MEMORY_MERGE)?;
        self.unused(2)?;
        self.space.merge_pages(self.args[1] != 0);
        Ok(0)
    }

    pub(super) fn get_memory_merge(&mut self) -> Did {
        self.knows(Features::MEMORY_MERGE)?;
        self.unused(1)?;
        Ok(self.space.merges_pages().into())
    }

    /// EINVAL, as for an unknown option, if the kernel lacks the feature.
    fn knows(&self, option: Features) -> Result<(), Errno> {
        if self.space.has(option) { Ok(()) } else { Err(Errno::EINVAL) }
    }

    /// The arguments of `prctl` from `first` on must be 0.
    fn unused(&self, first: usize) -> Result<(), Errno> {
        if self.args[first..5].iter().all(|arg| *arg == 0) { Ok(()) } else { Err(Errno::EINVAL) }
    }
}
