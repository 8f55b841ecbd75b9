//! Forks of shared spaces: children and their children show what forks of spaces with one owner
//! show, whichever side changes, and whatever is looked at first.

use crate::rng::Rng;
use crate::world::{ARENA, Call, PAGE, shown, space};
use crate::{FEW, seed, times};
use samara_mm::*;
use std::borrow::Borrow;

/// A space, twice.
struct Member {
    one: AddressSpace<FileId>,
    shared: SharedAddressSpace<FileId>,
}

/// Areas, with identities numbered in the order in which they appear.
fn areas<A: Borrow<Area<FileId>>>(areas: impl Iterator<Item = (u64, u64, A)>) -> Vec<String> {
    let mut ids = Vec::new();
    let line = |(start, end, area): (u64, u64, A)| {
        let area: &Area<FileId> = area.borrow();
        let anon = match area.anon() {
            Anon::Identity { id, inherited } => {
                let at = ids.iter().position(|i| *i == id).unwrap_or(ids.len());
                ids.extend((at == ids.len()).then_some(id));
                format!("{at} {inherited}")
            }
            other => format!("{other:?}"),
        };
        format!("{start:x}-{end:x} {:?} {:?} {:x} {anon}", area.flags, area.object, area.bias)
    };
    areas.map(line).collect()
}

impl Member {
    /// Compares what readers see, which stores nothing.
    fn assert_alike(&self, why: &dyn Fn() -> String) {
        let one = areas(self.one.areas().map(|a| (a.start, a.end, a.area)));
        assert_eq!(areas(self.shared.maps().areas_in(0, u64::MAX)), one, "{}", why());
        assert_eq!(self.shared.len(), self.one.len(), "{}", why());
    }

    /// Makes a call on both.
    fn call(&mut self, r: &mut Rng, pages: u64, why: &dyn Fn() -> String) {
        let (at, len) = (ARENA + r.below(pages) * PAGE, (1 + r.below(6)) * PAGE);
        let call = match r.below(12) {
            0 => Call::Advise(at, len, r.pick(&[Advice::WipeOnFork, Advice::KeepOnFork, Advice::DontFork])),
            1 => {
                let uffd = Uffd { id: 1, fork_events: r.below(2) == 0, remap_events: false };
                let one = self.one.register_uffd(at, len, uffd, Flags::UFFD_MISSING);
                assert_eq!(self.shared.register_uffd(at, len, uffd, Flags::UFFD_MISSING), one, "{}", why());
                return;
            }
            2..=4 => Call::Fault(at, Access::Write),
            _ => Call::random(r, pages),
        };
        let one = call.on_space(&mut self.one);
        let shared = call.on_shared(&mut self.shared.caller(), &mut self.shared.faulter());
        assert_eq!(shared, one, "{call:x?} {}", why());
    }
}

#[test]
fn families_are_those_of_spaces_with_one_owner() {
    let seed = seed();
    let (mut forks, mut refused, mut lazy) = (0, 0, 0);
    for round in 0..times(300) {
        let mut r = Rng(seed.wrapping_add(round) ^ 0xf08c);
        let one = space(&mut r);
        let like = one.snapshot(one.config().clone()).unwrap();
        let shared = SharedAddressSpace::from_space(like, FencedDomain::new()).unwrap();
        let mut family = vec![Member { one, shared }];
        for step in 0..120 {
            let why = || format!("SAMARA_SEED={} step {step}", seed.wrapping_add(round));
            let at = r.below(family.len() as u64) as usize;
            match r.below(16) {
                0..=1 if family.len() < 6 => {
                    let Member { one, shared } = &family[at];
                    match (one.fork(), shared.fork()) {
                        (Ok(one), Ok(shared)) => {
                            forks += 1;
                            family.push(Member { one, shared });
                        }
                        (one, shared) => {
                            refused += 1;
                            assert_eq!(shared.map(drop), one.map(drop), "{}", why());
                        }
                    }
                }
                2 if family.len() > 1 => drop(family.swap_remove(at)),
                3 => {
                    // Stores what is inherited.
                    family[at].shared.check().unwrap();
                    assert_eq!(shown(&family[at].shared.snapshot().unwrap()), shown(&family[at].one), "{}", why());
                }
                4 => {
                    let Member { one, shared } = family.swap_remove(at);
                    let shared = shared.into_space().unwrap();
                    assert_eq!(shown(&shared), shown(&one), "{}", why());
                    family.push(Member {
                        one,
                        shared: SharedAddressSpace::from_space(shared, FencedDomain::new()).unwrap(),
                    });
                }
                _ => family[at].call(&mut r, 24, &why),
            }
            family.iter().for_each(|member| member.assert_alike(&why));
        }
        for Member { one, shared } in family {
            lazy += u64::from(shared.statistics().ranged > 0);
            shared.check().unwrap();
            assert_eq!(shown(&shared.into_space().unwrap()), shown(&one), "SAMARA_SEED={}", seed.wrapping_add(round));
        }
    }
    println!("{forks} forks, {refused} refused, {lazy} spaces with ranged calls, seed {seed}");
    assert!(forks > 100 || FEW);
}

