use super::*;

/// Calls that append their letter to a text, if they find what they must find there; a capital one
/// has two instants.
struct Text(&'static str);

impl Rules for Text {
    type Call = (char, &'static str);
    type Space = String;
    type Shown = String;

    fn shown(&self, space: &String) -> String {
        space.clone()
    }

    fn next(
        &mut self,
        (letter, finds): &(char, &'static str),
        far: u32,
        space: &String,
    ) -> Option<(String, Option<u32>)> {
        let more = (letter.is_uppercase() && far == 0).then_some(1);
        space.contains(finds).then(|| (format!("{space}{letter}"), more))
    }

    fn is_end(&mut self, space: &String) -> bool {
        *space == self.0
    }
}

fn call(letter: char, finds: &'static str, began: u64, ended: u64) -> Event<(char, &'static str)> {
    Event { what: (letter, finds), began, ended }
}

fn found(end: &'static str, threads: &[Vec<Event<(char, &'static str)>>]) -> SearchResult {
    find(&mut Text(end), threads, &String::new(), 1000)
}

#[test]
fn an_order_respects_the_times() {
    let at_once = [vec![call('a', "", 0, 3)], vec![call('b', "", 1, 2)]];
    assert_eq!((found("ab", &at_once), found("ba", &at_once)), (SearchResult::Order, SearchResult::Order));
    assert_eq!(found("aa", &at_once), SearchResult::None);
    let in_turn = [vec![call('a', "", 0, 1)], vec![call('b', "", 2, 3)]];
    assert_eq!((found("ab", &in_turn), found("ba", &in_turn)), (SearchResult::Order, SearchResult::None));
    assert_eq!((overlapped(&at_once), overlapped(&in_turn)), (2, 0));
    // Those of one thread are in turn, whatever another one does.
    let two = [vec![call('a', "", 0, 1), call('c', "", 2, 9)], vec![call('b', "", 0, 8)]];
    assert_eq!(
        (found("acb", &two), found("bac", &two), found("cab", &two)),
        (SearchResult::Order, SearchResult::Order, SearchResult::None)
    );
    assert_eq!(overlapped(&two), 3);
}

#[test]
fn answers_count() {
    let threads = [vec![call('a', "b", 0, 3)], vec![call('b', "", 1, 2)]];
    assert_eq!((found("ba", &threads), found("ab", &threads)), (SearchResult::Order, SearchResult::None));
}

#[test]
fn other_calls_come_between_two_instants() {
    let threads = [vec![call('A', "", 0, 3)], vec![call('b', "", 1, 2)]];
    for (end, order) in [("AbA", true), ("AAb", true), ("bAA", true), ("Ab", false)] {
        assert_eq!(found(end, &threads) == SearchResult::Order, order, "{end}");
    }
    // Both are within the call's time.
    let threads = [vec![call('A', "", 0, 1)], vec![call('b', "", 2, 3)]];
    assert_eq!((found("AAb", &threads), found("AbA", &threads)), (SearchResult::Order, SearchResult::None));
}

#[test]
fn gives_up() {
    let threads = [vec![call('a', "", 0, 3)], vec![call('b', "", 1, 2)]];
    assert_eq!(find(&mut Text("c"), &threads, &String::new(), 2), SearchResult::GaveUp);
}
