//! Runs a model that sees no writes against the kernel. Where their areas differ, the model must be
//! able to learn the kernel's. Knows nothing of why areas are as they are.

use crate::compare::{Difference, Sides, Verdict};
use crate::model::Model;
use samara_mm::{Backing, Flags, NotLearnable, Object, Touches};
use samara_probe::child::{Ended, QueriedArea, Scope};
use samara_probe::op::Op;
use samara_probe::print::{areas, returned};
use samara_probe::proc::vm_flags;
use std::io;

/// As `Sides::differ`.
pub(crate) fn differ(sides: &mut Sides, ops: &[Op]) -> io::Result<Verdict> {
    let start = sides.start(Scope::Window)?;
    let out = sides.kernel.run(ops, Scope::Window)?;
    let mut model = Model::new(&start, Touches::Unseen, ops.first());
    for (at, (op, (ret, kernel))) in ops.iter().zip(out.frames().1).enumerate() {
        let mut kernel: Vec<QueriedArea> = kernel.collect();
        if let Op::Write(_) = op {
            // All that a write can change is a stack's start.
            for k in &kernel {
                if let Some(a) = model.space.area_at(k.end - 1).filter(|a| a.start > k.start && a.end <= k.end) {
                    let at = a.start;
                    let _ = model.space.grow_down(at, k.start); // or it shows below
                }
            }
        } else {
            match model.step(*op) {
                Some(answer) if answer == ret => {}
                Some(answer) => {
                    let (kernel, model) = (returned(ret), returned(answer));
                    return Ok(Verdict::Differ(Difference { at, kernel, model }));
                }
                None => return Ok(Verdict::Unknowable),
            }
        }
        kernel.iter_mut().for_each(|k| mask(&model, k));
        let before = seen(&model);
        let learnt = learn(&mut model, &kernel);
        let checked = model.space.check();
        if seen(&model) != kernel || checked.is_err() {
            let kernel = areas(&kernel, &before);
            let model = format!("{}, then {}: {learnt:?} {checked:?}", areas(&before, &[]), areas(&seen(&model), &[]));
            return Ok(Verdict::Differ(Difference { at, kernel, model }));
        }
    }
    if out.ended != Ended::Done {
        let (at, kernel, model) = (out.done, format!("{:?}", out.ended), "the end".to_owned());
        return Ok(Verdict::Differ(Difference { at, kernel, model }));
    }
    // A move of several areas may join two of them and part them again. If it did, the mark of
    // guard pages stays on both. The areas do not show which it was.
    let moves = |op: &Op| matches!(op, Op::Call(libc::SYS_mremap, [.., flags, _, _]) if flags & 2 != 0);
    let hidden = if ops.iter().any(moves) { Flags::ACCOUNT | Flags::MAYBE_GUARD } else { Flags::ACCOUNT };
    let known = |f: Flags| f - hidden;
    let theirs = vm_flags(&out.smaps());
    let of = |start: u64| theirs.iter().find(|k| k.0 == start).map(|k| known(k.1));
    let differs = model.flags().find(|(start, flags)| of(*start) != Some(known(*flags)));
    Ok(differs.map_or(Verdict::Agree, |(start, flags)| {
        let (kernel, model) = (format!("{start:x}: {:?}", of(start)), flags.letters().to_string());
        Verdict::Differ(Difference { at: ops.len(), kernel, model })
    }))
}

fn seen(model: &Model) -> Vec<QueriedArea> {
    let mut areas: Vec<QueriedArea> = model.seen(Scope::Window).collect();
    areas.iter_mut().for_each(|a| mask(model, a));
    areas
}

/// Where a map of /dev/zero moved, its offset tells whether it was written; the model does not
/// look.
fn mask(model: &Model, seen: &mut QueriedArea) {
    let at = model.space.area_at(seen.start);
    if at.is_some_and(|a| matches!(&a.area.object, Object::File(file) if file.is_zero())) {
        seen.offset = 0;
    }
}

fn learn(model: &mut Model, kernel: &[QueriedArea]) -> Result<(), NotLearnable> {
    let inside = |k: &[QueriedArea], x: u64| k.iter().any(|a| a.start < x && x < a.end);
    // Joins come first: a new map may have joined the other neighbour, and by it alone no boundary
    // can be learnt.
    for a in seen(model) {
        if inside(kernel, a.start) {
            model.space.learn_join(a.start)?;
        }
    }
    for pair in kernel.windows(2).filter(|p| p[0].end == p[1].start) {
        if inside(&seen(model), pair[1].start) {
            model.space.learn_cut(pair[1].start)?;
        }
    }
    Ok(())
}
