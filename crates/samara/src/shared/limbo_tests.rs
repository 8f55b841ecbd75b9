//! Tests that a look for writers covers the right batches (LIMBO-2).

use super::*;
use crate::node::shape::Normal;
use crate::shared::deferred_drop::Returned;
use core::cell::Cell;

/// All stamps pass once the flag is set.
#[derive(Default)]
struct Flag(Cell<bool>);

// SAFETY: the test has no readers.
unsafe impl Reclaim for Flag {
    type Reader = ();
    type Guard = ();
    type Stamp = ();
    fn batch(&self) -> usize {
        1
    }
    fn reader(&self) {}
    fn pin(&self, (): &()) {}
    fn stamp(&self) {}
    fn has_passed(&self, (): &()) -> bool {
        self.0.get()
    }
}

type Leaves = NodePool<Leaf<u64, u64, Normal>>;
type Inners = NodePool<Inner<u64, Normal>>;

struct Scene {
    limbo: Limbo<u64, Flag>,
    reclaim: Flag,
    leaves: Leaves,
    inners: Inners,
    returned: Returned<u64, u64, Normal>,
}

impl Scene {
    fn new() -> Self {
        let limbo = Limbo::new(Leaf::<u64, u64, Normal>::BYTES, Inner::<u64, Normal>::BYTES);
        Scene {
            limbo,
            reclaim: Flag::default(),
            leaves: NodePool::new(),
            inners: NodePool::new(),
            returned: Returned::new(),
        }
    }

    /// A store takes out a node, to which writers may have come if `met`. It is a batch.
    fn take_out(&mut self, met: bool) {
        let node = self.inners.fresh().unwrap();
        self.limbo.log.reserve().unwrap();
        self.limbo.log.note(node.raw(), 1, Fate::Moved);
        self.limbo.met = met;
        self.collect(&[]);
    }

    /// Collects. `left[i]` answers the `i`th question whether writers have left; later questions
    /// are answered `false`. Returns the number of questions.
    fn collect(&mut self, left: &[bool]) -> usize {
        let Scene { limbo, reclaim, leaves, inners, returned } = self;
        let (mut asked, mut freed) = (0, Freed::new(returned));
        let have_left = |_: &mut Look| {
            asked += 1;
            left.get(asked - 1).copied().unwrap_or(false)
        };
        limbo.collect(reclaim, true, have_left, leaves, inners, &mut freed);
        asked
    }

    fn waiting(&self) -> usize {
        self.limbo.log.retired.len()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // SAFETY: there is no reader.
        unsafe { self.limbo.clear(&mut self.leaves, &mut self.inners) };
    }
}

#[test]
fn a_look_is_for_all_batches_that_are_there() {
    let mut scene = Scene::new();
    [true, false, true, true].into_iter().for_each(|met| scene.take_out(met));
    scene.reclaim.0.set(true);
    assert_eq!((scene.collect(&[false]), scene.waiting()), (1, 4), "a writer is inside");
    assert_eq!((scene.collect(&[true]), scene.waiting()), (1, 0), "one look is enough");
}

#[test]
fn a_look_is_not_for_batches_that_come_after_it_began() {
    let mut scene = Scene::new();
    [false, true].into_iter().for_each(|met| scene.take_out(met));
    scene.reclaim.0.set(true);
    assert_eq!((scene.collect(&[false]), scene.waiting()), (1, 1), "the look begins after a batch has left");
    scene.take_out(true);
    assert_eq!((scene.collect(&[true, false]), scene.waiting()), (2, 1), "the last batch needs a look of its own");
}
