//! What only the engine tells: why two areas are not one, and what a call did.

use crate::engine;
use crate::machine::{BASE, PAGE};
use samara_mm::{Step, StepKind};

#[test]
fn reasons_between_neighbours() {
    let cases = [
        ("rw 10-12; r 12-14", "protection+accounting"),
        ("r 10-12; none 12-14", "protection"),
        ("rw 10-12; rw+noreserve 12-14", "accounting"),
        ("rw 10-14; lock 12-14", "lock"),
        ("rw 10-14; seal 12-14", "seal"),
        ("rw 10-14; local 12-14", "policy"),
        ("rw 10-14; uffd 12-14", "uffd"),
        ("rw 10-14; dont-dump 12-14", "flags"),
        ("r+shared 10-12 f 0; r+shared 12-14 f 3", "offset"),
        ("r+shared 10-12 f 0; r+shared 12-14 again 2", "backing"),
        ("rw 10-12; t 10-12; fork; rw 12-14", "anonymous-identity"),
        ("rw 10-12; rw 20-22; t 20-22; mv 20-22 12", "offset"),
        ("rw 10-14; r 14-16; seal 14-16; u 12-15 !EPERM", ""),
        ("r 10-12; mv v6-v8 12", "protection+flags+backing+special"),
        ("mv v6-v8 10; r 12-14", "protection+flags+backing+special"),
    ];
    for (script, expected) in cases {
        let space = engine::after(script).space;
        let apart = space.why_not_merged(BASE + 12 * PAGE).map(|r| r.to_string());
        assert_eq!(apart.as_deref(), Some(expected), "{script}");
    }
    assert_eq!(
        engine::after("rw 10-12; rw 13-14").space.why_not_merged(BASE + 12 * PAGE),
        None,
        "nothing touches there"
    );
    assert_eq!(engine::after("rw 10-14").space.why_not_merged(BASE + 12 * PAGE), None, "one area");
}

#[test]
fn plans() {
    let cases = [
        ("", "rw 10-12", "mapped 10-12"),
        ("rw 10-12; rw 14-16", "rw 12-14", "mapped 12-14, merged at 12, merged at 14"),
        ("rw 10-16", "r 12-14", "split at 12, unmapped 12-14, mapped 12-14"),
        ("rw 10-12; r 12-14", "rwx 11-13", "unmapped 11-12, unmapped 12-13, mapped 11-13"),
        ("rw 10-12; r 12-14", "u 11-13", "unmapped 11-12, unmapped 12-13"),
        ("rw 10-14", "u 11-12", "split at 11, unmapped 11-12"),
        ("", "u 11-12", ""),
        ("rw 10-14", "p-r 11-12", "split at 11, split at 12, changed 11-12"),
        ("rw 8-10; r 10-14", "p-rw 10-12", "split at 12, changed 10-12, merged at 10"),
        ("rw 10-14", "p-rw 10-14", ""),
        ("rw 10-12", "mv 10-12 20", "mapped 20-22, moved 10-12, unmapped 10-12"),
        ("rw 10-12", "size 10-12 4", "mapped 12-14, merged at 12"),
        ("rw 10-14", "guard-install 11-12", "changed 10-14"),
        ("rw 10-14; guard-install 11-12", "guard-install 10-14", ""),
    ];
    for (before, call, expected) in cases {
        let plan = engine::after(&format!("{before};{call}")).plan;
        let page = |a: u64| (a - BASE) / PAGE;
        let step = |s: &Step| match s.kind {
            StepKind::Split => format!("split at {}", page(s.start)),
            StepKind::Merged => format!("merged at {}", page(s.start)),
            kind => format!("{kind:?} {}-{}", page(s.start), page(s.end)).to_lowercase(),
        };
        let told: Vec<String> = plan.iter().map(step).collect();
        assert_eq!(told.join(", "), expected, "{before}; then {call}");
    }
}
