//! Workloads of processes that map the same files, on the index of each design: each file has a
//! reverse map, to which each area is linked, and from which it is unlinked. Knows no figure.
//!
//! - **FILES-1** At the end of a round no process maps a file, and the reverse maps are empty.

use crate::figures::design::{Design, with_index};
use crate::loaded::each;
use crate::shared::in_parallel::in_parallel;
use crate::spaces::links::{APART, FILE_AREAS, library, scaling};
use crate::spaces::loaded::Turn;
use crate::spaces::rwlock::{Number, config, limits};
use samara_bench::data::{BASE, PAGE};
use samara_bench::workloads::Effort;
use samara_bench::workloads::engine::timed;
use samara_bench::workloads::files::{Batch, Case, SIZES};
use samara_mm::files::{Batch as Locked, Counted, FileArea, LockStats, NoStats, ReverseMap, Stats};
use samara_mm::{AddressSpace, AreaIndex, Caps, Image, Linux, MapFlags, MapRequest, Object, Prot, Sleep};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Start of the pieces of the archive; above the libraries.
const ARCHIVE: u64 = 1 << 40;
/// Time limit of a round.
const LIMIT: Duration = Duration::from_millis(250);

/// The rows of a round ([`Work::rows`](crate::figures::work::Work::rows)).
pub fn run(design: Design, case: Case, n: usize, workers: usize, effort: Effort) -> Vec<f64> {
    let empty: Box<dyn Fn() -> Box<dyn Process> + Sync> =
        with_index!(design, Number, I => Box::new(empty::<I>), unreachable!("a design with an index"));
    // The published designs have one lock for each file.
    let shards = if design == Design::Samara { ReverseMap::<Sleep>::SHARDS } else { 1 };
    let ways = case.batches();
    match case {
        Case::Rmap => {
            let map = ReverseMap::with_shards(shards).expect("memory for a map");
            let turn = Turn { round: effort.seed, effort: effort.count, limit: LIMIT, threads: workers };
            // A pair is two changes.
            vec![2.0 * scaling(&map, n, turn)]
        }
        Case::Batches => ways.iter().flat_map(|batch| acquisitions(n, *batch, &*empty)).collect(),
        _ => {
            let files = |batch: &Batch| Files::<NoStats>::new(n, shards, *batch);
            ways.iter().map(|batch| files(batch).time(case, workers, effort, &*empty)).collect()
        }
    }
}

/// A process: an address space with some index.
trait Process: Send {
    fn fork(&self) -> Box<dyn Process>;
    /// Maps pages of a file at this place.
    fn map_file(&mut self, at: u64, pages: u64, prot: Prot, file: Number, page: u64);
    /// Maps pages of zeros at this place.
    fn map_zeros(&mut self, at: u64, pages: u64, prot: Prot);
    /// Maps a library by one call.
    fn map_image(&mut self, image: &Image<Number>);
    fn protect(&mut self, start: u64, len: u64, prot: Prot);
    /// The areas of files in `[start, end)`, with the numbers of their files.
    fn linked(&self, start: u64, end: u64) -> Vec<(usize, FileArea)>;
}

/// A space that its children share if its index can be shared.
struct Space<I>(AddressSpace<Number, I>);

fn empty<I: AreaIndex<Number> + Send + 'static>() -> Box<dyn Process> {
    let mut space = AddressSpace::with_index(config());
    space.set_limits(limits());
    space.set_caps(Caps::empty());
    Box::new(Space::<I>(space))
}

impl<I: AreaIndex<Number> + Send + 'static> Process for Space<I> {
    fn fork(&self) -> Box<dyn Process> {
        Box::new(Space(self.0.fork().expect("memory for a child")))
    }
    fn map_file(&mut self, at: u64, pages: u64, prot: Prot, file: Number, page: u64) {
        let request = MapRequest::file(at, pages * PAGE, prot, MapFlags::PRIVATE, file, page * PAGE);
        self.0.map(&request).expect("a place of its own");
    }
    fn map_zeros(&mut self, at: u64, pages: u64, prot: Prot) {
        self.0.map(&MapRequest::anonymous(at, pages * PAGE, prot)).expect("a place of its own");
    }
    fn map_image(&mut self, image: &Image<Number>) {
        self.0.map_image(image, &mut Linux).expect("a place of its own");
    }
    fn protect(&mut self, start: u64, len: u64, prot: Prot) {
        self.0.protect(start, len, prot, None).expect("an area to protect");
    }
    fn linked(&self, start: u64, end: u64) -> Vec<(usize, FileArea)> {
        let areas = self.0.areas_in(start, end);
        let linked = areas.filter_map(|at| {
            let Object::File(Number(file)) = at.area.object else { return None };
            let page = at.area.bias.wrapping_add(at.start / PAGE);
            Some((file as usize, FileArea { start: at.start, end: at.end, page, shared_writable: false }))
        });
        linked.collect()
    }
}

