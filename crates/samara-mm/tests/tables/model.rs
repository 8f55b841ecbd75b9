//! Rows on the model: a [`Machine`] that answers by `linux::call`.

use crate::machine::{EFAULT, Machine, Outcome, PAGE, SUMS, Seen, play};
use crate::script::{CLOSE, FILES, Limit, OTHER, Origin, Row};
use samara_mm::linux::{self, Host, OpenFile};
use samara_mm::*;
use std::sync::Arc;

type Space = AddressSpace<Thing>;

const HEAP: u64 = 0x5555_0000_0000;
const SPECIAL: u64 = 0x7fff_e000_0000;
const WORD: u64 = 0x7fff_d000_0000;
const SEGMENT: i32 = 5;
const HUGE_SEGMENT: i32 = 6;
/// Memory and swap together.
const MEMORY: u64 = 1 << 36;

/// The files by descriptor, which is their place in `FILES`.
#[derive(Default)]
struct World {
    /// How many hidden ones there have been.
    hidden: u64,
    /// Whether protection key 0 is allocated.
    keys: bool,
}

impl Host<Thing> for World {
    fn pkey(&mut self, key: u32) -> bool {
        key == 0 && self.keys
    }

    fn file(&mut self, fd: i32) -> Result<OpenFile<Thing>, Errno> {
        let name = usize::try_from(fd).ok().and_then(|i| FILES.get(i)).ok_or(Errno::EBADF)?;
        let huge = name.starts_with("huge");
        let (open, mode) = match *name {
            "f" | "dup" => (1, FileMode::RW),
            "again" => (2, FileMode::RW),
            "ro" => (3, FileMode::READ),
            "wo" => (4, FileMode::WRITE),
            "g" => (5, FileMode::RW),
            "dir" | "pipe" => (6, FileMode::READ | FileMode::UNMAPPABLE),
            "sealed" => (7, FileMode::RW | FileMode::WRITE_SEALED),
            "future-sealed" => (8, FileMode::RW | FileMode::WRITE_SEALED),
            "no-exec" => (9, FileMode::RW | FileMode::NOEXEC),
            "append-only" => (10, FileMode::RW | FileMode::APPEND_ONLY),
            "zero" => (11, FileMode::RW | FileMode::ZERO),
            "zero-ro" => (12, FileMode::READ | FileMode::ZERO),
            "secret" => (13, FileMode::RW),
            "huge-file" => (14, FileMode::RW),
            "huge-ro" => (15, FileMode::READ),
            _ => return Err(Errno::EBADF),
        };
        let name = match *name {
            "secret" => "/secretmem (deleted)",
            _ if mode.contains(FileMode::ZERO) => "/dev/zero",
            _ => "/file",
        };
        let huge = huge.then_some(PageSize::M2);
        Ok(OpenFile { backing: Thing { huge, ..thing(open, name) }, mode })
    }

    fn shared_memory(&mut self, _bytes: u64) -> Result<Thing, Errno> {
        self.hidden += 1;
        Ok(thing(1000 + self.hidden, "/file"))
    }

    fn huge_memory(&mut self, page: Option<PageSize>) -> Result<Thing, Errno> {
        self.hidden += 1;
        let huge = Some(page.unwrap_or(PageSize::M2));
        let there = [Some(PageSize::M2), Some(PageSize::G1)].contains(&huge);
        if there {
            Ok(Thing { huge, ..thing(1000 + self.hidden, "/anon_hugepage (deleted)") })
        } else {
            Err(Errno::EINVAL)
        }
    }

    fn read(&mut self, addr: u64, to: &mut [u8]) -> Result<(), Errno> {
        if addr != WORD {
            return Err(Errno::EFAULT);
        }
        to.fill(0);
        to[0] = 1;
        Ok(())
    }

    fn segment(&mut self, id: i32, _prot: Prot) -> Result<Segment<Thing>, Errno> {
        self.hidden += 1;
        let huge = match id {
            SEGMENT => None,
            HUGE_SEGMENT => Some(PageSize::M2),
            _ => return Err(Errno::EINVAL),
        };
        let backing = Thing { huge, ..thing(1000 + self.hidden, "/SYSV00000000 (deleted)") };
        Ok(Segment { bytes: self.segment_bytes(&backing), backing })
    }

