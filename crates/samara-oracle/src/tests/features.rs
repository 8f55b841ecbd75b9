//! What the kernel is asked for, and how long it may take to answer.

use crate::check::Abilities;
use crate::compare::{Refused, Sides, Verdict};
use crate::{Mix, features};
use samara_mm::{Advice, Features};
use samara_probe::child::{Ended, Kernel, Scope};
use samara_probe::features::{NEAR_THE_LIMIT, calls, crowded};
use samara_probe::op::Op;
use samara_probe::probe;

/// What no question tells: the release's number decides.
const NOT_ASKED: Features = Features::DROPPABLE_EOPNOTSUPP
    .union(Features::DROPPABLE_IGNORES_FUTURE)
    .union(Features::FIXED_KEEPS_OLD)
    .union(Features::FIXED_ANSWERS_AS_MUNMAP)
    .union(Features::SECRET_WITHOUT_LOCK)
    .union(Features::UNMERGEABLE_KEEPS_KEY)
    .union(Features::HUGETLB_SEARCHES_ALIKE)
    .union(Features::HUGE_REMAP)
    .union(Features::MDWE_NO_INHERIT)
    .union(Features::UFFD_MOVES_ALONE)
    .union(Features::PROCESS_WILLNEED)
    .union(Features::HEAP_MEETS)
    .union(Features::HEAP_JOINS_BELOW)
    .union(Features::GIVEN_BEFORE_SOURCE);

/// The model has what was found; a model that has one feature more, or one less, is not this
/// kernel.
#[test]
fn each_is_told_from_its_lack() {
    let Some(mut sides) = super::sides(Mix::Locks) else { return };
    assert_eq!(sides.features, features().unwrap());
    let has = sides.features;
    println!("{has:?}");
    // Where the kernel chooses a place, the window does not tell.
    let (mut ops, everywhere) = calls();
    ops.retain(|op| sides.refusal_of(&[*op]).is_none());
    assert_eq!(sides.differ(Scope::Window, &ops).unwrap(), Verdict::Agree);
    let places = Features::HUGE_MULTIPLES | Features::HUGE_ANY_LENGTH | Features::ZERO_ALIGNED;
    let uffd = Features::UFFD_OWNER_ONLY | Features::UFFD_REFUSES_DROPPABLE;
    let own_areas = Features::BRK_SHRINK_NEEDS_AREA | Features::DOFORK_REFUSES_SPECIAL;
    let elsewhere = places | own_areas | uffd | NEAR_THE_LIMIT | NOT_ASKED;
    for feature in Features::all().difference(elsewhere | sides.profile().presumed | has.without_effect()) {
        // Without guard pages there is no mark of them either.
        sides.features = has.symmetric_difference(feature);
        assert!(matches!(sides.differ(Scope::Window, &ops).unwrap(), Verdict::Differ(_)), "{feature:?}");
    }
    sides.features = has;
    if Abilities::of(&mut sides).unwrap().fill {
        assert_eq!(sides.differ(Scope::Window, &crowded()).unwrap(), Verdict::Agree);
        for feature in NEAR_THE_LIMIT {
            let near = sides.features;
            sides.features ^= feature;
            assert!(matches!(sides.differ(Scope::Window, &crowded()).unwrap(), Verdict::Differ(_)), "{feature:?}");
            sides.features = near;
        }
        sides.features = has;
    }
    if super::sides(Mix::Free).is_some() {
        assert_eq!(sides.differ(Scope::Whole, &everywhere).unwrap(), Verdict::Agree);
    }
}

/// Where very many areas may be made, no mix makes them; each has something left to do.
#[test]
fn no_mix_makes_too_many_areas() {
    let mut sides = Sides::new().unwrap();
    let mut abilities = Abilities::of(&mut sides).unwrap();
    abilities.fill = false;
    let mut named = Vec::new();
    for mix in Mix::ALL {
        match abilities.shapes(mix) {
            Err(why) => println!("skipped: {mix}: {why}"),
            Ok((shapes, left_out)) => {
                assert!(!shapes.is_empty() && shapes.iter().all(|shape| shape.fill.is_none()), "{mix}");
                named.extend(left_out.iter().any(|why| why.contains("vm.max_map_count")).then_some(mix));
            }
        }
    }
    assert!(
        named.iter().all(|mix| [Mix::Limits, Mix::Huge].contains(mix)) && named.contains(&Mix::Limits),
        "{named:?}"
    );
}

/// What is not given to this process is not drawn, and noted; all else is as it was.
#[test]
fn refused_calls_are_not_drawn() {
    let Some(mut sides) = super::sides(Mix::Basic) else { return };
    if !sides.refused.is_empty() {
        println!("skipped: refused here: {:?}", sides.refused);
        return;
    }
    let mbinds = |ops: &[Op]| ops.iter().filter(|op| op.number() == Some(libc::SYS_mbind)).count();
    let shape = Mix::Basic.shapes()[2];
    let mut has = |rng: &crate::rng::Rng| mbinds(&sides.drawn(Scope::Window, shape, rng.clone()).unwrap().ops) > 0;
    let mut all = (0..100).map(|n| crate::rng::Rng::new(1, "basic", n));
    let rng = all.find(|rng| has(rng)).expect("mbind is drawn");
    let refused = |nr, errno| Refused { nr, advice: None, errno };
    sides.refused = vec![refused(libc::SYS_mbind, 1), refused(libc::SYS_shmdt, 38)];
    let ops = sides.drawn(Scope::Window, Mix::Basic.shapes()[2], rng.clone()).unwrap().ops;
    assert_eq!((mbinds(&ops), ops.len(), &sides.missed[..]), (0, 100, &[refused(libc::SYS_mbind, 1)][..]));
    // By threads neither; and of a call only some advice.
    let advice = Refused { nr: libc::SYS_madvise, advice: Some(Advice::PopulateRead as u64), errno: 22 };
    (sides.refused, sides.missed) = (vec![refused(libc::SYS_mbind, 1), advice], Vec::new());
    let (shapes, mut found) = (Mix::Threads.shapes(), Vec::new());
    let report = crate::threads::run(&mut sides, (&shapes, 600), 1, &mut found, &|| false, |_, _| ()).unwrap();
    assert_eq!((report.ops, report.compared, sides.missed.len()), (600, 600, 2), "{:?}", sides.missed);
    assert_eq!(sides.differ(Scope::Window, &ops).unwrap(), Verdict::Agree);
}

#[test]
fn asked_again_it_answers_the_same() {
    let mut kernel = Kernel::new().unwrap();
    let first = probe(&mut kernel).unwrap();
    for _ in 0..20 {
        assert_eq!(probe(&mut kernel).unwrap(), first);
    }
}

/// A process that makes no progress is killed, and so is one whose descendant makes none: none of
/// them is left.
#[test]
fn one_that_is_stuck_is_killed() {
    let mut kernel = Kernel::new().unwrap();
    kernel.limit_s = 1;
    let stuck = Op::call(libc::SYS_pause, &[]);
    for ops in [&[stuck][..], &[Op::Fork, Op::Fork, stuck]] {
        let out = kernel.run(ops, Scope::Window).unwrap();
        assert_eq!((out.ended, out.done), (Ended::Killed(libc::SIGALRM), ops.len() - 1));
    }
    let children = std::fs::read_to_string("/proc/thread-self/children");
    assert_eq!(children.unwrap_or_default(), "");
}
