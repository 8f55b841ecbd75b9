//! Models of what threads do to the shared tree: loom runs each in every order of steps, and with every value that a load may find, up to
//! a number of preemptions.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p samara-models`, or `ci/models.sh`. Without `--cfg loom` there is nothing here.
//!
//! - `domain` and `seats` are the real files of the crate samara, with loom's atomics.
//! - The tree is an abstract one, of two levels (`tree`): which pointer is stored when, and who frees. Its nodes lie in an arena, so that a protocol that is wrong
//!   frees what is looked at in the model, and not in the test.
//! - Each model says which weakenings make it fail. All were tried.
//!
//! What they do not know: loom has no membarrier(2), and no compiler's fences, so both barriers of the domain are SeqCst fences here. A fence is more than a light
//! barrier is: that the reader's load of the epoch is an Acquire shows in no model, since the fence behind it is one too.
#![cfg_attr(not(loom), no_std)]

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
#[path = "../../samara/src/domain.rs"]
mod domain;
#[cfg(all(loom, test))]
mod fences;
#[cfg(all(loom, test))]
mod publish;
#[cfg(all(loom, test))]
#[allow(dead_code, unreachable_pub)]
#[path = "../../samara/src/reentry.rs"]
mod reentry;
#[cfg(all(loom, test))]
mod retire;
#[cfg(all(loom, test))]
#[allow(dead_code, unreachable_pub)]
#[path = "../../samara/src/seats.rs"]
mod seats;
#[cfg(all(loom, test))]
mod snapshot;
#[cfg(all(loom, test))]
mod sync;
#[cfg(all(loom, test))]
mod tree;
#[cfg(all(loom, test))]
mod words;

#[cfg(all(not(loom), test))]
#[test]
fn models() {
    extern crate std;
    std::eprintln!("skipped: models: they need `--cfg loom`; ci/models.sh runs them");
}
