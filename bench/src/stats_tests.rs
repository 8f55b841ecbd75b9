//! Tests of [`super`].

use super::*;

#[test]
fn median_min_and_max() {
    let odd = Sample::new(vec![3.0, 1.0, 2.0]);
    assert_eq!((odd.median(), odd.min(), odd.max(), odd.rounds()), (2.0, 1.0, 3.0, 3));
    assert_eq!(Sample::new(vec![4.0, 1.0]).median(), 2.5);
}

#[test]
fn json_is_one_documented_line() {
    let mut row = Row {
        suite: "index",
        case: "lookup".into(),
        n: 1000,
        subject: "samara".into(),
        sample: Sample::new(vec![23.1, 22.8, 125.0]),
        unit: "ns",
        threads: None,
    };
    let line = r#"{"suite":"index","case":"lookup","n":1000,"subject":"samara","value":23.10,"min":22.80,"max":125.0,"unit":"ns","rounds":3}"#;
    assert_eq!(row.json(), line);
    row.threads = Some(2);
    assert_eq!(row.json(), line.replace("3}", r#"3,"threads":2}"#));
}

#[test]
fn numbers_keep_what_matters() {
    assert_eq!([0.0, 0.01234, 23.1, 123.45, -4.25].map(number), ["0", "0.01234", "23.10", "123.5", "-4.25"]);
}
