//! Prints the bytes that a map allocates for each range, filled and after random replaces:
//! `samara-rivals-bytes SUBJECT N REPLACES`.
//!
//! Linking `allocation_counter` makes it the allocator of this program.

use clap::Parser;
use samara_rivals::kinds::Kind;
use samara_rivals::loaded::Scene;

#[derive(Debug, Parser)]
struct Cli {
    #[arg(value_enum)]
    subject: Kind,
    n: usize,
    replaces: usize,
}

fn main() {
    let Cli { subject, n, replaces } = Cli::parse();
    assert!(n > 0, "there is nothing to count in an empty map");
    let measure = |act: &mut dyn FnMut()| allocation_counter::measure(act).bytes_current;
    let [filled, churned] = subject.bytes(&Scene::new(n), replaces, measure);
    println!("{filled:.3} {churned:.3}");
}
