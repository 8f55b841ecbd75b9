//! The arguments that every suite has: how many ranges, which cases, which maps.

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
    /// How many ranges.
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
    /// One JSON object a line, as soon as it is known.
    #[arg(long)]
    pub json: bool,
}

impl<C: Named, K: Named> SuiteArgs<C, K> {
    /// The cases that are asked for.
    pub fn cases(&self) -> impl Iterator<Item = C> {
        chosen(&self.case)
    }

    /// Whether a map is asked for by its name.
    pub fn names(&self, kind: K) -> bool {
        self.subject.contains(&kind)
    }

    /// The maps that are asked for.
    pub fn kinds(&self) -> impl Iterator<Item = K> {
        chosen(&self.subject)
    }
}

/// The values that are named, or all of them where none is.
pub(crate) fn chosen<T: Named>(named: &[T]) -> impl Iterator<Item = T> {
    T::value_variants().iter().copied().filter(|value| named.is_empty() || named.contains(value))
}
