//! The two ways to ask for areas tell the same.

use samara_probe::child::Ended;

use crate::Mix;
use crate::check::Abilities;
use crate::compare::Sides;
use crate::draw::Shape;
use crate::rng::Rng;

/// With areas up to the limit, too.
#[test]
fn both_ways_tell_the_same() {
    let mut sides = Sides::new().expect("memory and files");
    let fill = Abilities::of(&mut sides).expect("a process in which to make calls").fill;
    for mix in [Mix::Basic, Mix::Forks, Mix::Limits] {
        for shape in [mix.shapes().first(), mix.shapes().last()].into_iter().flatten() {
            if shape.fill.is_some() && !fill {
                continue;
            }
            let shape = Shape { len: 30, ..*shape };
            let ops = sides.drawn(mix.scope(), shape, Rng::new(1, mix.name(), 1)).expect("a process").ops;
            let areas = [true, false].map(|queries| {
                sides.kernel.queries = queries;
                let out = sides.kernel.run(&ops, mix.scope()).expect("a process");
                assert_eq!(out.ended, Ended::Done);
                out.frames().1.map(|(_, areas)| areas.collect::<Vec<_>>()).collect::<Vec<_>>()
            });
            assert!(areas[0].iter().any(|areas| !areas.is_empty()));
            assert!(areas[0] == areas[1], "{mix}: {ops:?}");
        }
    }
}
