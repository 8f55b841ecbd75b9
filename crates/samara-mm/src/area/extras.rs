//! Extras: what only few areas have. They stand in a table of the space, so that areas stay small;
//! an area knows its place there, 0 being none. Knows places and who still points to them; nothing
//! of what extras mean.
//!
//! - **EXTRAS-1** What an area of the tree or a remembered join points to is in use; all else may
//!   be swept, once a call begins that needs places. So a call makes all places that it needs
//!   before it changes anything, at once, and none is swept while it holds an area outside of both.
//! - **EXTRAS-2** An edit that leaves extras as they were leaves the area its place: areas of which
//!   nothing changes stay equal. Equal extras may have two places all the same.

use crate::area::{Policy, Uffd};
use crate::errno::Errno;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What only few areas have.
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
    /// Memory policy; `None` is the default policy.
    pub policy: Option<Policy>,
    /// Userfaultfd registration; its modes are in the area's flags.
    pub uffd: Option<Uffd>,
    /// Name of anonymous memory (`PR_SET_VMA_ANON_NAME`).
    pub name: Option<Arc<str>>,
    /// Open file learnt from the kernel, where the object cannot tell.
    pub opened: Option<u64>,
}

static NONE: Extras = Extras { policy: None, uffd: None, name: None, opened: None };

/// So many places are used up before any is sought to be swept.
const FEW: usize = 64;

/// Whether a place is used: what `Slot::state` says, or else the next free place.
const USED: u32 = u32::MAX;
const MARKED: u32 = u32::MAX - 1;

#[derive(Clone, Debug)]
struct Slot {
    extras: Extras,
    state: u32,
    made: Made,
}

/// What an edit has made of extras: in which edit, and their place.
#[derive(Clone, Copy, Debug, Default)]
struct Made {
    edit: u64,
    at: u32,
}

/// The extras of a space.
#[derive(Debug, Default)]
pub(crate) struct Table {
    slots: Vec<Slot>,
    /// The first free place; 0: there is none.
    free: u32,
    /// So many slots there may be before a sweep.
    room: usize,
    /// The number of the last edit, and what it has made of no extras.
    edit: u64,
    none: Made,
}

impl Table {
    /// The extras at this place.
    #[inline]
    pub(crate) fn get(&self, at: u32) -> &Extras {
        if at == 0 { &NONE } else { self.slots.get(at as usize - 1).map_or(&NONE, |slot| &slot.extras) }
    }

    /// The place of these extras.
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

    /// The place of what `edit` makes of the extras at `at`.
    pub(crate) fn edited(&mut self, at: u32, edit: impl Fn(&mut Extras)) -> Result<u32, Errno> {
        let mut extras = self.get(at).clone();
        edit(&mut extras);
        if extras == *self.get(at) { Ok(at) } else { self.add(extras) }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    fn made(&mut self, at: u32) -> &mut Made {
        match self.slots.get_mut((at as usize).wrapping_sub(1)) {
            Some(slot) => &mut slot.made,
            None => &mut self.none,
        }
    }

    /// Whether it is time to sweep: no place is free, and many are used.
    pub(crate) fn is_full(&self) -> bool {
        self.free == 0 && self.slots.len() >= self.room.max(FEW)
    }

    /// Begins an edit: what the last one made is forgotten.
    pub(crate) fn begin_edit(&mut self) {
        self.edit += 1;
    }

    /// Has `edit`, the last one that was begun, make of the extras at `at` what [`Table::derived`]
    /// gives. What it makes, it leaves as it is.
    pub(crate) fn derive(&mut self, at: u32, edit: &impl Fn(&mut Extras)) -> Result<(), Errno> {
        if self.made(at).edit != self.edit {
            let made = Made { edit: self.edit, at: self.edited(at, edit)? };
            *self.made(at) = made;
            *self.made(made.at) = made;
        }
        Ok(())
    }

    /// What the last edit made of the extras at `at`.
    pub(crate) fn derived(&self, at: u32) -> u32 {
        let made = self.slots.get((at as usize).wrapping_sub(1)).map_or(self.none, |slot| slot.made);
        if made.edit == self.edit { made.at } else { at }
    }

    /// Keeps the extras at `at` in the next sweep.
    pub(crate) fn mark(&mut self, at: u32) {
        if let Some(slot) = self.slots.get_mut((at as usize).wrapping_sub(1)) {
            slot.state = MARKED;
        }
    }

    /// Frees what is not marked. Sweeps again when there is twice as much, or a part of `areas`, so
    /// that a sweep costs O(1) for each place.
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

    /// The table of a forked child: without the registrations that do not follow there.
    pub(crate) fn for_child(&self) -> Result<Table, Errno> {
        let mut copy = self.copy()?;
        copy.slots.iter_mut().for_each(|slot| slot.extras.uffd = slot.extras.uffd.filter(|u| u.fork_events));
        Ok(copy)
    }

    /// The same extras at the same places.
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
