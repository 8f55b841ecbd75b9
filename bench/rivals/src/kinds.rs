//! The maps that `index` measures, by name.

use crate::cases::{Case, Stage};
use crate::loaded::{Built, Loaded, Scene, Subject};
use crate::map::Map;
use crate::{churn, subjects};
use clap::ValueEnum;
use samara::search::{Level, force};

/// A map, and the way to build it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Kind {
    /// `samara::RangeMap`, built by insert.
    Samara,
    /// `samara::RangeMap`, bulk built.
    SamaraBulk,
    /// As `samara`, with small nodes (`samara::Compact`).
    SamaraCompact,
    /// As `samara`, with the search that needs no vectors.
    SamaraPortable,
    /// As `samara`, with 256-bit vectors at most.
    SamaraAvx2,
    /// As `samara`, with 512-bit vectors.
    SamaraAvx512,
    /// std's `BTreeMap`, built by insert.
    Btreemap,
    /// std's `BTreeMap`, bulk built.
    BtreemapBulk,
    /// `btree_range_map::RangeMap`.
    BtreeRangeMap,
    /// `rangemap::RangeMap`.
    Rangemap,
    /// `rangemap::RangeInclusiveMap`.
    RangemapInclusive,
    /// `nodit::NoditMap`.
    Nodit,
    /// `range_set_blaze::RangeMapBlaze`.
    RangeSetBlaze,
    /// `iset::IntervalMap`.
    Iset,
    /// `imbl::OrdMap`.
    Imbl,
    /// `brie_tree::BTree`.
    BrieTree,
    /// `bbtree::unsync::BBTreeMap`.
    Bbtree,
    /// `scc::TreeIndex`.
    Scc,
    /// `crossbeam_skiplist::SkipMap`.
    CrossbeamSkiplist,
    /// `congee::Congee`.
    Congee,
}

/// A map with a fixed search method.
struct Searched {
    level: Level,
    subject: Box<dyn Subject>,
}

impl Subject for Searched {
    fn time(&mut self, case: Case, scene: &Scene, round: u64, effort: usize) -> f64 {
        with_search(self.level, || self.subject.time(case, scene, round, effort))
    }
    fn churn(&mut self, scene: &Scene, replaces: usize) {
        with_search(self.level, || self.subject.churn(scene, replaces));
    }
    fn rest(&mut self) {
        self.subject.rest();
    }
}

/// Runs `work` with this search method, or the best lower one that the processor has.
fn with_search<T>(level: Level, work: impl FnOnce() -> T) -> T {
    force(level);
    let done = work();
    force(Level::Avx512);
    done
}

/// Runs `$body` with `$map` as the map's type.
macro_rules! with_map {
    ($kind:expr, $map:ident => $body:expr) => {
        match $kind {
            Kind::Samara | Kind::SamaraBulk | Kind::SamaraPortable | Kind::SamaraAvx2 | Kind::SamaraAvx512 => with_map!(@ $map, samara::RangeMap<u64, u64>, $body),
            Kind::SamaraCompact => with_map!(@ $map, samara::RangeMap<u64, u64, samara::Compact>, $body),
            Kind::Btreemap | Kind::BtreemapBulk => with_map!(@ $map, subjects::btreemap::Tree, $body),
            Kind::BtreeRangeMap => with_map!(@ $map, subjects::btree_range_map::Tree, $body),
            Kind::Rangemap => with_map!(@ $map, rangemap::RangeMap<u64, u64>, $body),
            Kind::RangemapInclusive => with_map!(@ $map, rangemap::RangeInclusiveMap<u64, u64>, $body),
            Kind::Nodit => with_map!(@ $map, subjects::nodit::Tree, $body),
            Kind::RangeSetBlaze => with_map!(@ $map, range_set_blaze::RangeMapBlaze<u64, u64>, $body),
            Kind::Iset => with_map!(@ $map, iset::IntervalMap<u64, u64>, $body),
            Kind::Imbl => with_map!(@ $map, subjects::imbl::Tree, $body),
            Kind::BrieTree => with_map!(@ $map, subjects::brie_tree::Tree, $body),
            Kind::Bbtree => with_map!(@ $map, subjects::bbtree::Tree, $body),
            Kind::Scc => with_map!(@ $map, subjects::scc::Tree, $body),
            Kind::CrossbeamSkiplist => with_map!(@ $map, subjects::crossbeam_skiplist::Tree, $body),
            Kind::Congee => with_map!(@ $map, subjects::congee::Tree, $body),
        }
    };
    (@ $map:ident, $type:ty, $body:expr) => {{
        type $map = $type;
        $body
    }};
}

impl Kind {
    /// The way to build its map.
    pub fn built(self) -> Built {
        if matches!(self, Kind::SamaraBulk | Kind::BtreemapBulk) { Built::Bulk } else { Built::Insert }
    }

    /// The search method for its nodes, if it is not the best one.
    pub fn search(self) -> Option<Level> {
        match self {
            Kind::SamaraPortable => Some(Level::Portable),
            Kind::SamaraAvx2 => Some(Level::Avx2),
            Kind::SamaraAvx512 => Some(Level::Avx512),
            _ => None,
        }
    }

    /// Whether it is a variant of samara, which is measured only if requested.
    pub fn is_variant(self) -> bool {
        self.search().is_some() || self == Kind::SamaraCompact
    }

    /// Whether the map has the operation, and no equal subject is measured: if the case builds or
    /// churns the map, the way in which the subject was built does not matter.
    pub fn does(self, case: Case) -> bool {
        let worn = case.stage() == Stage::Churned || case == Case::BytesPerRangeChurned;
        let builds = matches!(case, Case::Append | Case::RandomFill | Case::BulkBuild);
        let counts = matches!(case, Case::BytesPerRange | Case::BytesPerRangeChurned);
        if self.built() == Built::Bulk && (worn || builds) || self.search().is_some() && counts {
            return false;
        }
        with_map!(self, M => !M::LACKS.contains(&case))
    }

    /// Its map, filled.
    pub fn load(self, scene: &Scene) -> Box<dyn Subject> {
        let load = || -> Box<dyn Subject> { with_map!(self, M => Box::new(Loaded::<M>::new(scene, self.built()))) };
        match self.search() {
            None => load(),
            Some(level) => Box::new(Searched { level, subject: with_search(level, load) }),
        }
    }

    /// The bytes for each range that the map keeps after filling, and then after `churns` random
    /// replaces, as `measure` counts them.
    pub fn bytes(self, scene: &Scene, churns: usize, mut measure: impl FnMut(&mut dyn FnMut()) -> i64) -> [f64; 2] {
        with_map!(self, M => {
            let mut map = None;
            let filled = measure(&mut || map = Some(self.built().build::<M>(scene)));
            let mut map = map.expect("the map was built");
            let churned = filled + measure(&mut || churn::replaces(&mut map, scene, churns));
            map.assert_holds(&scene.data.items);
            [filled, churned].map(|bytes| bytes as f64 / scene.data.n() as f64)
        })
    }
}
