use super::{Budget, LINE, NAME, perf_names};

fn names(map: &str, wanted: &[u64], budget: &Budget) -> (Vec<(u64, String)>, bool) {
    perf_names(map.as_bytes(), wanted, budget)
}

#[test]
fn names_of_wanted_addresses() {
    let map = "1000 10 first\n\
               0x1010 8 of Java, with blanks\n\
               1000 8 shorter\n\
               no number\n\
               2000 100 outer\n\
               2010 10 inner\n\
               3000 ffffffffffffffff to the end";
    let budget = Budget::default();
    let found = |wanted: &[u64]| {
        let (found, is_whole) = names(map, wanted, &budget);
        assert!(is_whole);
        found.into_iter().map(|(at, name)| format!("{at:x} {name}")).collect::<Vec<_>>()
    };
    // A replaced function is not reported, and a later start hides a function that reaches beyond
    // it.
    assert_eq!(found(&[0xfff, 0x1007, 0x1008, 0x1010]), ["1007 shorter", "1010 of Java, with blanks"]);
    assert_eq!(found(&[0x200f, 0x2010, 0x2020, 0x20ff]), ["200f outer", "2010 inner"]);
    assert_eq!(found(&[0x20ff]), Vec::<String>::new());
    assert_eq!(found(&[0x2fff, u64::MAX - 1]), ["fffffffffffffffe to the end"]);
}

/// Unwanted lines cost nothing, however many there are. A line costs no more than its read part.
#[test]
fn a_map_takes_what_is_wanted() {
    let long = "x".repeat(3 * LINE as usize);
    let map: String =
        (0..5000).map(|i| format!("{:x} 1 name\n", 2 * i)).collect::<String>() + "9000 1 " + &long + "\n9001 1 last";
    let budget = Budget::of(4 * (NAME + 4));
    assert_eq!(names(&map, &[8, 9, 10], &budget), (vec![(8, "name".into()), (10, "name".into())], true));
    let budget = Budget::of(3000);
    let (found, is_whole) = names(&map, &[0x9000, 0x9001], &budget);
    assert!(is_whole && found.len() == 2 && found[0].1.len() == 1024 && found[1].1 == "last");
    // Replaced names are given back, and reading ends when the budget is used up.
    assert!(names(&"8 1 a\n".repeat(100), &[8], &Budget::of(2 * (NAME + 1))).1);
    let budget = Budget::of(2 * (NAME + 4));
    assert_eq!(names(&map, &[8, 10, 12], &budget), (vec![(8, "name".into()), (10, "name".into())], false));
}
