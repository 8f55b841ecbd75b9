//! The rules of the running kernel, and their source: a probe, or the release's number.

use std::fmt::{self, Display};
use std::io;
use std::sync::OnceLock;

use samara_mm::{Features, Tested};

use crate::child::Kernel;
use crate::features::{Probed, ask};
use crate::proc::read;

/// The rules of the running kernel. Displays as the release with the differences that the probe
/// found: `6.18 +guard-mark -keeps-charge`.
///
/// ```
/// let profile = samara_probe::Profile::running();
/// println!("Linux {}: {profile}", profile.release);
/// assert_eq!(profile.features, samara_probe::features()?);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Profile {
    /// The kernel's release, as `uname -r` prints it.
    pub release: String,
    /// Its rules.
    pub features: Features,
    /// The features that could not be probed: they are taken from the release's number. Without
    /// those that have no effect on this kernel.
    pub presumed: Features,
    /// The release with its point release, also if `release` does not have that.
    pub numbered: String,
}

/// The features of the running kernel, for [`samara_mm::Config`]. Takes a few milliseconds.
///
/// Some features are taken from the release's number: those whose calls are refused; those of
/// userfaultfds, of secret memory, and others for which a child would have to fork, lock or fill
/// memory; [`Features::HEAP_MEETS`], [`Features::HEAP_JOINS_BELOW`]; and
/// [`Features::REMAP_NEEDS_FOUR`] and [`Features::LIMIT_IS_EAGAIN`], which need the maximum number
/// of areas (`samara check` probes them if its calls come near to that).
///
/// # Errors
/// The child process could not be made.
///
/// ```
/// use samara_mm::{AddressSpace, Config, FileId};
/// let config = Config { features: samara_probe::features()?, ..Config::default() };
/// let space = AddressSpace::<FileId>::new(config);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn features() -> io::Result<Features> {
    probe(&mut Kernel::new()?)
}

#[doc(hidden)]
pub fn probe(kernel: &mut Kernel) -> io::Result<Features> {
    Ok(Profile::found(Some(ask(kernel)?)).features)
}

/// The name of a release's set of features: its first two numbers, and the third if that matters.
fn of_release(release: &str) -> String {
    let [major, minor, point] = Features::numbers_of(release);
    let (major, minor) = (major, minor).clamp(Tested::FIRST, Tested::LAST);
    let (first, this) = (format!("{major}.{minor}"), format!("{major}.{minor}.{point}"));
    if Features::of_release(release) == Features::of_release(&first) { first } else { this }
}

impl Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let release = Features::of_release(&self.numbered);
        f.write_str(&of_release(&self.numbered))?;
        // Features without an effect are not shown.
        let more = self.features - release - self.features.without_effect();
        let less = release - self.features - self.features.without_effect();
        let more = more.names().into_iter().map(|name| ('+', name));
        more.chain(less.names().into_iter().map(|name| ('-', name)))
            .try_for_each(|(sign, name)| write!(f, " {sign}{name}"))
    }
}

impl Profile {
    /// The profile of the running kernel. The probe runs once in a process's life, and takes a few
    /// milliseconds. If no child process can be made, the release's number decides everything.
    pub fn running() -> &'static Profile {
        static PROFILE: OnceLock<Profile> = OnceLock::new();
        PROFILE.get_or_init(|| Profile::found(Kernel::new().and_then(|mut kernel| ask(&mut kernel)).ok()))
    }

    /// From the result of the probe; `None`: it failed.
    pub fn found(found: Option<Probed>) -> Profile {
        let release = read("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned();
        let texts = ["/proc/sys/kernel/version", "/proc/version_signature"].map(|file| read(file).unwrap_or_default());
        let numbered = numbered(&release, &texts);
        let none = Features::empty();
        let Probed { has, told } = found.unwrap_or(Probed { has: none, told: none });
        let features = (has & told) | (Features::of_release(&numbered) - told);
        Profile { release, features, presumed: Features::all() - told - features.without_effect(), numbered }
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

    /// Undecided features are taken from the release's number, and named.
    #[test]
    fn what_could_not_be_asked_is_named() {
        let nothing = Profile::found(None);
        assert_eq!(nothing.features, Features::of_release(&nothing.release));
        assert!(nothing.presumed.contains(Features::MOVE_MANY | Features::REMAP_NEEDS_FOUR));
        let told = Features::all() - Features::SEALS_GUARD_ZERO - Features::NEXT_WINS;
        let bare = Profile::found(Some(Probed { has: Features::empty(), told }));
        assert_eq!(bare.presumed, Features::NEXT_WINS, "there are no seals");
        assert_eq!(bare.features - Features::NEXT_WINS - Features::SEALS_GUARD_ZERO, Features::empty());
        let running = Profile::running();
        assert!(
            running.presumed.contains(Features::REMAP_NEEDS_FOUR) && !running.presumed.contains(Features::MOVE_MANY)
        );
    }
}
