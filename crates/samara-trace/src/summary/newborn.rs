//! Finds children that load a program before any other call: until then, their areas are those of
//! their parent. Knows no areas.

use std::collections::HashSet;

use crate::event::{Event, EventKind};

/// Maximum number of remembered children.
const MOST: usize = 4096;

/// Children that have made no call yet.
#[derive(Clone, Debug, Default)]
pub struct Newborn(HashSet<u32>);

impl Newborn {
    /// Takes the next event of a trace. True: it loads a program in a child that has made no call
    /// since its birth, so the areas before it were its parent's.
    ///
    /// # Examples
    /// ```
    /// use samara_trace::event::{Event, EventKind};
    /// use samara_trace::summary::Newborn;
    /// let event = |seq, kind| Event { pid: 7, ..Event::new(seq, kind) };
    /// let mut newborn = Newborn::default();
    /// assert!(!newborn.loads(&event(0, EventKind::Fork)));
    /// assert!(newborn.loads(&event(1, EventKind::Exec)));
    /// assert!(!newborn.loads(&event(2, EventKind::Exec)));
    /// ```
    pub fn loads(&mut self, event: &Event) -> bool {
        let acts = event.kind == EventKind::Exec || event.nr.is_some();
        let only_inherits = acts && self.0.remove(&event.pid);
        if matches!(event.kind, EventKind::Fork | EventKind::Share) && self.0.len() < MOST {
            self.0.insert(event.pid);
        }
        only_inherits && event.kind == EventKind::Exec
    }
}