/// Parts of one inherited area have one identity, so they merge again, whichever part is stored
/// anew first.
#[test]
fn parts_of_an_inherited_area_merge_again() {
    let parent = SharedAddressSpace::<FileId>::new(Config::default()).unwrap();
    parent.map(&MapRequest::anonymous(ARENA, 8 * PAGE, Prot::RW)).unwrap();
    parent.faulter().fault(ARENA, Access::Write).unwrap();
    let child = parent.fork().unwrap();
    for page in [5, 2] {
        child.protect(ARENA + page * PAGE, PAGE, Prot::READ, None).unwrap();
    }
    assert_eq!(child.len(), 5);
    for page in [2, 5] {
        child.protect(ARENA + page * PAGE, PAGE, Prot::RW, None).unwrap();
    }
    assert_eq!((child.len(), parent.len()), (1, 1));
    let statistics = child.statistics();
    assert_eq!((statistics.ranged, statistics.whole), (4, 0), "nothing stored all areas");
    child.check().unwrap();
}

/// More forks in a row than there are generations.
#[test]
fn a_long_line_of_children() {
    let mut one = AddressSpace::<FileId>::new(Config::default());
    for i in 0..20 {
        one.map(&MapRequest::anonymous(ARENA + 2 * i * PAGE, PAGE, Prot::RW)).unwrap();
        one.touch(ARENA + 2 * i * PAGE, ARENA + (2 * i + 1) * PAGE);
    }
    let like = one.snapshot(one.config().clone()).unwrap();
    let mut shared: SharedAddressSpace<_> = SharedAddressSpace::from_space(like, FencedDomain::new()).unwrap();
    for i in 0..if cfg!(miri) { 3 } else { 600 } {
        (one, shared) = (one.fork().unwrap(), shared.fork().unwrap());
        let at = ARENA + i % 20 * 2 * PAGE;
        one.protect(at, PAGE, if i % 40 < 20 { Prot::READ } else { Prot::RW }, None).unwrap();
        shared.protect(at, PAGE, if i % 40 < 20 { Prot::READ } else { Prot::RW }, None).unwrap();
    }
    assert_eq!(shown(&shared.into_space().unwrap()), shown(&one));
}

fn locked(len: u64) -> MapRequest<FileId> {
    let request = MapRequest::anonymous(ARENA, len, Prot::READ);
    MapRequest { flags: request.flags | MapFlags::FIXED | MapFlags::LOCKED, ..request }
}

/// An area that replaces an equal one is of its own space, though another space may have made it.
#[test]
fn an_equal_area_is_stored_anew() {
    let parent = SharedAddressSpace::<FileId>::new(Config::default()).unwrap();
    let near = |space: &mut AddressSpace<FileId>| {
        space.set_limits(Limits { address_space: Limit::bytes(8 * PAGE), ..Limits::NONE });
        Ok(((), Plan::default()))
    };
    parent.exclusive(near).unwrap();
    let child = parent.fork().unwrap();
    for whole in [0, 1] {
        // The second time, the limit could be passed, so the call takes the whole space.
        child.map(&locked(6 * PAGE)).unwrap();
        assert_eq!(child.statistics().whole, whole);
        assert!(child.maps().area_at(ARENA).unwrap().2.flags.contains(Flags::LOCKED));
        child.check().unwrap();
    }
    child.unmap(ARENA, 6 * PAGE).unwrap();
    assert_eq!(child.snapshot().unwrap().counters().locked, 0);
    child.check().unwrap();
}

#[test]
fn the_areas_of_a_child_in_its_parent() {
    let parent = SharedAddressSpace::<FileId>::new(Config::default()).unwrap();
    parent.map(&MapRequest::anonymous(ARENA, 4 * PAGE, Prot::RW)).unwrap();
    let child = parent.fork().unwrap();
    for space in [&parent, &child] {
        space.lock(ARENA, 4 * PAGE, LockKind::OnFault).unwrap();
    }
    parent.replace(child.snapshot().unwrap()).unwrap();
    assert!(parent.maps().area_at(ARENA).unwrap().2.flags.contains(Flags::LOCKED));
    parent.check().unwrap();
    parent.unlock(ARENA, 4 * PAGE).unwrap();
    assert_eq!(parent.snapshot().unwrap().counters().locked, 0);
}
