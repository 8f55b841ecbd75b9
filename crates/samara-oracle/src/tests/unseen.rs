//! Longer runs and other shapes of what the mix `unseen` compares.

use crate::compare::Verdict;
use crate::draw::{Kind, Shape};
use crate::mix::Mix;
use crate::rng::Rng;
use crate::shrink::shrink;
use crate::unseen::differ;
use samara_probe::child::Scope;

fn explore(name: &str, shape: Shape, runs: u64) {
    let Some(mut sides) = super::sides(Mix::Locks) else { return };
    let seed = super::setting("SAMARA_MM_SEED", 1);
    for run in 0..runs {
        let expected = sides.drawn(Scope::Window, shape, Rng::new(seed, name, run)).expect("a process");
        if let Verdict::Differ(first) = differ(&mut sides, &expected.ops).expect("a process") {
            let again = shrink(&expected.ops, &|| false, |ops| differ(&mut sides, ops)).expect("a process");
            let (ops, why) = again.unwrap_or((expected.ops, first));
            let list: Vec<String> = ops.iter().map(|op| format!("  {op}")).collect();
            panic!("{name}: seed {seed}, run {run}: model and kernel differ\n{}\n{why:?}", list.join("\n"));
        }
    }
}

#[test]
fn chosen_sequences() {
    let Some(mut sides) = super::sides(Mix::Basic) else { return };
    let uffd = super::sides(Mix::Uffd).is_some();
    for case in super::chosen::CASES.iter().filter(|case| uffd || !case.contains("uffd")) {
        let verdict = differ(&mut sides, &super::chosen::parse(case)).expect("a process");
        assert_eq!(verdict, Verdict::Agree, "{case}");
    }
}

#[test]
fn writes_unseen() {
    let plain = Mix::Basic.shapes()[0];
    let mix = Shape { seal: true, forks: true, len: 60, ..plain };
    explore("writes unseen", mix, 60);
    explore("writes unseen, few pages", Shape { pages: 7, ..mix }, 60);
    // Whether locked memory that was moved away with DONTUNMAP joins its copy cannot be learnt: not
    // both.
    explore("writes unseen, locks", Shape { lock: true, lock_all: true, dontunmap: false, ..mix }, 60);
    let hot = Shape { kind: Kind::Hot, seal: false, pages: 8, ..mix };
    explore("hot, writes unseen", hot, 25);
}
