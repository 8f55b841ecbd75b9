//! Each table as it is drawn.

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::top::state::tests::mapped;
use crate::top::view;

const SECOND: u64 = 1_000_000_000;

fn chosen(table: Table) -> Chosen {
    Chosen {
        table,
        order: table.order(),
        row: 0,
        text: None,
        status: "running for 3.0 s".to_owned(),
        message: None,
        title: "app --serve".to_owned(),
        colour: true,
        keys: "q quit",
    }
}

fn drawn(view: &View, chosen: &Chosen, (columns, rows): (u16, u16)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal
        .draw(|frame| {
            draw(frame, view, chosen);
        })
        .unwrap();
    terminal.backend().to_string()
}

#[test]
fn every_table() {
    let mut state = mapped((1..=300).map(|i| i * SECOND / 100));
    let mut all = String::new();
    for table in Table::ALL {
        let view = view::view(&mut state, 3 * SECOND, Some(330), table, table.order());
        all += &drawn(&view, &chosen(table), (80, 14));
        all += "\n";
    }
    insta::assert_snapshot!(all);
}

#[test]
fn columns_make_room_for_the_text() {
    let mut state = mapped((1..=300).map(|i| i * SECOND / 100));
    let mut all = String::new();
    let order = Order { column: 2, reverse: true };
    let view = view::view(&mut state, 3 * SECOND, None, Table::Places, order);
    for size in [(120, 6), (60, 6), (40, 6), (20, 4), (3, 2), (1, 1)] {
        all += &drawn(&view, &Chosen { order, ..chosen(Table::Places) }, size);
        all += "\n";
    }
    insta::assert_snapshot!(all);
}

#[test]
fn the_chosen_row_stays_in_sight() {
    let row = |n: u64| view::Row { key: view::Key::Slow(n), values: vec![n, n], text: format!("row {n}") };
    let view = View { rows: (0..100).map(row).collect(), ..View::default() };
    for (row, height) in [(0, 24), (50, 24), (99, 24), (99, 8), (99, 5), (99, 3)] {
        let text = drawn(&view, &Chosen { row, ..chosen(Table::Slowest) }, (80, height));
        assert!(text.contains(&format!(" row {row} ")), "{height} lines: {text}");
    }
    let text = (vec!["one".to_owned(), "two".to_owned()], 1);
    let text = drawn(&view, &Chosen { text: Some(text), ..chosen(Table::Slowest) }, (80, 24));
    assert!(text.contains("two") && !text.contains("one") && !text.contains("row 0"), "{text}");
}
