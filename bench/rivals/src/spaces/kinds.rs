//! The spaces that `spaces` measures, by name.

use crate::spaces::cases::Case;
use crate::spaces::loaded::{Loaded, Subject};
use crate::spaces::lookup_pinned::Yardstick;
use crate::spaces::space::Space;
use crate::spaces::{area_locks, rwlock, samara};
use clap::ValueEnum;
use samara_bench::data::Data;

/// A space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Kind {
    /// samara-mm's `SharedAddressSpace`.
    Samara,
    /// samara-mm's `AddressSpace` behind parking_lot's `RwLock`; the published design of Linux
    /// before 6.4.
    Rwlock,
    /// A lock for each area; the published design of Linux since 6.4.
    AreaLocks,
    /// `samara::SharedRangeMap` with the same ranges: the yardstick of `fault`.
    SamaraMap,
}

/// Runs `$space` with `$type` as the space's type, or `$yardstick` where it is none.
macro_rules! with_space {
    ($kind:expr, $type:ident => $space:expr, $yardstick:expr) => {
        match $kind {
            Kind::Samara => with_space!(@ $type, samara::Samara, $space),
            Kind::Rwlock => with_space!(@ $type, rwlock::Locked, $space),
            Kind::AreaLocks => with_space!(@ $type, area_locks::AreaLocks, $space),
            Kind::SamaraMap => $yardstick,
        }
    };
    (@ $type:ident, $of:ty, $body:expr) => {{
        type $type = $of;
        $body
    }};
}

impl Kind {
    /// Whether the subject can do this.
    pub fn does(self, case: Case) -> bool {
        let can_fork = |forks: &[_]| case.fork().is_none_or(|fork| forks.contains(&fork));
        with_space!(self, S => can_fork(<S as Space>::FORKS), case == Case::Fault)
    }

    /// Its space, filled.
    pub fn load(self, data: &Data) -> Box<dyn Subject> {
        with_space!(self, S => Box::new(Loaded(<S as Space>::filled(data))), Box::new(Yardstick::new(data)))
    }
}
