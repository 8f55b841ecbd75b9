//! The arguments that every suite has: numbers of ranges, cases, maps.

use clap::ValueEnum;

/// A case or a map.
pub trait Named: ValueEnum + PartialEq + Copy + Send + Sync + 'static {
    /// Its name in tables and JSON lines.
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl<T: ValueEnum + PartialEq + Copy + Send + Sync + 'static> Named for T {}

/// Arguments of every suite.
#[derive(Clone, Debug, clap::Args)]
pub struct SuiteArgs<C: Named, K: Named> {
    /// Numbers of ranges.
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 100_000, 1_000_000])]
    pub n: Vec<usize>,
    /// Only these cases.
    #[arg(long, value_enum, value_delimiter = ',')]
    case: Vec<C>,
    /// Only these maps.
    #[arg(long, value_enum, value_delimiter = ',')]
    subject: Vec<K>,
    /// Fewer and shorter rounds; churned maps get n / 4 random replaces instead of 10 n.
    #[arg(long)]
    pub quick: bool,
    /// One JSON object a line, as soon as it is measured.
    #[arg(long)]
    pub json: bool,
}

impl<C: Named, K: Named> SuiteArgs<C, K> {
    /// The selected cases.
    pub fn cases(&self) -> impl Iterator<Item = C> {
        chosen(&self.case)
    }

    /// Whether a map is selected by its name.
    pub fn names(&self, kind: K) -> bool {
        self.subject.contains(&kind)
    }

    /// The selected maps.
    pub fn kinds(&self) -> impl Iterator<Item = K> {
        chosen(&self.subject)
    }
}

/// The named values, or all of them if none is named.
pub(crate) fn chosen<T: Named>(named: &[T]) -> impl Iterator<Item = T> {
    T::value_variants().iter().copied().filter(|value| named.is_empty() || named.contains(value))
}
