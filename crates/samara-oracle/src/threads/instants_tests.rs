use super::*;
use crate::compare::Sides;
use crate::order::{Event, SearchResult, find};
use samara_mm::Touches;
use samara_probe::op::{at, fd};

/// An unmap that is under way finds its areas gone, for a call, and then a page of them there, for
/// an access. It needs both instants, and the access within the unmap.
#[test]
fn pages_go_later_than_areas() {
    let start = Sides::new().unwrap().start(Scope::Window).unwrap();
    let map = Op::call(libc::SYS_mmap, &[at(4), 2 * PAGE, 3, 0x8032, fd::NONE]);
    let unmap = Op::call(libc::SYS_munmap, &[at(4), 2 * PAGE]);
    let fill = Op::call(libc::SYS_madvise, &[at(4), 2 * PAGE, 23]);
    for (ended, order) in [(9, SearchResult::Order), (5, SearchResult::None)] {
        let event = |op, answer, began, ended| Event { what: (op, answer), began, ended };
        let other = vec![event(fill, -12, 1, 2), event(Op::Read(at(5)), 0, 6, 7)];
        let threads = [vec![event(unmap, 0, 0, ended)], other];
        let mut rules = Instants::new(End { seen: Vec::new(), flags: Vec::new() }, false, None);
        let first = OpenSpace::new(Model::new(&start, Touches::Told, None));
        let first = rules.alone(&(map, at(4) as i64), &first).unwrap();
        assert_eq!(find(&mut rules, &threads, &first, 1000), order);
    }
}
