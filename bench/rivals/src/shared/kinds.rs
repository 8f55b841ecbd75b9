//! The maps that `shared` measures, by name.

use crate::loaded::Scene;
use crate::shared::cases::Case;
use crate::shared::loaded::{Exclusive, Shared, Subject};
use crate::shared::map::SharedMap;
use crate::shared::subjects;
use clap::ValueEnum;

/// A map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Kind {
    /// `samara::SharedRangeMap`, reclaimed by crossbeam-epoch.
    Samara,
    /// `samara::SharedRangeMap`, reclaimed by membarrier(2).
    SamaraMembarrier,
    /// `samara::RangeMap`, not shared.
    SamaraExclusive,
    /// std's `BTreeMap`, not shared.
    Btreemap,
    /// std's `BTreeMap` behind std's `RwLock`.
    RwlockBtreemap,
    /// std's `BTreeMap` behind parking_lot's `RwLock`.
    ParkingLotBtreemap,
    /// `imbl::OrdMap`; each write publishes a copy.
    ArcswapImbl,
    /// `samara::RangeMap`; each write publishes a snapshot.
    ArcswapSamara,
    /// `crossbeam_skiplist::SkipMap`.
    CrossbeamSkiplist,
    /// `scc::TreeIndex`.
    Scc,
    /// `bbtree::BBTreeMap`.
    Bbtree,
    /// `concread::bptree::BptreeMap`.
    Concread,
    /// `congee::Congee`.
    Congee,
    /// `papaya::HashMap` from numbers of slots: no range map, but a bound for what one can be.
    PapayaPoints,
}

/// Runs `$shared` with `$map` as the shared map's type, or `$exclusive` with the type of a map that
/// is not shared.
macro_rules! with_map {
    ($kind:expr, $map:ident => $shared:expr, $exclusive:expr) => {
        match $kind {
            Kind::Samara => with_map!(@ $map, subjects::samara::ByEpoch, $shared),
            Kind::SamaraMembarrier => with_map!(@ $map, subjects::samara::ByMembarrier, $shared),
            Kind::SamaraExclusive => with_map!(@ $map, samara::RangeMap<u64, u64>, $exclusive),
            Kind::Btreemap => with_map!(@ $map, crate::subjects::btreemap::Tree, $exclusive),
            Kind::RwlockBtreemap => with_map!(@ $map, subjects::locks::Std, $shared),
            Kind::ParkingLotBtreemap => with_map!(@ $map, subjects::locks::ParkingLot, $shared),
            Kind::ArcswapImbl => with_map!(@ $map, subjects::arcswap::Imbl, $shared),
            Kind::ArcswapSamara => with_map!(@ $map, subjects::arcswap::Samara, $shared),
            Kind::CrossbeamSkiplist => with_map!(@ $map, subjects::crossbeam_skiplist::Tree, $shared),
            Kind::Scc => with_map!(@ $map, subjects::scc::Tree, $shared),
            Kind::Bbtree => with_map!(@ $map, subjects::bbtree::Tree, $shared),
            Kind::Concread => with_map!(@ $map, subjects::concread::Tree, $shared),
            Kind::Congee => with_map!(@ $map, subjects::congee::Tree, $shared),
            Kind::PapayaPoints => with_map!(@ $map, subjects::papaya::Points, $shared),
        }
    };
    (@ $map:ident, $type:ty, $body:expr) => {{
        #[allow(dead_code)]
        type $map = $type;
        $body
    }};
}

impl Kind {
    /// Whether the map is samara's shared map.
    fn is_samara(self) -> bool {
        matches!(self, Kind::Samara | Kind::SamaraMembarrier)
    }

    /// Whether the map can do this.
    pub fn does(self, case: Case) -> bool {
        let exclusive = matches!(case, Case::LookupExclusive | Case::ReplaceExclusive);
        with_map!(self, M => !exclusive && !<M as SharedMap>::LACKS.contains(&case), exclusive)
    }

    /// Whether a replace of this map is atomic.
    pub fn is_whole(self) -> bool {
        with_map!(self, M => <M as SharedMap>::WHOLE, false)
    }

    /// Operations of one round over `n` ranges. samara's maps get many more lookups, which must all
    /// be right.
    pub fn effort(self, case: Case, n: usize, quick: bool) -> usize {
        match (case, quick) {
            (Case::FalseMisses, false) if self.is_samara() => 100_000_000,
            (Case::FalseMisses, true) if self.is_samara() => 1_000_000,
            _ => case.effort(n, quick),
        }
    }

    /// Its map, filled.
    pub fn load(self, scene: &Scene) -> Box<dyn Subject> {
        with_map!(self, M => Box::new(Shared(<M as SharedMap>::filled(&scene.data))), Box::new(Exclusive::<M>::new(scene)))
    }
}
