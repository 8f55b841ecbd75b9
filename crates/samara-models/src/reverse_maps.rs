//! *Reverse maps*: threads link, unlink and move areas of one file, beside queries and beside a
//! revocation. The map is that of samara-mm, all files of `files`; so are the range lock and the
//! changes of an update (`link_plan`). The steps of a call and of a fork are those of its `update`
//! and `fork`, on a space of one area and one page.
//!
//! An answer ascends, has every area that is linked all the time, and names nothing that was never
//! there. An area that moves is in an answer once. In the end the counts agree, and `check` finds
//! nothing. A revocation asks who maps a page, makes a call on each space that it learns of, and
//! asks again until none does: then no page table shows the page.
//!
//! Fails with, in the map: a claim, memory given back, or a sum of the map, each by a load and a
//! store (two threads count one node, or lose one); freeing the memory of an empty shard without
//! asking whether all of it is free; a number of areas that is stored after the lock is given back;
//! a shard that each of two threads makes for itself; an answer of two shards that is not sorted; a
//! move in two acquisitions. In a space: links that change before the plan is applied, or after the
//! range lock is left. In a fork: links after the lock is left. A revocation that asks once.

use crate::explore::model;
use crate::files::space_range::SpaceRange;
use crate::files::{FileArea, Mapping, NoStats, ReverseMap};
use crate::held_range::hold;
use crate::link_plan::LinkPlan;
use crate::loom_wait::{LoomWait, Signal};
use crate::node_body::Body;
use crate::range_lock::{Request, Spans};
use crate::sync::{AtomicU64, Ordering};
use crate::wait::Event;
use loom::sync::Arc;
use loom::thread;
use samara::Span;

type File = ReverseMap<LoomWait, NoStats>;

const PAGE: u64 = 0x1000;
const THREADS: usize = 2;
/// Of two shards, the first and the third space have one, and the second one has the other.
const SPACES: [u64; 3] = [1, 2, 3];

/// One page of the file at an address.
fn area(at: u64, page: u64, shared_writable: bool) -> FileArea {
    FileArea { start: at * PAGE, end: (at + 1) * PAGE, page, shared_writable }
}

fn file() -> Arc<File> {
    Arc::new(File::with_shards(2).unwrap())
}

/// The links of one update.
fn plan(file: &File, space: u64, gone: Option<FileArea>, comes: Option<FileArea>) -> LinkPlan {
    let mut plan = LinkPlan::default();
    gone.into_iter().for_each(|area| plan.push(false, file, area).unwrap());
    comes.into_iter().for_each(|area| plan.push(true, file, area).unwrap());
    plan.reserve(space, |_| Some(file)).unwrap();
    plan
}

/// Changes the links of a space.
fn change(file: &File, space: u64, gone: Option<FileArea>, comes: Option<FileArea>) {
    plan(file, space, gone, comes).make(space, |_| Some(file));
}

/// What the model's end has.
fn assert_linked(file: &File, mut areas: Vec<Mapping>) {
    areas.sort();
    assert_eq!(file.areas(0..).unwrap(), areas);
    assert_eq!(file.len(), areas.len());
    assert_eq!(file.shared_writable(), areas.iter().filter(|mapping| mapping.area.shared_writable).count());
    file.check().unwrap();
}

/// Two spaces of one shard and one of another. In the first one an area stays, in the second one an
/// area moves, and in the third one an area comes before another one goes.
struct Scene {
    file: Arc<File>,
    stays: Mapping,
    comes: Mapping,
    goes: Mapping,
    moves: [Mapping; 2],
}

impl Scene {
    fn new() -> Scene {
        let [first, second, third] = SPACES;
        let stays = Mapping { space: first, area: area(1, 0, false) };
        let comes = Mapping { space: third, area: area(1, 1, true) };
        let goes = Mapping { space: third, area: area(3, 2, true) };
        let moves = [area(1, 0, false), area(2, 0, true)].map(|area| Mapping { space: second, area });
        let file = file();
        change(&file, first, None, Some(stays.area));
        change(&file, second, None, Some(moves[0].area));
        change(&file, third, None, Some(goes.area));
        Scene { file, stays, comes, goes, moves }
    }

