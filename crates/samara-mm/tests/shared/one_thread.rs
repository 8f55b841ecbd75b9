//! One thread: a shared space answers as a space with one owner, call by call.

use crate::rng::Rng;
use crate::world::{Call, shown, space};
use crate::{seed, times};
use samara_mm::{Access, Advice, FencedDomain, LockKind, MapRequest, Prot, SharedAddressSpace};

#[test]
fn answers_are_those_of_a_space_with_one_owner() {
    let seed = seed();
    let (mut calls, mut refused, mut ranged, mut leaf) = (0, 0, 0, 0);
    for round in 0..times(400) {
        let mut r = Rng(seed.wrapping_add(round));
        let mut one = space(&mut r);
        let shared = SharedAddressSpace::<_>::from_space(space_like(&one), FencedDomain::new()).unwrap();
        let mut faulter = shared.faulter();
        for step in 0..60 {
            let call = if r.one_in(3) { Call::searching(&mut r, 24) } else { Call::random(&mut r, 24) };
            let (a, b) = (call.on_space(&mut one), call.on_shared(&mut shared.caller(), &mut faulter));
            assert_eq!(b, a, "seed {} step {step} {call:x?}\n{one}", seed.wrapping_add(round));
            // A snapshot has all threads settle: calls in one leaf come between two of them.
            if step % 4 == 3 {
                let snapshot = shared.snapshot().unwrap();
                assert_eq!(shown(&snapshot), shown(&one), "seed {} step {step} {call:x?}", seed.wrapping_add(round));
            }
            assert_eq!(shared.len(), one.len());
            calls += 1;
            refused += u64::from(matches!(a, crate::world::Answer::Done(Err(_))));
        }
        shared.check().unwrap();
        ranged += shared.statistics().ranged;
        leaf += shared.statistics().leaf;
        drop(faulter);
        assert_eq!(shown(&shared.into_space().unwrap()), shown(&one));
    }
    println!("{calls} calls, {refused} refused, {ranged} under a range lock, {leaf} in a leaf, seed {seed}");
    assert!(ranged * 4 > calls && leaf * 20 > calls, "range locks were used, and leaves");
    assert!(refused * 20 > calls && refused * 2 < calls, "calls are refused, and most are not");
}

/// Callers that one thread uses in turn have each their own credit and sums, and seldom settle.
#[test]
fn answers_do_not_depend_on_who_calls() {
    let seed = seed();
    let (mut calls, mut refused, mut ranged) = (0, 0, 0);
    for round in 0..times(600) {
        let mut r = Rng(seed.wrapping_add(round) ^ 0xca11);
        let mut one = space(&mut r);
        let shared = SharedAddressSpace::<_>::from_space(space_like(&one), FencedDomain::new()).unwrap();
        let mut faulter = shared.faulter();
        let mut callers: [_; 3] = std::array::from_fn(|_| shared.caller());
        for step in 0..80 {
            let call = Call::random(&mut r, 24);
            let caller = &mut callers[r.below(3) as usize];
            let (a, b) = (call.on_space(&mut one), call.on_shared(caller, &mut faulter));
            assert_eq!(b, a, "seed {} step {step} {call:x?}\n{one}", seed.wrapping_add(round));
            calls += 1;
            refused += u64::from(matches!(a, crate::world::Answer::Done(Err(_))));
        }
        assert_eq!(shown(&shared.snapshot().unwrap()), shown(&one), "seed {}", seed.wrapping_add(round));
        shared.check().unwrap();
        ranged += shared.statistics().ranged;
    }
    println!("{calls} calls, {refused} refused, {ranged} under a range lock, seed {seed}");
    assert!(ranged * 3 > calls && refused * 20 > calls, "credit is used, and limits are met");
}

/// Odd arguments get the answers of a space with one owner, and break nothing.
#[test]
fn odd_arguments_are_answered_alike() {
    let seed = seed();
    let odd = |r: &mut Rng| {
        let near = r.pick(&[0, 1 << 12, 1 << 21, 1 << 32, 0x7fff_ffff_f000, 1 << 63, u64::MAX]);
        r.pick(&[
            near,
            near.wrapping_sub(1),
            near.wrapping_add(1),
            near.wrapping_sub(1 << 12),
            near.wrapping_add(1 << 12),
        ])
    };
    for round in 0..times(300) {
        let mut r = Rng(seed.wrapping_add(round) ^ 0x0dd);
        let mut one = space(&mut r);
        let shared = SharedAddressSpace::<_>::from_space(space_like(&one), FencedDomain::new()).unwrap();
        let mut faulter = shared.faulter();
        for step in 0..40 {
            let (at, len) = (odd(&mut r), odd(&mut r));
            let call = match r.below(12) {
                0..=2 => Call::Map(MapRequest::anonymous(at, len, Prot::RW)),
                3 => Call::Unmap(at, len),
                4 => Call::Protect(at, len, Prot::READ),
                5 => Call::Advise(at, len, Advice::DontFork),
                6 => Call::Lock(at, len, LockKind::Now),
                7 => Call::Unlock(at, len),
                8 => Call::Brk(at),
                9 => Call::Touch(at, len),
                10 => Call::Fault(at, Access::Write),
                _ => Call::Seal(at, len),
            };
            let (a, b) = (call.on_space(&mut one), call.on_shared(&mut shared.caller(), &mut faulter));
            assert_eq!(b, a, "seed {} step {step} {call:x?}\n{one}", seed.wrapping_add(round));
            assert_eq!(shown(&shared.snapshot().unwrap()), shown(&one), "seed {seed} {call:x?}");
        }
        shared.check().unwrap();
    }
}

/// A second space with the same settings.
pub(crate) fn space_like(
    one: &samara_mm::AddressSpace<samara_mm::FileId>,
) -> samara_mm::AddressSpace<samara_mm::FileId> {
    one.snapshot(one.config().clone()).unwrap()
}
