//! One thread: a shared space answers as a space with one owner, call by call.

use crate::rng::Rng;
use crate::world::{Call, shown, space};
use crate::{seed, times};
use samara_mm::{Membarrier, SharedAddressSpace};

#[test]
fn answers_are_those_of_a_space_with_one_owner() {
    let seed = seed();
    let (mut calls, mut refused, mut ranged) = (0, 0, 0);
    for round in 0..times(400) {
        let mut r = Rng(seed.wrapping_add(round));
        let mut one = space(&mut r);
        let shared = SharedAddressSpace::from_space(space_like(&one), Membarrier::new()).unwrap();
        let mut faulter = shared.faulter();
        for step in 0..60 {
            let call = Call::random(&mut r, 24);
            let (a, b) = (call.on_space(&mut one), call.on_shared(&mut shared.caller(), &mut faulter));
            assert_eq!(b, a, "seed {} step {step} {call:x?}\n{one}", seed.wrapping_add(round));
            let snapshot = shared.snapshot().unwrap();
            assert_eq!(shown(&snapshot), shown(&one), "seed {} step {step} {call:x?}", seed.wrapping_add(round));
            assert_eq!(shared.len(), one.len());
            calls += 1;
            refused += u64::from(matches!(a, crate::world::Answer::Done(Err(_))));
        }
        shared.check().unwrap();
        ranged += shared.statistics().ranged;
        drop(faulter);
        assert_eq!(shown(&shared.into_space()), shown(&one));
    }
    println!("{calls} calls, {refused} refused, {ranged} under a range lock, seed {seed}");
    assert!(ranged * 4 > calls, "range locks were used");
    assert!(refused * 20 > calls && refused * 2 < calls, "calls are refused, and most are not");
}

/// A second space with the same settings.
fn space_like(one: &samara_mm::AddressSpace<samara_mm::FileId>) -> samara_mm::AddressSpace<samara_mm::FileId> {
    one.snapshot(one.config().clone()).unwrap()
}
