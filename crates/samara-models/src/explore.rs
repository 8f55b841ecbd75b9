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
    /// Interleavings whose ends were not explored, since then.
    static CUT: Cell<usize> = const { Cell::new(0) };
    /// Whether the one that runs is among them.
    static IS_CUT: Cell<bool> = const { Cell::new(false) };
}

/// Looks of a thread that waits until another one has changed something. A look only loads.
///
/// Where a thread yields, loom lets any other one run, and counts no preemption. So two threads
/// that wait could take turns for ever, and the one that they wait for would never run. What comes
/// after a second look in vain is therefore run once, and not explored: every order of it is
/// explored without that look too. For others nothing is different without it; the thread has seen
/// less, so its next look may find whatever it could find, and less is ordered before what follows.
/// No preemption is added, since the look before it ends in a yield as well.
#[derive(Default)]
pub(crate) struct Looks {
    in_vain: usize,
}

impl Looks {
    /// Lets other threads run before the next look.
    pub(crate) fn look_again(&mut self) {
        self.in_vain += 1;
        if self.in_vain == 2 {
            loom::skip_branch();
            IS_CUT.set(true);
        }
        loom::thread::yield_now();
    }
}

/// LOOM_MAX_PREEMPTIONS.
fn raised() -> usize {
    loom::model::Builder::new().preemption_bound.unwrap_or(0)
}

/// The limit of preemptions: the model's, or LOOM_MAX_PREEMPTIONS where that is more.
fn bound(preemptions: Option<usize>) -> Option<usize> {
    preemptions.map(|few| few.max(raised()))
}

/// Runs the model in all interleavings with at most this many preemptions, or in all. Returns their
/// number.
pub(crate) fn explore(preemptions: impl Into<Option<usize>>, run: impl Fn() + Sync + Send + 'static) -> usize {
    explore_within(bound(preemptions.into()), run)
}

fn explore_within(limit: Option<usize>, run: impl Fn() + Sync + Send + 'static) -> usize {
    // A counter of the test's, not one of loom's atomics.
    let interleavings = Arc::new(Count::new(0));
    let count = interleavings.clone();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = limit;
    builder.max_branches = builder.max_branches.max(20_000);
    let start = Instant::now();
    builder.check(move || {
        count.fetch_add(1, Relaxed);
        run();
        CUT.set(CUT.get() + usize::from(IS_CUT.take()));
    });
    SPENT.set(SPENT.get() + start.elapsed());
    interleavings.load(Relaxed)
}

/// Prints how many interleavings a model had; `ci/models.sh` reads that.
pub(crate) fn report(name: &str, interleavings: usize, preemptions: Option<usize>) {
    report_within(name, interleavings, bound(preemptions));
}

fn report_within(name: &str, interleavings: usize, limit: Option<usize>) {
    let (seconds, cut) = (SPENT.take().as_secs_f32(), CUT.take());
    let limit = limit.map_or("which are all".into(), |most| format!("with {most} preemptions at most"));
    let whole = interleavings - cut; // see `Looks`
    let and_cut = if cut > 0 { format!(", and {cut} cut short") } else { String::new() };
    println!("model {name}: {whole} interleavings, {limit}{and_cut}, in {seconds:.1} s");
    assert!(whole > 10, "too few interleavings to prove anything");
}

/// Runs the model in all interleavings, or in those with at most this many preemptions, and prints
/// their number.
pub(crate) fn model(name: &str, preemptions: Option<usize>, run: impl Fn() + Sync + Send + 'static) {
    report(name, explore(preemptions, run), preemptions);
}

/// As [`model`], but LOOM_MAX_PREEMPTIONS raises the number to `most` and no further: for a model
/// that a long campaign would not finish with more.
pub(crate) fn model_up_to(name: &str, preemptions: usize, most: usize, run: impl Fn() + Sync + Send + 'static) {
    let limit = Some(preemptions.max(raised().min(most)));
    report_within(name, explore_within(limit, run), limit);
}
