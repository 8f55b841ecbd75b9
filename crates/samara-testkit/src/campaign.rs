//! Runs many scripts from many seeds, and shrinks a script that fails before it shows it.
//!
//! Knows seeds, counts and the environment; [`run`] and [`run_shared`] do the rest. `SAMARA_SEED`
//! sets the first seed, `SAMARA_OPS` the number of operations of each campaign.

use crate::driver::{Difference, Stats, run};
use crate::key::TestKey;
use crate::op::{Op, script, script_shared};
use crate::shared_driver::{SharedOptions, run_shared};
use crate::universe::Universe;
use crate::value::Value;
use samara::{Reclaim, Shape, Span};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a campaign is.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// Shown with the count.
    pub name: &'static str,
    /// The keys.
    pub universe: Universe,
    /// Operations in all.
    pub ops: usize,
    /// Operations of one script; each script starts from an empty map.
    pub script: usize,
    /// Entries that the first operation of each script makes, if not 0, with keys that are pages:
    /// for a tree that is taller than random operations make it.
    pub filled: usize,
}

impl Campaign {
    fn script<K: TestKey>(&self, script: Scripts<K>, seed: u64, len: usize) -> Vec<Op<K>> {
        let mut ops = script(seed, self.universe, len);
        if self.filled > 0 {
            let page = |page: usize| K::from_u128((page as u128) << 12);
            let spans = (0..self.filled).map(|i| Span::new(page(2 * i), page(2 * i))).collect();
            ops[0] = Op::FromSorted { spans, tidy: false };
        }
        ops
    }
}

/// The number of operations that `SAMARA_OPS` asks each campaign for; else `usual`, and very little
/// under Miri.
pub fn ops_wanted(usual: usize) -> usize {
    if cfg!(miri) {
        return 40;
    }
    env("SAMARA_OPS").map_or(usual, |n| usize::try_from(n).unwrap_or(usize::MAX))
}

/// The first seed: from `SAMARA_SEED`, else from the clock (under Miri, which has none, always 1).
pub fn seed_wanted() -> u64 {
    if cfg!(miri) {
        return 1;
    }
    env("SAMARA_SEED").unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(1, |now| now.as_nanos() as u64 % 1_000_000_000)
    })
}

fn env(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a number, is {text:?}")))
}

/// Runs scripts until the campaign's operations are done; prints the first seed and the count.
///
/// # Panics
/// Where a script fails, with its seed and a small script that fails too.
pub fn campaign<K: TestKey, V: Value, S: Shape>(campaign: Campaign) -> Stats {
    scripts(campaign, script::<K>, &run::<K, V, S>)
}

/// The same with a shared map.
///
/// # Panics
/// As [`campaign`].
pub fn campaign_shared<K: TestKey, V: Value + Send + Sync, R: Reclaim, S: Shape>(
    campaign: Campaign,
    options: SharedOptions<R>,
) -> Stats {
    scripts(campaign, script_shared::<K>, &|ops| run_shared::<K, V, R, S>(options, ops))
}

/// Makes a script from a seed, with keys of a universe, of some length.
type Scripts<K> = fn(u64, Universe, usize) -> Vec<Op<K>>;

/// Runs a script.
type Runs<'a, K> = &'a dyn Fn(&[Op<K>]) -> Result<Stats, Difference>;

fn scripts<K: TestKey>(campaign: Campaign, script: Scripts<K>, run: Runs<'_, K>) -> Stats {
    let first = seed_wanted();
    let (mut total, mut seed) = (Stats::default(), first);
    while total.ops < campaign.ops as u64 {
        let len = campaign.script.min(campaign.ops - total.ops as usize);
        match attempt(run, &campaign.script(script, seed, len)) {
            Ok(stats) => {
                total.ops += stats.ops;
                total.peak = total.peak.max(stats.peak);
                total.displaced += stats.displaced;
                total.gaps_found += stats.gaps_found;
                total.shown_after_change += stats.shown_after_change;
            }
            Err(found) => {
                let (ops, last) = shrunk(run, campaign.script(script, seed, len), found.clone());
                panic!(
                    "{}: SAMARA_SEED={seed} fails: {found}\nand so does this script of {} operations ({last}):\n{ops:#?}",
                    campaign.name,
                    ops.len()
                );
            }
        }
        seed = seed.wrapping_add(1);
    }
    println!(
        "samara-ops {} {} (first seed {first}, {} entries at most, {} displaced, {} gaps found, {} shown after changes)",
        total.ops, campaign.name, total.peak, total.displaced, total.gaps_found, total.shown_after_change
    );
    total
}

/// Runs a script, and reports a panic as a difference.
fn attempt<K: TestKey>(run: Runs<'_, K>, ops: &[Op<K>]) -> Result<Stats, Difference> {
    catch_unwind(AssertUnwindSafe(|| run(ops))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned())).unwrap_or_default();
        Err(Difference { index: ops.len().saturating_sub(1), what: format!("panicked: {text}") })
    })
}

/// Leaves out operations that the failure does not need: those after it, then ever smaller pieces.
fn shrunk<K: TestKey>(run: Runs<'_, K>, mut ops: Vec<Op<K>>, found: Difference) -> (Vec<Op<K>>, Difference) {
    // Each attempt may panic: its message would come every time.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    ops.truncate(found.index + 1);
    let mut last = found;
    let mut piece = ops.len().div_ceil(2);
    let mut budget = 3000;
    while piece > 0 && budget > 0 {
        let mut at = 0;
        let mut smaller = false;
        while at < ops.len() && budget > 0 {
            budget -= 1;
            let mut fewer = ops.clone();
            fewer.drain(at..(at + piece).min(ops.len()));
            match attempt(run, &fewer) {
                Ok(_) => at += piece,
                Err(difference) => {
                    fewer.truncate(difference.index + 1);
                    (ops, last, smaller) = (fewer, difference, true);
                }
            }
        }
        piece = if smaller && piece == 1 { 1 } else { piece / 2 };
    }
    std::panic::set_hook(hook);
    (ops, last)
}
