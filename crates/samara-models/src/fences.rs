//! The barriers of the domain in the models, and how far loom goes.

use crate::epoch_domain::{Barriers, Domain};
use crate::sync::{AtomicUsize, Ordering, fence};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize as Count, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Both barriers are fences: loom cannot model membarrier(2). Loom changes threads at accesses, not
/// at fences: hence an access before each, so that others may come in between a fence and what is
/// before it. Relaxed: it orders nothing that the fences do not.
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
    /// Since the last model of this thread was told of.
    static SPENT: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Runs the model in every way that needs no more than so many preemptions, or in every way. How
/// many ways that was.
pub(crate) fn explore(preemptions: impl Into<Option<usize>>, run: impl Fn() + Sync + Send + 'static) -> usize {
    // The test's own, not the model's.
    let ways = Arc::new(Count::new(0));
    let count = ways.clone();
    let mut builder = loom::model::Builder::new();
    // LOOM_MAX_PREEMPTIONS comes first.
    builder.preemption_bound = builder.preemption_bound.or(preemptions.into());
    builder.max_branches = builder.max_branches.max(20_000);
    let start = Instant::now();
    builder.check(move || {
        count.fetch_add(1, Relaxed);
        run();
    });
    SPENT.set(SPENT.get() + start.elapsed());
    ways.load(Relaxed)
}

/// Says how far a model went.
pub(crate) fn tell(name: &str, ways: usize, preemptions: Option<usize>) {
    let seconds = SPENT.take().as_secs_f32();
    match loom::model::Builder::new().preemption_bound.or(preemptions) {
        None => println!("model {name}: {ways} ways, which are all, in {seconds:.1} s"),
        Some(most) => println!("model {name}: {ways} ways, with {most} preemptions at most, in {seconds:.1} s"),
    }
    assert!(ways > 10, "a model that has little to say");
}

/// Runs the model in every way, or in every way that needs no more than so many preemptions, and
/// says how many ways that was.
pub(crate) fn model(name: &str, preemptions: Option<usize>, run: impl Fn() + Sync + Send + 'static) {
    tell(name, explore(preemptions, run), preemptions);
}
