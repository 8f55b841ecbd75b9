//! The names of features, as traces and reports have them. Knows no release.

use alloc::string::String;
use alloc::vec::Vec;

use super::features::Features;

impl Features {
    /// The names of these features, in the order of their bits.
    ///
    /// ```
    /// use samara_mm::Features;
    /// assert_eq!((Features::MOVE_MANY | Features::GUARD_PAGES).names(), ["guard-pages", "move-many"]);
    /// ```
    pub fn names(self) -> Vec<String> {
        self.iter_names().map(|(name, _)| name.to_lowercase().replace('_', "-")).collect()
    }

    /// The features that a list of [`names`](Features::names) has, with commas between them. Names
    /// of a later version are passed over.
    ///
    /// ```
    /// use samara_mm::Features;
    /// let both = Features::MOVE_MANY | Features::GUARD_PAGES;
    /// assert_eq!(Features::named("guard-pages,of-a-later-version,move-many"), both);
    /// ```
    pub fn named(list: &str) -> Features {
        let name = |name: &str| Features::from_name(&name.to_uppercase().replace('-', "_"));
        list.split(',').filter_map(name).collect()
    }
}
