//! The spaces that `spaces` measures, by name.

use crate::spaces::cases::Case;
use crate::spaces::links::{How, Links};
use crate::spaces::loaded::{Loaded, Subject};
use crate::spaces::lookup_pinned::Yardstick;
use crate::spaces::space::Space;
use crate::spaces::{area_locks, rwlock, samara};
use clap::ValueEnum;
use samara_bench::data::Data;
use samara_mm::Sleep;
use samara_mm::files::ReverseMap;

/// A space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Kind {
    /// samara-mm's `SharedAddressSpace`.
    Samara,
    /// The same whose threads say that they apply plans [briefly](samara_mm::Caller::brief).
    SamaraBrief,
    /// samara-mm's `AddressSpace` behind parking_lot's `RwLock`; the published design of Linux
    /// before 6.4.
    Rwlock,
    /// A lock for each area; the published design of Linux since 6.4.
    AreaLocks,
    /// `samara::SharedRangeMap` with the same ranges: the yardstick of `fault`.
    SamaraMap,
    /// Samara's shared spaces with reverse maps, one acquisition for each file that a call changes.
    Links,
    /// The same with one acquisition for each area.
    LinksEachArea,
    /// As `links`, but a library is mapped by a call for each segment, as without an interface for
    /// images.
    LinksBySegments,
    /// One lock for each file's reverse map, and an acquisition for each area: the published design
    /// of Linux's `i_mmap`.
    LinksOneLock,
}

/// Runs `$space` with `$type` as the space's type, or `$yardstick` if it is no space. Kinds with
/// reverse maps were left out before.
macro_rules! with_space {
    ($kind:expr, $type:ident => $space:expr, $yardstick:expr) => {
        match $kind {
            Kind::Samara => with_space!(@ $type, samara::Samara, $space),
            Kind::SamaraBrief => with_space!(@ $type, samara::Samara<true>, $space),
            Kind::Rwlock => with_space!(@ $type, rwlock::Locked, $space),
            Kind::AreaLocks => with_space!(@ $type, area_locks::AreaLocks, $space),
            Kind::SamaraMap | Kind::Links | Kind::LinksEachArea | Kind::LinksBySegments | Kind::LinksOneLock => $yardstick,
        }
    };
    (@ $type:ident, $of:ty, $body:expr) => {{
        type $type = $of;
        $body
    }};
}

impl Kind {
    /// The way in which it links areas, if it does.
    fn links(self) -> Option<How> {
        let sharded = ReverseMap::<Sleep>::SHARDS;
        let how = |shards, batched| Some(How { shards, batched, images: true });
        match self {
            Kind::Links => how(sharded, true),
            Kind::LinksEachArea => how(sharded, false),
            Kind::LinksBySegments => Some(How { shards: sharded, batched: true, images: false }),
            Kind::LinksOneLock => how(1, false),
            _ => None,
        }
    }

    /// Whether the subject can do this.
    pub fn does(self, case: Case) -> bool {
        if case.links() || self.links().is_some() {
            // A map alone does not know the owners of the areas that it links. Only `image_map`
            // maps.
            let twice = match self {
                Kind::LinksEachArea => case == Case::RmapScaling,
                Kind::LinksBySegments => case != Case::ImageMap,
                _ => false,
            };
            return case.links() && self.links().is_some() && !twice;
        }
        let can_fork = |forks: &[_]| case.fork().is_none_or(|fork| forks.contains(&fork));
        with_space!(self, S => can_fork(<S as Space>::FORKS), case == Case::Fault)
    }

    /// Its space, filled.
    pub fn load(self, data: &Data) -> Box<dyn Subject> {
        if let Some(how) = self.links() {
            return Box::new(Links::new(data, how));
        }
        with_space!(self, S => Box::new(Loaded(<S as Space>::filled(data))), Box::new(Yardstick::new(data)))
    }
}
