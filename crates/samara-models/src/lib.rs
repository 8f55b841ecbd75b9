//! Models of what threads do to the shared tree: loom runs each in every order of steps, and with
//! every value that a load may find, up to a number of preemptions.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p samara-models`, or `ci/models.sh`. Without
//! `--cfg loom` there is nothing here.
//!
//! - `stores`, `thin`, `several` and `reclaimed` run the real map, by its public interface: all
//!   files of the crate samara, with the atomics of its `shadow`, which also watches the nodes'
//!   memory. `scene` has the threads, `state` what they may see, and `reclaimers` when memory is
//!   used again.
//! - `epoch_domain` and `writer_gate` are the real files too, with loom's atomics: `retire` and
//!   `beside` go through them alone, further than a whole map would allow.
//! - `cursor`, `snapshot` and `words` have an abstract tree of two levels (`tree`): which pointer
//!   is stored when, and who frees. Its nodes lie in an arena, so that a protocol that is wrong
//!   frees what is looked at in the model, and not in the test.
//! - Each model says which weakenings make it fail. All were tried.
//!
//! LOOM_MAX_PREEMPTIONS sets the number of preemptions for all models that have one,
//! SAMARA_MODEL_SHAPES how many shapes `thin` draws, SAMARA_SEED from where on.
//!
//! What they do not know: loom has no membarrier(2), and no compiler's fences, so both barriers of
//! the domain are SeqCst fences here. A fence is more than a light barrier is: that the reader's
//! load of the epoch is an Acquire shows in no model, since the fence behind it is one too. Of the
//! real map they run the build without std, in shapes of three, five and seven slots. What `shadow`
//! does not see, its head says.
#![cfg_attr(not(loom), no_std)]
// The crate's files ask for its features.
#![allow(unexpected_cfgs)]

#[cfg(all(loom, test))]
extern crate alloc;

#[cfg(all(loom, test))]
mod beside;
#[cfg(all(loom, test))]
mod body;
#[cfg(all(loom, test))]
mod cursor;
#[cfg(all(loom, test))]
#[allow(dead_code, unreachable_pub)]
#[path = "../../samara/src/reclaim/epoch_domain.rs"]
mod epoch_domain;
#[cfg(all(loom, test))]
mod fences;
#[cfg(all(loom, test))]
mod reclaimed;
#[cfg(all(loom, test))]
mod reclaimers;
#[cfg(all(loom, test))]
#[allow(dead_code, unreachable_pub)]
#[path = "../../samara/src/shared/reentry.rs"]
mod reentry;
#[cfg(all(loom, test))]
mod retire;
#[cfg(all(loom, test))]
mod scene;
#[cfg(all(loom, test))]
mod several;
/// As the crate's files name one another.
#[cfg(all(loom, test))]
mod shared {
    pub(crate) use crate::reentry;
}
#[cfg(all(loom, test))]
mod snapshot;
#[cfg(all(loom, test))]
mod state;
#[cfg(all(loom, test))]
mod stores;
#[cfg(all(loom, test))]
mod sync;
#[cfg(all(loom, test))]
mod thin;
#[cfg(all(loom, test))]
mod tree;
#[cfg(all(loom, test))]
mod words;
#[cfg(all(loom, test))]
#[allow(dead_code, unreachable_pub)]
#[path = "../../samara/src/shared/writer_gate.rs"]
mod writer_gate;

#[cfg(all(not(loom), test))]
#[test]
fn models() {
    extern crate std;
    std::eprintln!("skipped: models: they need `--cfg loom`; ci/models.sh runs them");
}
