//! Models of threads that share a tree. Loom runs each model in every interleaving, and with every
//! value that a load may return, up to a number of preemptions.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p samara-models`, or `ci/models.sh`. Without
//! `--cfg loom` there is nothing here.
//!
//! - `one_writer`, `several_writers`, `every_pair`, `thin_nodes` and `reclamation` run the real map
//!   through its public interface: all files of the crate samara, with the atomics of its `shadow`,
//!   which also watches the nodes' memory. `scene` has the threads, `history` what they may see,
//!   and `reclaimers` when memory is reused.
//! - `epoch_domain`, `writer_gate` (both with `try_box`) and `owners` are the real files too, with
//!   loom's atomics. `retired_nodes`, `gate` and `snapshot` use them without a map, which allows
//!   more preemptions. So are these of samara-mm:
//!   `fault_gate` (for `faults` and `forks`), `instant` (`instants`), `range_lock` (`range_locks`,
//!   `forks`, `leaf_updates` and `reverse_maps`), `sleepers` (`range_locks`), `wait`, `link_plan`
//!   and all of `files` (`reverse_maps`). `loom_wait` has the locks that these ask for, and
//!   `held_range` waits for a range lock.
//! - `cursor_restart` and `retired_nodes` have an abstract tree of two levels (`tree`); `snapshot`
//!   and `gap_words` have nodes of their own. They model which pointer is stored when, and which
//!   thread frees a node. The nodes lie in an arena: a wrong protocol frees a node of the model,
//!   not memory of the test.
//! - Each model says which weakenings make it fail. All were tried.
//!
//! LOOM_MAX_PREEMPTIONS raises the number of preemptions of all models that have a lower limit; of
//! range locks of three threads (`model_up_to`) to two at most.
//! SAMARA_MODEL_SHAPES sets how many shapes `thin_nodes` draws, SAMARA_SEED the first of them, and
//! SAMARA_MODEL_ENTRIES how many entries the trees of `every_pair` have at most.
//!
//! Limits: loom remembers only the last access to each word. Where a thread loads a word and then
//! stores to it, loom misses orders in which the store comes before an earlier load of another
//! thread; `load_own`, `count_up` and the crate's `own_child` go around that. What is left: the
//! owner counts of the real map, the hint in `epoch_domain::take`, `OnceBox`, the room of `Shard`,
//! and loads of another thread that came before the store by way of other words. The memory of a
//! slab's head is not watched, so the orderings of `slab` are not tried. Loom has no membarrier(2)
//! and no compiler fences, so both barriers of the domain are SeqCst fences here. A fence is
//! stronger than a light barrier: no model shows that the reader's load of the epoch must be an
//! Acquire, since the fence after it is one too. The models run the real map as it builds without
//! std, in shapes of three, five and seven slots. The head of `shadow` says what that module cannot
//! see.
#![cfg_attr(not(loom), no_std)]
// The crate's files test for its features.
#![allow(unexpected_cfgs)]

#[cfg(all(loom, test))]
extern crate alloc;

#[cfg(all(loom, test))]
mod cursor_restart;
#[cfg(all(loom, test))]
#[allow(dead_code, unreachable_pub)]
#[path = "../../samara/src/reclaim/epoch_domain.rs"]
mod epoch_domain;
#[cfg(all(loom, test))]
mod every_pair;
#[cfg(all(loom, test))]
mod explore;
#[cfg(all(loom, test))]
#[allow(dead_code, unreachable_pub)]
#[path = "../../samara-mm/src/shared/fault_gate.rs"]
mod fault_gate;
#[cfg(all(loom, test))]
mod faults;
#[cfg(all(loom, test))]
#[allow(dead_code, unreachable_pub, unused_imports)]
#[path = "../../samara-mm/src/files/mod.rs"]
mod files;
#[cfg(all(loom, test))]
mod forks;
#[cfg(all(loom, test))]
mod gate;
#[cfg(all(loom, test))]
mod held_range;
#[cfg(all(loom, test))]
#[allow(dead_code, unreachable_pub)]
#[path = "../../samara-mm/src/shared/instant.rs"]
mod instant;
#[cfg(all(loom, test))]
mod instants;
#[cfg(all(loom, test))]
mod leaf_updates;
#[cfg(all(loom, test))]
#[allow(dead_code, unreachable_pub)]
#[path = "../../samara-mm/src/shared/link_plan.rs"]
mod link_plan;
#[cfg(all(loom, test))]
mod loom_wait;
#[cfg(all(loom, test))]
mod node_body;
#[cfg(all(loom, test))]
#[allow(dead_code, unreachable_pub)]
#[path = "../../samara/src/tree/owners.rs"]
mod owners;
#[cfg(all(loom, test))]
#[allow(dead_code, unreachable_pub)]
#[path = "../../samara-mm/src/shared/range_lock.rs"]
mod range_lock;
#[cfg(all(loom, test))]
mod range_locks;
#[cfg(all(loom, test))]
mod reclaimers;
#[cfg(all(loom, test))]
mod reclamation;
#[cfg(all(loom, test))]
#[allow(dead_code, unreachable_pub)]
#[path = "../../samara/src/shared/reentry.rs"]
mod reentry;
#[cfg(all(loom, test))]
mod retired_nodes;
#[cfg(all(loom, test))]
mod reverse_maps;
#[cfg(all(loom, test))]
mod scene;
#[cfg(all(loom, test))]
mod several_writers;
#[cfg(all(loom, test))]
#[allow(dead_code, unreachable_pub)]
#[path = "../../samara-mm/src/shared/sleepers.rs"]
mod sleepers;
/// The paths by which the crates' files name these modules.
#[cfg(all(loom, test))]
mod shared {
    pub(crate) use crate::{range_lock, reentry, sync, wait};
}
#[cfg(all(loom, test))]
mod types {
    pub(crate) use crate::try_box;
    pub(crate) mod error {
        #[derive(Debug)]
        pub(crate) struct AllocError;
    }
}
#[cfg(all(loom, test))]
mod gap_words;
#[cfg(all(loom, test))]
mod history;
#[cfg(all(loom, test))]
mod one_writer;
#[cfg(all(loom, test))]
mod parents;
#[cfg(all(loom, test))]
mod snapshot;
#[cfg(all(loom, test))]
mod sync;
#[cfg(all(loom, test))]
mod thin_nodes;
#[cfg(all(loom, test))]
mod tree;
#[cfg(all(loom, test))]
#[allow(dead_code, unreachable_pub)]
#[path = "../../samara/src/types/try_box.rs"]
mod try_box;
#[cfg(all(loom, test))]
#[allow(dead_code, unreachable_pub)]
#[path = "../../samara-mm/src/shared/wait.rs"]
mod wait;
#[cfg(all(loom, test))]
#[allow(dead_code, unreachable_pub)]
#[path = "../../samara/src/shared/writer_gate.rs"]
mod writer_gate;

#[cfg(all(not(loom), test))]
#[test]
fn models() {
    extern crate std;
    use std::io::Write;
    // Not `eprintln!`, which libtest captures.
    let _ = std::io::stderr().write_all(b"\nskipped: models: they need `--cfg loom`; ci/models.sh runs them\n");
}
