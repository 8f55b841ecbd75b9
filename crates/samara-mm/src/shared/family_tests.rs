//! Families after spaces are gone: the list lacks them, and keeps only the areas that descendants
//! need.

use crate::shared::SharedAddressSpace;
use crate::space::{AddressSpace, Config};
use crate::{Access, Anon, Area, FileId, Flags, MapRequest, Object, Prot, SharedViolation};
use samara::TryArc;
use std::vec::Vec;

type Space = SharedAddressSpace<FileId>;

fn written() -> Space {
    let space = Space::new(Config::default()).unwrap();
    space.map(&MapRequest::anonymous(0x10000, 0x1000, Prot::RW)).unwrap();
    space.faulter().fault(0x10000, Access::Write).unwrap();
    space
}

fn numbers(space: &Space) -> Vec<u64> {
    space.family.with_members(|members| members.iter().map(|(span, _)| span.first).collect())
}

#[test]
fn spaces_leave_their_family() {
    let first = written();
    let inherited = first.inherited.clone();
    assert_eq!(numbers(&first), [first.number()]);
    let (one, other, copy) = (first.fork().unwrap(), first.fork().unwrap(), first.fork_eager().unwrap());
    let grandchild = one.fork().unwrap();
    let all = [&first, &one, &other, &copy, &grandchild].map(|space| space.number());
    assert_eq!(numbers(&copy), all);
    assert!(first.fork_with(|| Err::<(), _>(crate::Errno::EAGAIN)).is_err());
    assert_eq!(numbers(&other), all, "a fork that fails leaves no space");
    one.exit();
    drop(other.into_space().unwrap());
    drop(copy);
    drop(first);
    assert_eq!(numbers(&grandchild), all[4..]);
    // The test, and the line of the grandchild, which leads through its parent.
    assert_eq!(TryArc::owners(&inherited), 2);
    drop(grandchild);
    assert_eq!(TryArc::owners(&inherited), 1);
}

#[test]
fn a_line_keeps_a_bounded_number_of_ancestors() {
    let mut last = written();
    for _ in 0..if cfg!(miri) { 3 } else { 600 } {
        last = last.fork().unwrap();
        let mut kept = 0;
        let mut at = last.inherited.parents.as_ref();
        while let Some(parents) = at {
            (kept, at) = (kept + 1, parents.parents.as_ref());
        }
        assert!(kept < 255 && numbers(&last) == [last.number()]);
    }
}

#[test]
fn the_check_finds_what_the_family_should_know() {
    let space = written();
    // A member without a space.
    let member = space.family.with_members(|members| members.first().map(|(_, member)| member.clone())).unwrap();
    assert_eq!(space.check(), Err(SharedViolation::Family), "more than two own its tree");
    drop(member);
    space.check().unwrap();
    let mut moved = Area::new(Flags::READ, Object::Anonymous, 5);
    moved.set_anon(Anon::Identity { id: 1, inherited: false });
    let mut one = AddressSpace::<FileId>::new(Config::default());
    one.import(0x1000, 0x2000, moved.clone()).unwrap();
    let known = Space::from_space(one, samara::FencedDomain::new()).unwrap();
    assert!(known.map.tree().has_moved());
    known.check().unwrap();
    // Past all that notes it.
    let maps = space.maps();
    let (start, end, area) = maps.area_at(0x10000).unwrap();
    let mut area = area.into_owned();
    area.bias = 5;
    space.map.write().insert(start..=end - 1, area).unwrap();
    assert_eq!(space.check(), Err(SharedViolation::Moved(0x10000)));
}