    fn segment_bytes(&mut self, segment: &Thing) -> u64 {
        if segment.huge.is_some() { 512 * PAGE + 100 } else { 4 * PAGE + 100 }
    }

    fn incore(&mut self, vec: u64, _start: u64, _pages: u64) -> Result<(), Errno> {
        if vec == WORD { Ok(()) } else { Err(Errno::EFAULT) }
    }
}

/// The objects that areas map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Thing {
    id: FileId,
    huge: Option<PageSize>,
}

impl Backing for Thing {
    fn dev(&self) -> (u32, u32) {
        self.id.dev
    }
    fn inode(&self) -> u64 {
        self.id.inode
    }
    fn name(&self) -> &str {
        &self.id.name
    }
    fn is_zero(&self) -> bool {
        self.id.is_zero()
    }
    fn is_segment(&self) -> bool {
        self.id.is_segment()
    }
    fn is_secret(&self) -> bool {
        self.id.is_secret()
    }
    fn huge_page(&self) -> Option<PageSize> {
        self.huge
    }
}

fn thing(open: u64, name: &str) -> Thing {
    Thing { id: FileId { dev: (0, 1), inode: open, open, name: Arc::from(name) }, huge: None }
}

pub(crate) struct Model {
    pub(crate) space: Space,
    world: World,
    /// What the last call did.
    pub(crate) plan: Plan,
}

impl Model {
    fn new() -> Model {
        Model { space: space(65530), world: World::default(), plan: Plan::default() }
    }
}

/// As the kernel that rows were first asked of.
fn space(max_map_count: usize) -> Space {
    let (overcommit, features) = (Overcommit::Guess { total: MEMORY }, Features::of_release("6.18.44"));
    Space::new(Config { max_map_count, overcommit, features, ..Config::default() })
}

/// What comes of the row.
pub(crate) fn run(row: &Row) -> Outcome {
    let mut out = Outcome::new();
    play(&mut Model::new(), &row.steps, &mut out);
    assert!(!out.lacks, "not of the model: {}", row.text);
    out
}

/// The model when it has answered these calls as their text says.
pub(crate) fn after(script: &str) -> Model {
    let row = Row::parse(script, "");
    let (mut model, mut out) = (Model::new(), Outcome::new());
    play(&mut model, &row.steps, &mut out);
    assert_eq!(row.answers_differ(&out), None, "{script}");
    model
}

impl Machine for Model {
    fn call(&mut self, nr: u64, args: [u64; 6]) -> i64 {
        // set_mempolicy is no call of the model's: it concerns a task.
        if nr == 238 {
            return 0;
        }
        let called = linux::call(&mut self.space, &mut self.world, &mut Linux, nr, args);
        let called = called.unwrap_or_else(|| panic!("not a call of the model: {nr}"));
        self.plan = called.plan;
        called.result
    }

    fn write(&mut self, addr: u64) -> i64 {
        self.space.fault(addr, Access::Write).map_or(-EFAULT, |_| 0)
    }

    fn fault(&mut self, addr: u64, access: Access) -> i64 {
        let mut child = self.space.fork().expect("memory");
        child.fault(addr, access).map_or_else(|refused| -i64::from(refused.si_code()), |_| 0)
    }

    fn query(&mut self, [addr, flags, size, name_size, name]: [u64; 5]) -> i64 {
        let words = [size, flags, addr, 0, 0, 0, 0, 0, 0, 0, name_size, name, 0, 0];
        let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let query = Query::from_bytes(&bytes, PageSize::K4);
        match query.and_then(|q| self.space.query(&q)) {
            Ok(answer) => {
                answer.to_bytes(&mut bytes[..size.min(104) as usize]);
                bytes[24..32].iter().rev().fold(0, |n, b| n << 8 | i64::from(*b))
            }
            Err(e) => -i64::from(e.raw()),
        }
    }

    fn fork(&mut self) -> i64 {
        match self.space.fork() {
            Ok(child) => {
                self.space = child;
                0
            }
            Err(e) => -i64::from(e.raw()),
        }
    }

