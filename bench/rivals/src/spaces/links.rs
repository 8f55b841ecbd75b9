//! Spaces that keep the reverse maps of their files: exit, fork, the mapping of libraries, and a
//! reverse map by itself.
//!
//! - **SPACES-LINKS-1** A mapped library has the areas of [`library`]: five of the file and one of
//!   zeros. All threads map the same files; the first file is the loader.
//! - **SPACES-LINKS-2** After a round each map is as before; [`Links::check`] verifies it.

use crate::loaded::each;
use crate::shared::in_parallel::in_parallel;
use crate::spaces::cases::Case;
use crate::spaces::loaded::{Figure, Subject, Turn};
use crate::spaces::rwlock::{config, limits};
use samara_bench::data::{BASE, Data, PAGE};
use samara_mm::files::{FileArea, ReverseMap};
use samara_mm::{
    AddressSpace, Area, Backing, Caps, FencedDomain, FileMode, Image, ImageSegment, Linux, MapFlags, MapRequest,
    Object, Prot, SharedAddressSpace,
};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Areas of a library that are linked.
pub const FILE_AREAS: usize = 5;
/// Bytes from one library to the next.
pub const APART: u64 = 64 * PAGE;
/// Areas of one space in the reverse map that is measured by itself.
const AREAS_OF_SPACE: usize = 100;
/// First number of those spaces, above those of shared spaces.
const SPACES: u64 = 1 << 32;

/// The way of linking areas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How {
    /// Shards of a reverse map.
    pub shards: usize,
    /// One acquisition for each file that a call changes, as in shared spaces. Else one for each
    /// area, made by the embedder.
    pub batched: bool,
    /// A library is mapped as one image. Else by a call for each segment, as loaders do.
    pub images: bool,
}

/// A file with its reverse map.
#[derive(Clone)]
pub struct File(Arc<Inner>);

struct Inner {
    number: u64,
    how: How,
    map: ReverseMap,
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("File").field(&self.0.number).finish()
    }
}
impl PartialEq for File {
    fn eq(&self, other: &File) -> bool {
        self.0.number == other.0.number
    }
}
impl Eq for File {}

impl Backing for File {
    fn dev(&self) -> (u32, u32) {
        (8, 1)
    }
    fn inode(&self) -> u64 {
        self.0.number
    }
    fn name(&self) -> &str {
        ""
    }
    fn links(&self) -> Option<&dyn samara_mm::files::Links> {
        self.0.how.batched.then_some(&self.0.map)
    }
}

type Space = SharedAddressSpace<File>;

/// A library: headers, text, constants, data that is constant after relocation, and data with zeros
/// behind it.
pub fn library<B>(backing: B, start: u64) -> Image<B> {
    let segment = |addr: u64, pages: u64, offset: u64, of_file: u64, prot| ImageSegment {
        addr: addr * PAGE,
        len: pages * PAGE,
        offset: offset * PAGE,
        file_len: of_file * PAGE,
        prot,
    };
    let segments = vec![
        segment(0, 2, 0, 2, Prot::READ),
        segment(2, 4, 2, 4, Prot::READ | Prot::EXEC),
        segment(6, 2, 6, 2, Prot::READ),
        segment(8, 1, 9, 1, Prot::READ),
        segment(9, 3, 11, 1, Prot::RW),
    ];
    Image { start, fixed: true, backing, mode: FileMode::READ, segments }
}

/// Maps a library as a loader does: each segment by a call, and its zeros by one more.
fn map_segments(space: &Space, image: &Image<File>) {
    for segment in &image.segments {
        let (at, file) = (image.start + segment.addr, image.backing.clone());
        let request = MapRequest::file(at, segment.file_len, segment.prot, MapFlags::PRIVATE, file, segment.offset);
        space.map(&request).expect("a place of its own");
        let zeros = segment.len - segment.file_len;
        if zeros > 0 {
            let request = MapRequest::anonymous(at + segment.file_len, zeros, segment.prot);
            space.map(&request).expect("a place of its own");
        }
    }
}

