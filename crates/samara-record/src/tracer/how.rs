//! The options that apply to a whole recording. Knows no tasks.

use crate::api::{Follow, Options, Running};

pub(super) struct How {
    /// Whether every call stops, because there is no filter.
    pub(super) every_call: bool,
    /// Whether the kernel may be asked by PROCMAP_QUERY.
    pub(super) query: bool,
    /// [`Options::patience`].
    pub(super) patience: Option<u64>,
    /// [`Options::resident`].
    pub(super) resident: bool,
    pub(super) follow: Follow,
}

impl Default for How {
    fn default() -> How {
        How { every_call: false, query: true, patience: None, resident: false, follow: Follow::All }
    }
}

impl How {
    pub(super) fn of(options: &Options) -> How {
        How {
            every_call: !options.seccomp,
            query: options.procmap_query,
            patience: options.patience,
            resident: options.resident,
            follow: options.follow.clone(),
        }
    }

    /// The options for a running process.
    pub(super) fn attached(running: &Running) -> How {
        How {
            every_call: true,
            query: running.procmap_query,
            patience: None,
            resident: running.resident,
            follow: running.follow.clone(),
        }
    }
}
