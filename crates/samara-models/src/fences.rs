//! The barriers of the domain in the models, and how far loom goes.

use crate::domain::{Barriers, Domain};
use crate::sync::{AtomicUsize, Ordering, fence};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize as Count, Ordering::Relaxed};

/// Both barriers are fences: loom cannot model membarrier(2). Loom changes threads at accesses, not at fences: hence an access before each, so that
/// others may come in between a fence and what is before it. Relaxed: it orders nothing that the fences do not.
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

/// Runs the model in every way, or in every way that needs no more than so many preemptions, and says how many ways that was.
pub(crate) fn model(name: &str, preemptions: Option<usize>, run: impl Fn() + Sync + Send + 'static) {
    // The test's own, not the model's.
    let ways = Arc::new(Count::new(0));
    let count = ways.clone();
    let mut builder = loom::model::Builder::new();
    // LOOM_MAX_PREEMPTIONS comes first.
    builder.preemption_bound = builder.preemption_bound.or(preemptions);
    builder.check(move || {
        count.fetch_add(1, Relaxed);
        run();
    });
    let ways = ways.load(Relaxed);
    match builder.preemption_bound {
        None => println!("model {name}: {ways} ways, which are all"),
        Some(most) => println!("model {name}: {ways} ways, with {most} preemptions at most"),
    }
    assert!(ways > 100, "a model that has little to say");
}
