//! The reference map against an array with a cell for every key.

use samara::{End, GapQuery, Span};
use samara_testkit::{Op, ReferenceMap, Universe, script};

const KEYS: usize = 64;

/// What every key maps to: the range's first key (which tells touching ranges apart) and the value.
type Cells = [Option<(u64, u64)>; KEYS];

fn cells(reference: &ReferenceMap<u64>) -> Cells {
    let mut cells = [None; KEYS];
    for (span, id) in &reference.entries {
        for key in span.first..=span.last.min(KEYS as u64 - 1) {
            assert!(cells[key as usize].is_none(), "entries overlap at {key}");
            cells[key as usize] = Some((span.first, *id));
        }
    }
    cells
}

/// Whether `first` is an answer to the query, tried key by key.
fn fits(cells: &Cells, query: &GapQuery, first: u64) -> bool {
    let last = first + query.len() - 1;
    let window = query.window();
    // The free keys of the window that touch `first`.
    let is_free = |key: &u64| window.contains(*key) && cells.get(*key as usize).is_some_and(Option::is_none);
    let room = (first..).take_while(is_free).count() + (0..first).rev().take_while(is_free).count();
    let has_room = !query.is_padded() || room as u64 >= query.len() + query.align() - 1;
    has_room
        && window.first <= first
        && last <= window.last
        && last < KEYS as u64
        && first % query.align() == query.offset() % query.align()
        && (first..=last).all(|key| cells[key as usize].is_none())
}

#[test]
fn reference_map_agrees_with_cells() {
    let (mut stores, mut found) = (0, 0);
    for seed in 0..if cfg!(miri) { 1 } else { 60 } {
        let mut reference = ReferenceMap { entries: Vec::new() };
        for (id, op) in script::<u64>(seed, Universe::Low(KEYS as u32 - 1), 400).into_iter().enumerate() {
            let before = cells(&reference);
            let id = id as u64;
            match op {
                Op::Insert(span) | Op::Replace(span) => {
                    let Ok(pieces) = reference.store(span, Some(id)) else { continue };
                    stores += 1;
                    let after = cells(&reference);
                    for key in 0..KEYS as u64 {
                        let want = if span.contains(key) { Some(id) } else { before[key as usize].map(|c| c.1) };
                        assert_eq!(after[key as usize].map(|c| c.1), want, "key {key} after {span} over {before:?}");
                    }
                    let lost: u64 = pieces
                        .iter()
                        .map(|(lost, ..)| (lost.last.min(KEYS as u64 - 1) + 1).saturating_sub(lost.first))
                        .sum();
                    let covered = (0..KEYS as u64).filter(|k| span.contains(*k) && before[*k as usize].is_some());
                    assert_eq!(lost, covered.count() as u64);
                }
                Op::ClearRange(span) => {
                    let Ok(_) = reference.store(span, None) else { continue };
                    let after = cells(&reference);
                    for key in 0..KEYS {
                        let want = before[key].filter(|_| !span.contains(key as u64)).map(|c| c.1);
                        assert_eq!(after[key].map(|c| c.1), want);
                    }
                }
                Op::SplitAt(key) if key < KEYS as u64 => {
                    let cut = key > 0 && before[key as usize].is_some_and(|cell| cell.0 < key);
                    assert_eq!(reference.split_at(key), cut);
                    assert_eq!(cells(&reference).map(|c| c.map(|c| c.1)), before.map(|c| c.map(|c| c.1)));
                    if cut {
                        assert_eq!(cells(&reference)[key as usize].unwrap().0, key);
                    }
                }
                Op::Remove(key) if key < KEYS as u64 => {
                    let gone = reference.remove(key);
                    assert_eq!(gone.map(|(span, id)| (span.first, id)), before[key as usize]);
                    assert_eq!(cells(&reference)[key as usize], None);
                }
                Op::FindGap(query) if !query.is_empty() && query.len() <= KEYS as u64 => {
                    let window = query.window();
                    let query = query.within(Span::new(window.first, window.last.min(KEYS as u64 - 1)));
                    let mut all = (0..KEYS as u64).filter(|first| fits(&before, &query, *first));
                    let want = if query.end() == End::Lowest { all.next() } else { all.next_back() };
                    found += usize::from(want.is_some());
                    let want = want.map(|first| Span::new(first, first + query.len() - 1));
                    assert_eq!(reference.find_gap(&query), want, "{query:?} in {reference:?}");
                }
                _ => {}
            }
        }
    }
    assert!(cfg!(miri) || (stores > 5000 && found > 300), "{stores} stores and {found} gaps: the scripts are too tame");
}
