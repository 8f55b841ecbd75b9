//! Extras: attributes that only few areas have. A table of the space holds them, so that areas stay
//! small; an area stores an index into the table, and 0 means no extras. Knows slots and their use;
//! does not know the meaning of the attributes.
//!
//! - **EXTRAS-1** A slot is in use while an area in the tree or a remembered join refers to it. The
//!   table may sweep every other slot at the start of a call that needs slots. So a call makes all
//!   its slots at once, before it changes anything, and no sweep runs while a call holds an area
//!   that is in neither the tree nor a join.
//! - **EXTRAS-2** An edit that does not change an area's extras keeps the area's index, so that an
//!   unchanged area stays equal. Equal extras may still occupy two slots.

use crate::area::{Policy, Uffd};
use crate::errno::Errno;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Attributes that only few areas have.
///
/// ```
/// use samara_mm::{AddressSpace, Config, Extras, FileId, MapRequest, Prot};
/// let mut space = AddressSpace::<FileId>::new(Config::default());
/// space.map(&MapRequest::anonymous(0x10000, 0x2000, Prot::RW)).unwrap();
/// space.set_anon_name(0x10000, 0x1000, Some("arena".into())).unwrap();
/// assert_eq!(space.area_at(0x10000).unwrap().extras().name.as_deref(), Some("arena"));
/// assert_eq!(space.area_at(0x11000).unwrap().extras(), &Extras::default());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// The memory policy; `None` is the default policy.
    pub policy: Option<Policy>,
    /// The userfaultfd registration. Its modes are in the area's flags.
    pub uffd: Option<Uffd>,
    /// The name of anonymous memory (`PR_SET_VMA_ANON_NAME`).
    pub name: Option<Arc<str>>,
    /// The open file learnt from the kernel, if the object does not name it.
    pub opened: Option<u64>,
    /// For private maps of files: the page number of their own pages minus that of their address,
    /// wrapping ([`Features::ANON_OFFSET_OF_FILES`](crate::Features::ANON_OFFSET_OF_FILES)). 0 if
    /// they were not written, or have not moved since.
    pub anon_bias: u64,
}

/// The extras of most areas.
pub(crate) static NONE: Extras = Extras { policy: None, uffd: None, name: None, opened: None, anon_bias: 0 };

/// Number of slots below which the table is never swept.
const FEW: usize = 64;

/// `Slot::state` of a slot in use. The state of a free slot is the index of the next free one.
const USED: u32 = u32::MAX;
/// `Slot::state` of a slot that the coming sweep keeps.
const MARKED: u32 = u32::MAX - 1;

#[derive(Clone, Debug)]
struct Slot {
    extras: Extras,
    state: u32,
    made: Made,
}

/// The result of an edit on some extras: the number of the edit and the index of the result.
#[derive(Clone, Copy, Debug, Default)]
struct Made {
    edit: u64,
    at: u32,
}

/// The extras of a space. Indices start at 1.
#[derive(Debug, Default)]
pub(crate) struct Table {
    slots: Vec<Slot>,
    /// The index of the first free slot; 0 if no slot is free.
    free: u32,
    /// Number of slots up to which the table grows before a sweep.
    room: usize,
    /// The number of the last edit.
    edit: u64,
    /// The last edit's result for areas without extras.
    none: Made,
}

impl Table {
    /// The extras at this index.
    #[inline]
    pub(crate) fn get(&self, at: u32) -> &Extras {
        if at == 0 { &NONE } else { self.slots.get(at as usize - 1).map_or(&NONE, |slot| &slot.extras) }
    }

    /// Stores these extras and returns their index.
    pub(crate) fn add(&mut self, extras: Extras) -> Result<u32, Errno> {
        if extras == NONE {
            return Ok(0);
        }
        let slot = Slot { extras, state: USED, made: Made::default() };
        if self.free != 0
            && let Some(free) = self.slots.get_mut(self.free as usize - 1)
        {
            let at = self.free;
            self.free = free.state;
            *free = slot;
            return Ok(at);
        }
        let at = u32::try_from(self.slots.len()).ok().filter(|n| *n < MARKED - 1).ok_or(Errno::ENOMEM)? + 1;
        self.slots.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        self.slots.push(slot);
        Ok(at)
    }

    /// The index of the extras that `edit` makes from those at `at`.
    pub(crate) fn edited(&mut self, at: u32, edit: impl Fn(&mut Extras)) -> Result<u32, Errno> {
        let mut extras = self.get(at).clone();
        edit(&mut extras);
        if extras == *self.get(at) { Ok(at) } else { self.add(extras) }
    }