    fn limit(&mut self, limit: Limit, bytes: u64, relative: bool) -> i64 {
        let (mut limits, used) = (*self.space.limits(), self.space.counters());
        let (which, now) = match limit {
            Limit::As => (&mut limits.address_space, used.total),
            Limit::Data => (&mut limits.data, used.data),
            Limit::Locked => (&mut limits.locked, used.locked),
            Limit::Stack => (&mut limits.stack, 0),
            Limit::SoftData => (&mut limits.data, used.data),
        };
        which.soft = bytes + if relative { now } else { 0 };
        if limit != Limit::SoftData {
            which.hard = which.soft;
        }
        self.space.set_limits(limits);
        0
    }

    fn drop_caps(&mut self) -> i64 {
        self.space.set_caps(Caps::empty());
        0
    }

    fn room(&mut self, areas: u64) -> i64 {
        // The heap is there already, if the row has one.
        let (there, layout) = (self.space.len(), self.space.layout());
        self.space = space(there + areas as usize);
        if layout != Layout::default() {
            self.origin(Origin::Heap);
        }
        0
    }

    fn uffd(&mut self, addr: u64, len: u64, mode: u64) -> Option<i64> {
        let id = if mode & OTHER == 0 { 1 } else { 2 };
        let uffd = Uffd { id, fork_events: false, remap_events: false };
        let done = match mode & !OTHER {
            CLOSE => self.space.close_uffd(id),
            0 => self.space.unregister_uffd(addr, len),
            bits => {
                let all = [(1, Flags::UFFD_MISSING), (2, Flags::UFFD_WP), (4, Flags::UFFD_MINOR)];
                let modes =
                    all.iter().filter(|(bit, _)| bits & bit != 0).fold(Flags::empty(), |all, (_, mode)| all | *mode);
                self.space.register_uffd(addr, len, uffd, modes)
            }
        };
        Some(done.map_or_else(|e| -i64::from(e.errno.raw()), |_| 0))
    }

    fn origin(&mut self, origin: Origin) -> u64 {
        match origin {
            Origin::Zero | Origin::Last => 0,
            Origin::Heap => {
                // A heap that ends with a page that nothing joins.
                let (start_brk, brk) = (HEAP - PAGE, HEAP - PAGE);
                self.space.set_layout(Layout { start_brk, brk, ..Layout::default() });
                self.space.brk(HEAP).expect("room");
                self.space.protect(HEAP - PAGE, PAGE, Prot::NONE, None).expect("the heap");
                self.space.advise(HEAP - PAGE, PAGE, Advice::DontDump).expect("the heap");
                HEAP
            }
            Origin::Special => {
                let vvar = "rd mr pf io de dd";
                let pages =
                    [("[vvar]", 0, 4, vvar), ("[vvar_vclock]", 4, 6, vvar), ("[vdso]", 6, 8, "rd ex mr mw me de")];
                for (name, from, to, letters) in pages {
                    let area = Area::new(Flags::from_letters(letters), Object::Special(name.into()), 0);
                    self.space.import(SPECIAL + from * PAGE, SPECIAL + to * PAGE, area).expect("free");
                }
                SPECIAL
            }
            Origin::Least => self.space.config().bases.least,
            Origin::Word => WORD,
            Origin::Segment => SEGMENT as u64,
            Origin::HugeSegment => HUGE_SEGMENT as u64,
            Origin::File(i) => i as u64,
        }
    }

    fn privileged(&mut self) -> bool {
        true
    }

    fn keys(&mut self, wanted: bool) -> bool {
        self.space = Space::new(Config { protection_keys: wanted, ..self.space.config().clone() });
        self.world.keys = wanted;
        true
    }

    fn guesses(&self) -> bool {
        true
    }

    fn sums(&mut self) -> [u64; SUMS.len()] {
        let counters = self.space.counters();
        [counters.total, counters.data, counters.stack, counters.locked]
    }

    fn huge_pages(&self) -> bool {
        true
    }

    fn areas(&mut self, start: u64, end: u64, to: &mut [Seen]) -> usize {
        let mut n = 0;
        for (a, to) in self.space.areas_in(start, end).zip(to) {
            let file = matches!(a.area.object, Object::File(_));
            let offset = if file { a.offset(PageSize::K4) } else { 0 };
            *to = Seen { start: a.start, end: a.end, flags: a.area.flags, offset };
            n += 1;
        }
        n
    }

    fn check(&self) {
        self.space.check().unwrap_or_else(|v| panic!("{v}"));
    }
}
