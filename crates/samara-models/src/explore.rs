//! Runs models: how far loom explores, and the barriers that the domain has in the models.

use crate::epoch_domain::{Barriers, Domain};
use crate::sync::{AtomicUsize, Ordering, fence};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize as Count, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Both barriers are fences: loom cannot model membarrier(2). Loom switches threads at accesses,
/// not at fences. So an access comes before each fence, and other threads can run between the fence
/// and what precedes it. The access is Relaxed: it orders nothing that the fences do not.
pub(crate) struct Fences {
    step: AtomicUsize,
}

// SAFETY: two SeqCst fences.
unsafe impl Barriers for Fences {
    fn light(&self) {
        self.step.load(Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    fn heavy(&self) -> bool {
        self.step.store(0, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        true
    }
}

pub(crate) fn domain() -> Domain<Fences> {
    Domain::new(Fences { step: AtomicUsize::new(0) })
}

thread_local! {
    /// Time spent since this thread last reported a model.
    static SPENT: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// The limit of preemptions: the model's, or LOOM_MAX_PREEMPTIONS where that is more.
fn bound(preemptions: Option<usize>) -> Option<usize> {
    let raised = loom::model::Builder::new().preemption_bound.unwrap_or(0);
    preemptions.map(|most| most.max(raised))
}

/// Runs the model in all interleavings with at most this many preemptions, or in all. Returns their
/// number.
pub(crate) fn explore(preemptions: impl Into<Option<usize>>, run: impl Fn() + Sync + Send + 'static) -> usize {
    // A counter of the test's, not one of loom's atomics.
    let interleavings = Arc::new(Count::new(0));
    let count = interleavings.clone();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = bound(preemptions.into());
    builder.max_branches = builder.max_branches.max(20_000);
    let start = Instant::now();
    builder.check(move || {
        count.fetch_add(1, Relaxed);
        run();
    });
    SPENT.set(SPENT.get() + start.elapsed());
    interleavings.load(Relaxed)
}

/// Prints how many interleavings a model had; `ci/models.sh` reads that.
pub(crate) fn report(name: &str, interleavings: usize, preemptions: Option<usize>) {
    let seconds = SPENT.take().as_secs_f32();
    match bound(preemptions) {
        None => println!("model {name}: {interleavings} interleavings, which are all, in {seconds:.1} s"),
        Some(most) => {
            println!("model {name}: {interleavings} interleavings, with {most} preemptions at most, in {seconds:.1} s")
        }
    }
    assert!(interleavings > 10, "too few interleavings to prove anything");
}

/// Runs the model in all interleavings, or in those with at most this many preemptions, and prints
/// their number.
pub(crate) fn model(name: &str, preemptions: Option<usize>, run: impl Fn() + Sync + Send + 'static) {
    report(name, explore(preemptions, run), preemptions);
}