    /// Runs a query beside the changes.
    fn run(name: &'static str, preemptions: usize, query: fn(&Scene)) {
        model(name, Some(preemptions), move || {
            let scene = Scene::new();
            let [file, other] = [scene.file.clone(), scene.file.clone()];
            let [Mapping { space, area: comes }, Mapping { area: goes, .. }] = [scene.comes, scene.goes];
            let comes_and_goes = thread::spawn(move || {
                change(&file, space, None, Some(comes));
                change(&file, space, Some(goes), None);
            });
            let [Mapping { space, area: gone }, Mapping { area: new, .. }] = scene.moves;
            let moves = thread::spawn(move || change(&other, space, Some(gone), Some(new)));
            query(&scene);
            comes_and_goes.join().unwrap();
            moves.join().unwrap();
            assert_linked(&scene.file, vec![scene.stays, scene.comes, scene.moves[1]]);
        });
    }
}

#[test]
fn areas_that_stay() {
    Scene::run("areas_that_stay", 3, |scene| {
        let found = scene.file.areas(0..).unwrap();
        assert!(found.is_sorted_by(|a, b| a < b), "{found:?}");
        let (moved, rest): (Vec<_>, _) = found.into_iter().partition(|mapping| scene.moves.contains(mapping));
        assert_eq!(moved.len(), 1, "{moved:?}");
        let Scene { stays, comes, goes, .. } = *scene;
        let instants = [&[stays, goes][..], &[stays, comes, goes], &[stays, comes]];
        assert!(instants.contains(&&rest[..]), "{rest:?}");
    });
}

#[test]
fn addresses_that_stay() {
    Scene::run("addresses_that_stay", 3, |scene| {
        let range = |Mapping { space, area }: Mapping| SpaceRange { space, start: area.start, end: area.end };
        let found = scene.file.mapped(0..=0).unwrap();
        assert!(scene.moves.iter().any(|moved| found == [range(scene.stays), range(*moved)]), "{found:?}");
        assert!(scene.file.is_mapped(0..=0));
    });
}

/// A walk takes the locks anew for each area.
#[test]
fn a_walk_beside_changes() {
    Scene::run("a_walk_beside_changes", 2, |scene| {
        let next = |at: &Mapping| scene.file.next_area(0.., Some(*at));
        let walk: Vec<_> = core::iter::successors(scene.file.next_area(0.., None), next).collect();
        assert!(walk.is_sorted_by(|a, b| a < b) && walk.contains(&scene.stays), "{walk:?}");
        let known = [scene.stays, scene.comes, scene.goes];
        let is_known = |mapping| known.contains(mapping) || scene.moves.contains(mapping);
        assert!(walk.iter().all(is_known), "{walk:?}");
    });
}

#[test]
fn counts_beside_changes() {
    Scene::run("counts_beside_changes", 2, |scene| {
        let (areas, shared_writable) = (scene.file.len(), scene.file.shared_writable());
        assert!(matches!(areas, 3 | 4) && (1..=3).contains(&shared_writable), "{areas} {shared_writable}");
    });
}

/// The first areas of a shard, by two threads.
#[test]
fn a_shard_is_made() {
    model("a_shard_is_made", Some(3), || {
        let file = file();
        let [first, _, third] = SPACES;
        let link = |file: &File, space| {
            change(file, space, None, Some(area(1, 0, false)));
            assert!(file.areas(0..).unwrap().iter().any(|mapping| mapping.space == space), "what was just linked");
        };
        let other = file.clone();
        let thread = thread::spawn(move || link(&other, first));
        link(&file, third);
        thread.join().unwrap();
        assert_linked(&file, [first, third].map(|space| Mapping { space, area: area(1, 0, false) }).into());
    });
}

/// The last area of a shard goes, while two threads set memory aside in that shard: for an area
/// that comes, and for nothing.
#[test]
fn memory_that_is_set_aside() {
    model("memory_that_is_set_aside", Some(3), || {
        let file = file();
        let [first, _, third] = SPACES;
        change(&file, first, None, Some(area(1, 0, false)));
        let others = [file.clone(), file.clone()];
        let [goes, cancelled] = others;
        let goes = thread::spawn(move || change(&goes, first, Some(area(1, 0, false)), None));
        let cancelled = thread::spawn(move || {
            plan(&cancelled, first, None, Some(area(2, 0, false))).cancel(first, |_| Some(&*cancelled));
        });
        change(&file, third, None, Some(area(1, 0, false)));
        goes.join().unwrap();
        cancelled.join().unwrap();
        assert_linked(&file, vec![Mapping { space: third, area: area(1, 0, false) }]);
        // The first block of nodes has room for eight.
        let bytes = file.bytes();
        drop(file.reserve(third, 7).unwrap());
        assert_eq!(file.bytes(), bytes, "memory without a claim on it was lost");
    });
}