/// The linked value of an area.
fn linked(start: u64, end: u64, area: &Area<File>) -> Option<(&ReverseMap, FileArea)> {
    let Object::File(file) = &area.object else { return None };
    let page = area.bias.wrapping_add(start / PAGE);
    Some((&file.0.map, FileArea { start, end, page, shared_writable: false }))
}

/// Files, and the way of linking areas in their maps.
#[derive(Debug)]
pub struct Links {
    how: How,
    files: Vec<File>,
    /// The libraries, each at its place.
    images: Vec<Image<File>>,
}

impl Links {
    /// `n` areas: a fifth as many files, at least one.
    pub fn new(data: &Data, how: How) -> Links {
        let map = || ReverseMap::with_shards(how.shards).expect("memory for a map");
        let files = 0..data.n().div_ceil(FILE_AREAS) as u64;
        let files: Vec<_> = files.map(|number| File(Arc::new(Inner { number, how, map: map() }))).collect();
        let images = files.iter().zip(0..).map(|(file, at)| library(file.clone(), BASE + at * APART)).collect();
        Links { how, files, images }
    }

    fn empty() -> Space {
        let mut space = AddressSpace::new(config());
        space.set_limits(limits());
        space.set_caps(Caps::empty());
        Space::from_space(space, FencedDomain::new()).expect("writes are told")
    }

    /// Links the areas of `[start, end)` one by one, or unlinks them, if the space does not do it.
    #[inline]
    fn by_hand(&self, space: &Space, (start, end): (u64, u64), comes: bool) {
        if self.how.batched {
            return;
        }
        for (start, end, area) in space.maps().areas_in(start, end) {
            if let Some((map, area)) = linked(start, end, &area) {
                let mut batch = map.batch(space.number(), usize::from(comes)).expect("memory for a link");
                if comes { batch.link(area) } else { batch.unlink(area) }.expect("an area as it is");
            }
        }
    }

    fn map_all(&self, space: &Space) {
        for image in &self.images {
            if self.how.images {
                space.map_image(image, &mut Linux).expect("a place of its own");
            } else {
                map_segments(space, image);
            }
            self.by_hand(space, (image.start, image.start + APART), true);
        }
    }

    fn unmap_all(&self, space: &Space) {
        self.by_hand(space, (0, u64::MAX), false);
        space.unmap(BASE, self.images.len() as u64 * APART).expect("nothing is sealed");
    }

    fn exit(&self, space: Space) {
        self.by_hand(&space, (0, u64::MAX), false);
        space.exit();
    }

    /// Each thread repeats `act` on a separate space until `effort` or the time limit is reached;
    /// `act` returns the time that counts. Returns the mean nanoseconds of one.
    fn repeat(&self, turn: Turn, filled: bool, act: impl Fn(&Space) -> Duration + Sync) -> f64 {
        let nanos = AtomicU64::new(0);
        let (done, _) = in_parallel(turn.threads, |_| {
            let space = Self::empty();
            if filled {
                self.map_all(&space);
            }
            let (act, nanos) = (&act, &nanos);
            move || {
                let (start, mut count) = (Instant::now(), 0);
                while count < turn.effort {
                    nanos.fetch_add(act(&space).as_nanos() as u64, Relaxed);
                    count += 1;
                    if start.elapsed() >= turn.limit {
                        break;
                    }
                }
                if filled {
                    self.unmap_all(&space);
                }
                count
            }
        });
        each(Duration::from_nanos(nanos.into_inner()), done.into_iter().sum())
    }

    /// Panics unless all maps are empty and as they should be.
    fn check(&self) {
        for file in &self.files {
            file.0.map.check().expect("a map as it should be");
            assert!(file.0.map.is_empty(), "an area of {file:?} is still linked");
        }
    }
}