/// The files that all processes map: the archive first, then the libraries.
struct Files<S: Stats> {
    maps: Vec<ReverseMap<Sleep, S>>,
    libraries: Vec<Image<Number>>,
    /// Pieces of the archive that are mapped.
    pieces: u64,
    batch: Batch,
}

impl<S: Stats> Files<S> {
    /// For processes of about n areas of files; a fifth of the areas are pieces of the archive.
    fn new(n: usize, shards: usize, batch: Batch) -> Self {
        let libraries = (n * 4 / 5 / FILE_AREAS).max(1);
        let map = |_| ReverseMap::with_shards(shards).expect("memory for a map");
        Files {
            maps: (0..=libraries).map(map).collect(),
            libraries: (0..libraries as u64).map(|at| library(Number(1 + at), BASE + at * APART)).collect(),
            pieces: (n as u64 / 5).max(1),
            batch,
        }
    }

    /// Links new areas, in order, or unlinks areas, and takes the files' locks as often as `batch`
    /// says.
    fn tell(&self, process: u64, mut areas: Vec<(usize, FileArea)>, batch: Batch, comes: bool) {
        let most = match batch {
            Batch::Each => 1,
            Batch::Eights => 8,
            Batch::Whole => usize::MAX,
        };
        if batch == Batch::Whole {
            areas.sort_by_key(|(file, _)| *file);
        }
        let mut rest = &areas[..];
        while let Some((file, _)) = rest.first() {
            let own = rest.iter().take(most).take_while(|(other, _)| other == file).count();
            let mut lock = self.lock(*file, process, if comes { own } else { 0 });
            for (_, area) in &rest[..own] {
                if comes { lock.link(*area) } else { lock.unlink(*area) }.expect("an area as it is");
            }
            rest = &rest[own..];
        }
    }