    /// Makes room for `more` additional slots.
    pub(crate) fn reserve(&mut self, more: usize) -> Result<(), Errno> {
        self.slots.try_reserve(more).map_err(|_| Errno::ENOMEM)
    }

    /// Whether the table has no slots.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    fn made(&mut self, at: u32) -> &mut Made {
        match self.slots.get_mut((at as usize).wrapping_sub(1)) {
            Some(slot) => &mut slot.made,
            None => &mut self.none,
        }
    }

    /// Whether a sweep is due: no slot is free, and the table has reached its room.
    pub(crate) fn is_full(&self) -> bool {
        self.free == 0 && self.slots.len() >= self.room.max(FEW)
    }

    /// Begins an edit and forgets the results of the last one.
    pub(crate) fn begin_edit(&mut self) {
        self.edit += 1;
    }

    /// Applies `edit`, the edit begun last, to the extras at `at`, and records the result for
    /// [`Table::derived`]. A result is recorded as its own result, so that a second application
    /// leaves it as it is.
    pub(crate) fn derive(&mut self, at: u32, edit: &impl Fn(&mut Extras)) -> Result<(), Errno> {
        if self.made(at).edit != self.edit {
            let made = Made { edit: self.edit, at: self.edited(at, edit)? };
            *self.made(at) = made;
            *self.made(made.at) = made;
        }
        Ok(())
    }

    /// The index of the last edit's result for the extras at `at`.
    pub(crate) fn derived(&self, at: u32) -> u32 {
        let made = self.slots.get((at as usize).wrapping_sub(1)).map_or(self.none, |slot| slot.made);
        if made.edit == self.edit { made.at } else { at }
    }

    /// Makes the next sweep keep the extras at `at`.
    pub(crate) fn mark(&mut self, at: u32) {
        if let Some(slot) = self.slots.get_mut((at as usize).wrapping_sub(1)) {
            slot.state = MARKED;
        }
    }

    /// Frees every slot that is not marked. The next sweep is due when the table has twice as many
    /// slots as are in use now, or a quarter as many as there are `areas`, whichever is more; so
    /// sweeping costs O(1) per slot.
    pub(crate) fn sweep(&mut self, areas: usize) {
        let mut used = 0;
        self.free = 0;
        for (slot, at) in self.slots.iter_mut().zip(1..) {
            if slot.state == MARKED {
                slot.state = USED;
                used += 1;
            } else {
                *slot = Slot { extras: Extras::default(), state: self.free, made: Made::default() };
                self.free = at;
            }
        }
        self.room = FEW.max(2 * used).max(areas / 4);
    }

    /// The table of a forked child, without registrations that did not request fork events.
    pub(crate) fn for_child(&self) -> Result<Table, Errno> {
        let mut copy = self.copy()?;
        copy.slots.iter_mut().for_each(|slot| slot.extras.uffd = slot.extras.uffd.filter(|u| u.fork_events));
        Ok(copy)
    }

    /// A copy with the same extras at the same indices.
    pub(crate) fn copy(&self) -> Result<Table, Errno> {
        let mut slots = Vec::new();
        slots.try_reserve_exact(self.slots.len()).map_err(|_| Errno::ENOMEM)?;
        slots.extend_from_slice(&self.slots);
        Ok(Table { slots, ..*self })
    }
}

#[cfg(test)]
mod tests {
    use crate::{AddressSpace, Config, Extras, FileId, MapRequest, Prot};
    use std::format;
    use std::sync::Arc;
    use std::vec::Vec;

    #[test]
    fn what_nobody_has_is_swept() {
        let mut space = AddressSpace::<FileId>::new(Config::default());
        space.map(&MapRequest::anonymous(0x10000, 0x20_0000, Prot::RW)).unwrap();
        let mut names = Vec::new();
        for round in 0..20_u64 {
            for i in 0..100 {
                let name: Arc<str> = Arc::from(&*format!("{round} {i}"));
                space.set_anon_name(0x10000 + i * 0x2000, 0x1000, Some(name.clone())).unwrap();
                names.push(name);
            }
            for (i, a) in space.areas().filter(|a| *a.extras() != Extras::default()).enumerate() {
                assert_eq!(a.extras().name, Some(names[100 * round as usize + i].clone()));
            }
        }
        assert!(space.extras.slots.len() <= 300, "{} places for 100 names", space.extras.slots.len());
        let kept = names.iter().filter(|name| Arc::strong_count(name) > 1).count();
        assert!(kept <= 300, "{kept} names are kept for 100");
        let child = space.fork().unwrap();
        space.set_anon_name(0, 0x40_0000, None).unwrap_err();
        assert_eq!((space.len(), child.len()), (1, 200));
        assert!(child.areas().eq(child.fork().unwrap().areas()));
    }
}