/// Links and unlinks in the map of one file, which has `n` areas of spaces with [`AREAS_OF_SPACE`]
/// each, and none when it is over. Nanoseconds of the wall for each change.
pub fn scaling(map: &ReverseMap, n: usize, Turn { round, effort, limit, threads }: Turn) -> f64 {
    let spaces = n.div_ceil(AREAS_OF_SPACE).next_multiple_of(threads) as u64;
    let area = |number: u64| {
        let page = number * 7 % 1000;
        let start = number * 16 * PAGE;
        FileArea { start, end: start + 4 * PAGE, page, shared_writable: false }
    };
    let areas = n.div_ceil(spaces as usize) as u64;
    let each_area = |comes: bool| {
        for space in SPACES..SPACES + spaces {
            let mut batch = map.batch(space, areas as usize).expect("memory for links");
            (0..areas).map(area).for_each(|area| {
                if comes { batch.link(area) } else { batch.unlink(area) }.expect("an area as it is");
            });
        }
    };
    each_area(true);
    let (done, elapsed) = in_parallel(threads, |thread| {
        let mut rng = fastrand::Rng::with_seed(round * threads as u64 + thread as u64);
        move || {
            let (start, mut changes) = (Instant::now(), 0);
            while changes < effort {
                for _ in 0..16 {
                    let own = rng.u64(0..spaces / threads as u64) * threads as u64 + thread as u64;
                    let area = area(rng.u64(0..areas));
                    map.batch(SPACES + own, 0).expect("no memory is needed").unlink(area).expect("it is linked");
                    map.batch(SPACES + own, 1).expect("memory for a link").link(area).expect("it is not linked");
                }
                changes += 32;
                if start.elapsed() >= limit {
                    break;
                }
            }
            changes
        }
    });
    assert_eq!(map.len() as u64, spaces * areas, "an area was lost");
    map.check().expect("a map as it should be");
    each_area(false);
    each(elapsed, done.into_iter().sum())
}

impl Subject for Links {
    fn time(&mut self, case: Case, data: &Data, turn: Turn) -> Vec<Figure> {
        let libraries = self.images.len();
        let (row, value) = match case {
            Case::ExecUnlink => {
                let exit = |space: &Space| {
                    let child = space.fork().expect("memory for a child");
                    self.by_hand(&child, (0, u64::MAX), true);
                    self.verify(&child);
                    let start = Instant::now();
                    self.exit(child);
                    start.elapsed()
                };
                ("exec_unlink", self.repeat(turn, true, exit) / libraries as f64)
            }
            Case::ForkLink => {
                let fork = |space: &Space| {
                    let start = Instant::now();
                    let child = space.fork().expect("memory for a child");
                    self.by_hand(&child, (0, u64::MAX), true);
                    let elapsed = start.elapsed();
                    self.verify(&child);
                    self.exit(child);
                    elapsed
                };
                ("fork_link", self.repeat(turn, true, fork) / libraries as f64)
            }
            Case::ImageMap => {
                let map = |space: &Space| {
                    let start = Instant::now();
                    self.map_all(space);
                    let elapsed = start.elapsed();
                    self.verify(space);
                    self.unmap_all(space);
                    elapsed
                };
                ("image_map", self.repeat(turn, false, map) / libraries as f64)
            }
            _ => ("rmap_scaling", scaling(&self.files[0].0.map, data.n(), turn)),
        };
        self.check();
        vec![Figure { row, value, threads: turn.threads }]
    }
}

impl Links {
    /// Panics unless the loader's areas of the space are linked.
    fn verify(&self, space: &Space) {
        let map = &self.files[0].0.map;
        assert_eq!(space.len(), self.images.len() * (FILE_AREAS + 1), "the areas of all libraries");
        assert!(map.is_mapped(11..=11) && map.len() >= FILE_AREAS, "the loader is linked");
    }
}
