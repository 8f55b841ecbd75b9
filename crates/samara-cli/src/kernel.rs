//! The kernel of a recording, and the rules that the recorder assumed for it: as words and as JSON.

use samara_mm::{Features, Tested};
use samara_oracle::Profile;
use samara_trace::file::Header;
use serde_json::{Value, json};

use crate::format::plural;
use crate::output::clean;

/// A kernel, as a header or the running one describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kernel<'a> {
    pub(crate) release: &'a str,
    /// Empty for older traces.
    pub(crate) profile: &'a str,
    /// Rules that were taken from its release number, not probed.
    pub(crate) presumed: Features,
}

impl<'a> Kernel<'a> {
    pub(crate) fn of(header: &'a Header) -> Kernel<'a> {
        Kernel { release: &header.kernel, profile: &header.profile, presumed: header.presumed }
    }

    /// A kernel that was probed; `text` is the profile's name.
    pub(crate) fn asked(profile: &'a Profile, text: &'a str) -> Kernel<'a> {
        Kernel { release: &profile.release, profile: text, presumed: profile.presumed }
    }

    /// `Linux 7.4.1, newer than tested, profile 7.3 -guard-mark`.
    pub(crate) fn words(&self) -> String {
        let tested = match Tested::of(self.release) {
            Tested::Within => String::new(),
            other => format!(", {other}"),
        };
        let profile =
            if self.profile.is_empty() { String::new() } else { format!(", profile {}", clean(self.profile)) };
        format!("Linux {}{tested}{profile}", clean(self.release))
    }

    /// The same, with the number of rules that were not probed.
    pub(crate) fn row(&self) -> String {
        let presumed = match self.presumed.iter().count() as u64 {
            0 => String::new(),
            n => format!(" ({} taken from the version, the others tested on this kernel)", plural(n, "rule")),
        };
        self.words() + &presumed
    }

    /// The fields of an object.
    pub(crate) fn json(&self) -> Value {
        json!({
            "kernel": self.release,
            "profile": (!self.profile.is_empty()).then_some(self.profile),
            "tested": Tested::of(self.release).to_string(),
            "presumed": self.presumed.names(),
        })
    }
}

/// The fields, also for an unknown kernel.
pub(crate) fn json(kernel: Option<Kernel<'_>>) -> Value {
    let none = || json!({"kernel": null, "profile": null, "tested": null, "presumed": []});
    kernel.map_or_else(none, |kernel| kernel.json())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_named_and_placed() {
        let presumed = Features::REMAP_NEEDS_FOUR | Features::UFFD_OWNER_ONLY;
        let newer = Kernel { release: "7.4.1", profile: "7.3 -guard-mark", presumed };
        assert_eq!(newer.words(), "Linux 7.4.1, newer than tested, profile 7.3 -guard-mark");
        assert!(
            newer.row().ends_with(" (2 rules taken from the version, the others tested on this kernel)"),
            "{}",
            newer.row()
        );
        let old = Kernel { release: "5.4.0-42", profile: "", presumed: Features::empty() };
        assert_eq!(old.row(), "Linux 5.4.0-42, older than tested");
        let of = |kernel: Option<Kernel<'_>>| json(kernel).as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(of(Some(newer)), of(None));
        assert_eq!(newer.json()["presumed"], json!(["remap-needs-four", "uffd-owner-only"]));
        assert_eq!((&old.json()["profile"], &old.json()["tested"]), (&Value::Null, &"older than tested".into()));
    }
}
