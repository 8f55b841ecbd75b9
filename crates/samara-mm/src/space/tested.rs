//! Which releases were compared with a kernel. Knows no rule.

use core::fmt::{self, Display};

use super::features::Features;

/// Whether the rules of a release were compared with a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tested {
    /// Its release lies between the first and the last that were compared: 5.10 to 7.3.
    Within,
    /// It is later.
    Newer,
    /// It is earlier.
    Older,
}

impl Display for Tested {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Tested::Within => "tested",
            Tested::Newer => "newer than tested",
            Tested::Older => "older than tested",
        })
    }
}

impl Tested {
    /// The first release whose rules were compared with a kernel.
    pub const FIRST: (u32, u32) = (5, 10);
    /// The last one.
    pub const LAST: (u32, u32) = (7, 3);

    /// Of a release, as `uname -r` prints it.
    ///
    /// ```
    /// use samara_mm::Tested;
    /// let tested = ["5.4.0-42-generic", "6.8.0-45-generic", "8.0-rc1", ""].map(Tested::of);
    /// assert_eq!(tested, [Tested::Older, Tested::Within, Tested::Newer, Tested::Older]);
    /// ```
    pub fn of(release: &str) -> Tested {
        let [major, minor, _] = Features::numbers_of(release);
        match (major, minor) {
            number if number < Tested::FIRST => Tested::Older,
            number if number > Tested::LAST => Tested::Newer,
            _ => Tested::Within,
        }
    }
}
