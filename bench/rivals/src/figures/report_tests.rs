//! A document keeps its words and gets its tables; a figure without a place is refused.

use super::write;
use crate::figures::design::Design;
use crate::figures::figure::Figure;
use crate::figures::line::Line;
use crate::figures::work::Work;
use samara_bench::stats::Sample;
use samara_bench::workloads::{Case, files};

fn line(design: Design, nanos: f64) -> Line {
    Line::new(
        Figure::RandomMaps,
        &Work::Alone(Case::MunmapMmap).rows()[0],
        (1_024, 1),
        design,
        &Sample::new(vec![nanos]),
    )
}

#[test]
fn a_document() {
    let dir = std::env::temp_dir().join(format!("samara-figures-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let document = dir.join("figures.md");
    std::fs::write(&document, "Before.\n\n<!-- F1 -->\nold\n<!-- end F1 -->\n\nAfter.\n").unwrap();
    let lines = [
        line(Design::Rbtree, 200.0),
        line(Design::Maple, 400.0),
        line(Design::Samara, 100.0),
        line(Design::Kernel, 5_000.0),
    ];
    write(&document, &lines).unwrap();
    let text = std::fs::read_to_string(&document).unwrap();
    assert!(text.starts_with("Before.\n\n<!-- F1 -->\n") && text.ends_with("\n<!-- end F1 -->\n\nAfter.\n"), "{text}");
    assert!(!text.contains("old"));
    assert!(text.contains("| areas | rbtree | maple | samara | kernel | samara / rbtree | samara / the best other |"));
    assert!(text.contains("| 1,024 | 200 | 400 | 100 | 5,000 | 0.50 | 0.50 |"), "{text}");
    assert!(
        text.contains("| Linux 6.1 against 6.0: 56 s for 20 s | `rbtree` | `maple` |  | -64 % | -50 % | +100 % |"),
        "{text}"
    );
    assert!(std::fs::read_to_string(dir.join("figures/F1.svg")).unwrap().contains("<svg"));

    // Counts have a separate table, without zero rows.
    let rows = Work::Files(files::Case::Batches).rows();
    let counts = |way: usize, at: usize, count: f64| {
        Line::new(Figure::Exit, &rows[8 * way + at], (50, 1), Design::Samara, &Sample::new(vec![count]))
    };
    let counted = [counts(0, 0, 50.0), counts(0, 3, 0.0), counts(1, 3, 9.0), counts(1, 5, 0.0)];
    let place = "<!-- F4 -->\n<!-- end F4 -->\n";
    std::fs::write(&document, format!("{text}{place}")).unwrap();
    write(&document, &counted).unwrap();
    let with_counts = std::fs::read_to_string(&document).unwrap();
    assert!(with_counts.contains("| areas | `exit_each_batches` | `exit_eights_batches` |"), "{with_counts}");
    assert!(with_counts.contains("| 1 | 50 | 0 |\n| 5 to 8 | 0 | 9 |\n"), "{with_counts}");
    assert!(!with_counts.contains("| 32 |"), "{with_counts}");
    std::fs::write(&document, &text).unwrap();

    // So do shares, without steps that never occur.
    let share = |row: usize, percent: f64| {
        let row = &Work::Steps.rows()[row];
        Line::new(Figure::RandomMaps, row, (1_024, 1), Design::Samara, &Sample::new(vec![percent]))
    };
    write(&document, &[share(0, 30.0), share(1, 4.6), share(2, 0.0)]).unwrap();
    let with_shares = std::fs::read_to_string(&document).unwrap();
    let table = "| step | samara |\n|---|---|\n| munmap | 30 |\n| munmap find | 5 |\n\n";
    assert!(with_shares.contains(table), "{with_shares}");
    std::fs::write(&document, &text).unwrap();

    // Writing the same again changes nothing.
    write(&document, &lines).unwrap();
    assert_eq!(std::fs::read_to_string(&document).unwrap(), text);

    // A refused document stays as it was, and nothing is written beside it.
    std::fs::remove_dir_all(dir.join("figures")).unwrap();
    let place = "<!-- F1 -->\n<!-- end F1 -->\n";
    for (text, why) in [
        ("No place.\n", "0 places for F1"),
        (&format!("{place}{place}"), "2 places for F1"),
        ("<!-- F1 -->\n", "has no end"),
        ("<!-- F1 -->\n<!-- F3 -->\nwords\n<!-- end F3 -->\n<!-- end F1 -->\n", "another mark"),
    ] {
        std::fs::write(&document, text).unwrap();
        let said = write(&document, &lines).unwrap_err();
        assert!(said.contains(why) && said.contains("`<!-- F1 -->`"), "{said}");
        assert_eq!(std::fs::read_to_string(&document).unwrap(), text);
        assert!(!dir.join("figures").exists());
    }
    assert!(write(&dir, &lines).unwrap_err().contains("ending"));
    std::fs::remove_dir_all(&dir).unwrap();
}
