//! What the running kernel does, and how that is known: by asking it, or by its release's number.

use crate::child::Kernel;
use crate::features::{Found, ask};
use crate::proc::read;
use samara_mm::Features;
use std::fmt::{self, Display};
use std::sync::OnceLock;

/// The first and the last release whose rules were compared with a kernel.
const TESTED: [(u32, u32); 2] = [(5, 10), (7, 3)];

/// The rules of the running kernel. Displays as the release whose number it has and what was found
/// otherwise: `6.18 +guard-mark -keeps-charge`.
///
/// ```
/// let profile = samara_oracle::Profile::running();
/// println!("Linux {}: {profile}", profile.release);
/// assert_eq!(profile.features, samara_oracle::features()?);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Profile {
    /// The kernel's release, as `uname -r` prints it.
    pub release: String,
    /// What it does.
    pub features: Features,
    /// The features for which it could not be asked: they are as its release's number says. Without
    /// those that make no difference, because the kernel lacks what they are about.
    pub presumed: Features,
    /// The release with the number of its point release, where the name does not have that.
    pub(crate) numbered: String,
}

/// Whether rules like a kernel's were compared with a kernel.
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
    /// Of a release, as `uname -r` prints it.
    ///
    /// ```
    /// use samara_oracle::Tested;
    /// let tested = ["5.4.0-42-generic", "6.8.0-45-generic", "7.3.4", "8.0-rc1", ""].map(Tested::of);
    /// assert_eq!(tested, [Tested::Older, Tested::Within, Tested::Within, Tested::Newer, Tested::Older]);
    /// ```
    pub fn of(release: &str) -> Tested {
        let [first, last] = TESTED;
        let [major, minor, _] = Features::numbers_of(release);
        match (major, minor) {
            number if number < first => Tested::Older,
            number if number > last => Tested::Newer,
            _ => Tested::Within,
        }
    }
}

/// The name of the set that a release has: its first two numbers, and the third where that counts.
fn of_release(release: &str) -> String {
    let [major, minor, point] = Features::numbers_of(release);
    let (major, minor) = (major, minor).clamp(TESTED[0], TESTED[1]);
    let (first, this) = (format!("{major}.{minor}"), format!("{major}.{minor}.{point}"));
    if Features::of_release(release) == Features::of_release(&first) { first } else { this }
}

impl Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let release = Features::of_release(&self.numbered);
        f.write_str(&of_release(&self.numbered))?;
        // What makes no difference is not told.
        let more = self.features - release - without_effect(self.features);
        let less = release - self.features - without_effect(self.features);
        let more = feature_names(more).into_iter().map(|name| ('+', name));
        more.chain(feature_names(less).into_iter().map(|name| ('-', name)))
            .try_for_each(|(sign, name)| write!(f, " {sign}{name}"))
    }
}

impl Profile {
    /// That of the running kernel. It is asked once in a process's life, which takes a few
    /// milliseconds. Where no process can be made in which to make calls, the release's number
    /// decides everything.
    pub fn running() -> &'static Profile {
        static PROFILE: OnceLock<Profile> = OnceLock::new();
        PROFILE.get_or_init(|| Profile::found(Kernel::new().and_then(|mut kernel| ask(&mut kernel)).ok()))
    }

    /// From what was found by asking; nothing: no answer at all.
    pub(crate) fn found(found: Option<Found>) -> Profile {
        let release = read("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
        let texts = ["/proc/sys/kernel/version", "/proc/version_signature"].map(|file| read(file).unwrap_or_default());
        let numbered = numbered(&release, &texts);
        let none = Features::empty();
        let Found { has, told } = found.unwrap_or(Found { has: none, told: none });
        let features = (has & told) | (Features::of_release(&numbered) - told);
        Profile { release, features, presumed: Features::all() - told - without_effect(features), numbered }
    }

    /// Whether rules like these were compared with a kernel.
    pub fn tested(&self) -> Tested {
        Tested::of(&self.release)
    }
}

/// The release with its point release. The names of Debian's kernels before 6.12 and of Ubuntu's
/// have none; one of these texts has it: `#1 SMP Debian 6.1.192-1 (2026-01-01)`,
/// `Ubuntu 6.8.0-45.45-generic 6.8.12`.
fn numbered(release: &str, texts: &[String]) -> String {
    let [major, minor, point] = Features::numbers_of(release);
    let same = |word: &&str| {
        let [a, b, c] = Features::numbers_of(word);
        (a, b) == (major, minor) && c > point
    };
    let words = texts.iter().filter(|text| text.contains("Debian") || text.contains("Ubuntu"));
    let found = words.flat_map(|text| text.split_ascii_whitespace()).find(same);
    found.filter(|_| point == 0).unwrap_or(release).to_owned()
}