    fn lock(&self, file: usize, process: u64, links: usize) -> Locked<'_, Sleep, S> {
        self.maps[file].batch(process, links).expect("memory for links")
    }

    /// Maps all libraries, each by a call for each segment or as an image.
    fn map_libraries(&self, process: &mut dyn Process, number: u64, images: bool) {
        for (at, image) in self.libraries.iter().enumerate() {
            if images {
                process.map_image(image);
                self.tell(number, process.linked(image.start, image.start + APART), Batch::Whole, true);
                continue;
            }
            for segment in &image.segments {
                let (start, page) = (image.start + segment.addr, segment.offset / PAGE);
                let end = start + segment.file_len;
                process.map_file(start, segment.file_len / PAGE, segment.prot, image.backing.clone(), page);
                let area = FileArea { start, end, page, shared_writable: false };
                self.tell(number, vec![(1 + at, area)], Batch::Each, true);
                if segment.len > segment.file_len {
                    process.map_zeros(end, (segment.len - segment.file_len) / PAGE, segment.prot);
                }
            }
        }
    }

    /// Maps everything, as quickly as possible.
    fn fill(&self, process: &mut dyn Process, number: u64) {
        self.map_libraries(process, number, true);
        for piece in 0..self.pieces {
            process.map_file(ARCHIVE + 2 * piece * PAGE, 1, Prot::READ, Number(0), 2 * piece);
        }
        self.tell(number, process.linked(ARCHIVE, u64::MAX), Batch::Whole, true);
    }

    /// Unmaps all areas of files of a process.
    fn exit(&self, process: Box<dyn Process>, number: u64, batch: Batch) {
        self.tell(number, process.linked(0, u64::MAX), batch, false);
        drop(process);
    }

    /// Wall nanoseconds of one operation, divided by the workers.
    fn time(
        &self,
        case: Case,
        workers: usize,
        Effort { count, .. }: Effort,
        empty: &(dyn Fn() -> Box<dyn Process> + Sync),
    ) -> f64 {
        let nanos = AtomicU64::new(0);
        let (done, _) = in_parallel(workers, |worker| {
            let (own, child) = (worker as u64, (workers + worker) as u64);
            let mut process = empty();
            self.fill(&mut *process, own);
            let nanos = &nanos;
            move || {
                let (begin, mut done) = (Instant::now(), 0);
                while done < count {
                    let took = self.once(case, &mut *process, (own, child), empty);
                    nanos.fetch_add(took.as_nanos() as u64, Relaxed);
                    done += 1;
                    if begin.elapsed() >= LIMIT {
                        break;
                    }
                }
                self.tell(own, process.linked(0, u64::MAX), Batch::Whole, false);
                done
            }
        });
        for map in &self.maps {
            map.check().expect("a map as it should be");
            assert!(map.is_empty(), "an area that is gone is still linked");
        }
        each(Duration::from_nanos(nanos.into_inner()), done.into_iter().sum()) / workers as f64
    }

    fn once(
        &self,
        case: Case,
        process: &mut dyn Process,
        (own, number): (u64, u64),
        empty: &(dyn Fn() -> Box<dyn Process> + Sync),
    ) -> Duration {
        match case {
            Case::Exit => {
                let child = process.fork();
                self.tell(number, child.linked(0, u64::MAX), Batch::Whole, true);
                timed(|| self.exit(child, number, self.batch)).1
            }
            Case::Fork => {
                let (child, took) = timed(|| {
                    let child = process.fork();
                    self.tell(number, child.linked(0, u64::MAX), self.batch, true);
                    child
                });
                assert_eq!(child.linked(0, u64::MAX), process.linked(0, u64::MAX), "a child with the same areas");
                self.exit(child, number, Batch::Whole);
                took
            }
            Case::Exec => {
                let (child, took) = timed(|| {
                    let mut child = empty();
                    self.map_libraries(&mut *child, number, self.batch == Batch::Whole);
                    child
                });
                assert_eq!(child.linked(0, u64::MAX).len(), FILE_AREAS * self.libraries.len(), "all libraries");
                self.exit(child, number, Batch::Whole);
                took
            }
            Case::Split => timed(|| self.split(process, own)).1,
            Case::Rmap | Case::Batches => unreachable!("a case of its own"),
        }
    }

    /// Protects the second page of the first library's text, and restores its protection.
    fn split(&self, process: &mut dyn Process, number: u64) {
        let start = self.libraries[0].start + 2 * PAGE;
        let area = |from: u64, to: u64| FileArea {
            start: start + from * PAGE,
            end: start + to * PAGE,
            page: 2 + from,
            shared_writable: false,
        };
        let (all, low, middle, high, rest) = (area(0, 4), area(0, 1), area(1, 2), area(2, 4), area(1, 4));
        let lock = |links: usize| self.lock(1, number, links);
        let must = |done: Result<(), samara_mm::files::LinkError>| done.expect("an area as it is");
        process.protect(middle.start, PAGE, Prot::READ);
        if self.batch == Batch::Whole {
            let mut own = lock(2);
            must(own.replace(all, low));
            must(own.link(middle));
            must(own.link(high));
        } else {
            // A cut below the page, and one above it.
            let mut own = lock(1);
            must(own.replace(all, low));
            must(own.link(rest));
            drop(own);
            let mut own = lock(1);
            must(own.replace(rest, middle));
            must(own.link(high));
        }
        process.protect(middle.start, PAGE, Prot::READ | Prot::EXEC);
        if self.batch == Batch::Whole {
            let mut own = lock(0);
            must(own.unlink(high));
            must(own.unlink(middle));
            must(own.replace(low, all));
        } else {
            let mut own = lock(0);
            must(own.unlink(high));
            must(own.replace(middle, rest));
            drop(own);
            let mut own = lock(0);
            must(own.unlink(rest));
            must(own.replace(low, all));
        }
    }
}

/// Number of lock acquisitions of an exit, by number of areas ([`SIZES`]).
fn acquisitions(n: usize, batch: Batch, empty: &dyn Fn() -> Box<dyn Process>) -> Vec<f64> {
    let files: Files<Counted> = Files::new(n, 1, batch);
    let mut process = empty();
    files.fill(&mut *process, 1);
    let counts = || -> Vec<u64> {
        let stats: Vec<LockStats> = files.maps.iter().map(|map| map.stats().expect("a map that counts")).collect();
        SIZES.iter().map(|size| stats.iter().map(|of| of.areas[LockStats::size(*size)]).sum()).collect()
    };
    let before = counts();
    files.exit(process, 1, batch);
    counts().iter().zip(before).map(|(after, before)| (after - before) as f64).collect()
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