/// A space of one area, and its page table.
struct Space {
    number: u64,
    requests: [Request; THREADS],
    /// Watched: a call has it under its range lock.
    area: Body<Option<FileArea>>,
    /// The address of the page in the page table, or 0.
    shown: AtomicU64,
    /// Whether the embedder has the space, and can make calls on it.
    is_there: Signal,
}

impl Space {
    fn new(number: u64, area: Option<FileArea>) -> Space {
        let shown = AtomicU64::new(area.map_or(0, |area| area.start));
        let space =
            Space { number, requests: Default::default(), area: Body::of(area), shown, is_there: Signal::default() };
        if area.is_some() {
            space.is_there.set();
        }
        space
    }

    /// The plan of a call is applied.
    fn apply(&self, area: Option<FileArea>) {
        self.shown.store(area.map_or(0, |area| area.start), Ordering::Relaxed);
    }

    /// Makes a call, which makes an area of the one that is there.
    fn call(&self, file: &File, rank: usize, new: impl FnOnce(Option<FileArea>) -> Option<FileArea>) {
        hold(&self.requests, rank, Spans::one(Span::FULL));
        let before = self.area.read();
        let after = new(before);
        let mut plan = plan(file, self.number, before, after);
        self.apply(after);
        plan.make(self.number, |_| Some(file));
        self.area.set(after);
        self.requests[rank].leave();
    }

    /// Takes out what is in a range.
    fn unmap(&self, file: &File, rank: usize, range: SpaceRange) {
        self.call(file, rank, |area| area.filter(|area| area.start >= range.end || area.end <= range.start));
    }
}

/// A file, and the spaces that may map its first page.
struct System {
    file: Arc<File>,
    spaces: [Space; 2],
}

impl System {
    /// The first space maps the page.
    fn new() -> Arc<System> {
        let file = file();
        let mapped = area(1, 0, false);
        let [parent, child, _] = SPACES;
        change(&file, parent, None, Some(mapped));
        Arc::new(System { file, spaces: [Space::new(parent, Some(mapped)), Space::new(child, None)] })
    }

    /// Moves the area of the first space.
    fn move_area(&self, rank: usize) {
        self.spaces[0].call(&self.file, rank, |mapped| mapped.map(|_| area(2, 0, false)));
    }

    /// Forks the first space: the second one is the child.
    fn fork(&self, rank: usize) {
        let [parent, child] = &self.spaces;
        hold(&parent.requests, rank, Spans::one(Span::FULL));
        let inherited = parent.area.read();
        child.area.set(inherited);
        child.apply(inherited);
        change(&self.file, child.number, None, inherited);
        parent.requests[rank].leave();
        child.is_there.set();
    }

    /// Unmaps the page wherever it is mapped.
    fn revoke(&self, rank: usize) {
        loop {
            let found = self.file.mapped(0..=0).unwrap();
            if found.is_empty() {
                break;
            }
            for range in found {
                let space = self.spaces.iter().find(|space| space.number == range.space).expect("no such space");
                space.is_there.wait(None);
                space.unmap(&self.file, rank, range);
            }
        }
    }

    /// Whether a page table shows the page, as far as this thread knows.
    fn is_shown(&self) -> bool {
        self.spaces.iter().any(|space| space.shown.load(Ordering::Relaxed) != 0)
    }

    /// Runs a call beside a revocation.
    fn run(name: &'static str, other: fn(&System, usize)) {
        model(name, Some(3), move || {
            let system = System::new();
            let same = system.clone();
            let thread = thread::spawn(move || other(&same, 0));
            system.revoke(1);
            assert!(!system.is_shown(), "shown after a revocation");
            thread.join().unwrap();
            assert!(!system.is_shown());
            assert!(system.spaces.iter().all(|space| space.area.read().is_none()));
            assert_linked(&system.file, Vec::new());
        });
    }
}

#[test]
fn a_revocation_beside_a_fork() {
    System::run("a_revocation_beside_a_fork", System::fork);
}

#[test]
fn a_revocation_beside_a_move() {
    System::run("a_revocation_beside_a_move", System::move_area);
}

#[test]
fn a_revocation_beside_a_call_that_unmaps() {
    let unmap = |system: &System, rank| system.spaces[0].call(&system.file, rank, |_| None);
    System::run("a_revocation_beside_a_call_that_unmaps", unmap);
}