/// The features that are about what a kernel with these features does not have.
pub(crate) fn without_effect(features: Features) -> Features {
    let lacks = [
        (Features::GUARD_PAGES, Features::GUARD_MARK | Features::GUARD_FILES),
        (Features::SEALS, Features::SEALS_GUARD_ZERO | Features::SEALS_JOIN),
        (Features::POPULATE, Features::POPULATE_STOPS),
        (Features::DONTUNMAP_NO_SELF_MERGE, Features::DONTUNMAP_JOINS_OTHER),
        (Features::DROPPABLE, Features::UFFD_REFUSES_DROPPABLE | Features::DROPPABLE_IGNORES_FUTURE),
        (Features::MDWE, Features::MDWE_NO_INHERIT),
        (Features::WRITTEN_JOINS_UNWRITTEN, Features::MOVED_LOSES_IDENTITY),
    ];
    let mut none = Features::empty();
    for (of, about) in lacks {
        none.set(about, none.contains(about) || !features.contains(of));
    }
    none.set(Features::DROPPABLE_EOPNOTSUPP, features.contains(Features::DROPPABLE));
    none.set(Features::SEGMENTS_JOIN, features.contains(Features::WRITTEN_JOINS_UNWRITTEN));
    none
}

/// Features by names such as `guard-pages`.
pub fn feature_names(features: Features) -> Vec<String> {
    features.names()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_named_after_its_release_and_what_differs() {
        for (release, name) in [
            ("6.18.15+deb14-cloud-amd64", "6.18"),
            ("6.18.44", "6.18.44"),
            ("6.12.118+deb13-cloud-amd64", "6.12.118"),
            ("6.1.192", "6.1.192"),
            ("6.9.3", "6.9"),
            ("4.19.0-27-amd64", "5.10"),
            ("8.2.0", "7.3"),
            ("", "5.10"),
        ] {
            let features = Features::of_release(release);
            let (presumed, numbered) = (Features::empty(), release.to_owned());
            let mut profile = Profile { release: numbered.clone(), features, presumed, numbered };
            assert_eq!(profile.to_string(), name);
            profile.features ^= Features::KEEPS_CHARGE | Features::DROPPABLE;
            let sign = |feature| if features.contains(feature) { '-' } else { '+' };
            let (droppable, charge) = (sign(Features::DROPPABLE), sign(Features::KEEPS_CHARGE));
            let mut words: Vec<_> = profile.to_string().split(' ').skip(1).map(str::to_owned).collect();
            words.sort();
            let mut wanted = [format!("{droppable}droppable"), format!("{charge}keeps-charge")];
            wanted.sort();
            assert_eq!(words, wanted, "{release}");
        }
    }

    #[test]
    fn a_name_without_a_point_release_gets_it_from_the_version() {
        let of = |release, text: &str| numbered(release, &[text.to_owned()]);
        let debian = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-2 (2026-10-01)";
        assert_eq!(of("6.1.0-56-cloud-amd64", debian), "6.1.192-2");
        assert_eq!(of("6.8.0-45-generic", "Ubuntu 6.8.0-45.45-generic 6.8.12"), "6.8.12");
        for (release, text) in [
            ("6.1.0-rc3", "#1 SMP PREEMPT_DYNAMIC"),
            ("6.12.118+deb13-amd64", "#1 SMP Debian 6.12.119-1"),
            ("6.1.0-56-amd64", "#1 SMP Debian 5.10.262-1"),
        ] {
            assert_eq!(of(release, text), release);
        }
    }

    /// What is not told is as the release's number says, and named.
    #[test]
    fn what_could_not_be_asked_is_named() {
        let nothing = Profile::found(None);
        assert_eq!(nothing.features, Features::of_release(&nothing.release));
        assert!(nothing.presumed.contains(Features::MOVE_MANY | Features::REMAP_NEEDS_FOUR));
        let told = Features::all() - Features::SEALS_GUARD_ZERO - Features::NEXT_WINS;
        let bare = Profile::found(Some(Found { has: Features::empty(), told }));
        assert_eq!(bare.presumed, Features::NEXT_WINS, "there are no seals");
        assert_eq!(bare.features - Features::NEXT_WINS - Features::SEALS_GUARD_ZERO, Features::empty());
        let running = Profile::running();
        assert!(
            running.presumed.contains(Features::REMAP_NEEDS_FOUR) && !running.presumed.contains(Features::MOVE_MANY)
        );
    }
}
