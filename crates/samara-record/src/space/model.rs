//! The model of a space: a `samara_mm` address space over the files that `/proc` names. Imports
//! areas from the kernel's view, and exports them as records.
//!
//! It knows neither calls nor comparisons. Neighbours: `apply` changes it, `compare` compares it.

use std::sync::Arc;

use samara_mm::{
    AddressSpace, Anon, Area, Backing, Config, Extras, Features, Flags, HugePlaces, Object, Overcommit, PageSize,
    Placed, Reason, Touches, Uffd,
};
use samara_trace::event::{AreaRecord, Step};
use samara_trace::recorder::{flags_reason, recorded};

use crate::os::huge_pages;
use crate::os::proc::{EXEC, KernelArea, READ, SHARED, WRITE};
use crate::os::sys;
use crate::space::reach::Range;

/// The file behind an area, as far as `/proc` shows it: the inode. Separate opens of one inode are
/// learnt.
#[derive(Clone, Debug)]
pub(crate) struct Inode {
    pub(crate) dev: (u32, u32),
    pub(crate) inode: u64,
    /// The name at the time of the map. A later rename does not make it another file.
    pub(crate) name: Arc<str>,
    /// The places that suit the file. Known only if it is about to be mapped.
    pub(crate) places: HugePlaces,
    /// Its page size, if it is in huge pages of hugetlbfs.
    pub(crate) huge: Option<PageSize>,
}

impl PartialEq for Inode {
    fn eq(&self, other: &Self) -> bool {
        (self.dev, self.inode) == (other.dev, other.inode)
    }
}

impl Eq for Inode {}

impl Backing for Inode {
    fn dev(&self) -> (u32, u32) {
        self.dev
    }
    fn inode(&self) -> u64 {
        self.inode
    }
    fn name(&self) -> &str {
        &self.name
    }
    fn is_zero(&self) -> bool {
        &*self.name == "/dev/zero"
    }
    fn is_segment(&self) -> bool {
        self.name.starts_with("/SYSV")
    }
    fn is_secret(&self) -> bool {
        self.dev.0 == 0 && &*self.name == SECRET
    }
    fn huge_places(&self) -> HugePlaces {
        self.places
    }
    fn huge_page(&self) -> Option<PageSize> {
        self.huge
    }
}

/// The name of files that `memfd_secret` made. They have no device.
pub(crate) const SECRET: &str = "/secretmem (deleted)";

pub(crate) type Model = AddressSpace<Inode>;

/// An empty model for this machine and its kernel.
pub(crate) fn empty() -> Model {
    let number = |path: &str| std::fs::read_to_string(path).ok().and_then(|t| t.trim().parse::<usize>().ok());
    let strict = number("/proc/sys/vm/overcommit_memory") == Some(2);
    let overcommit = if strict {
        Overcommit::Never { limit: u64::MAX, admin_reserve: 0, user_reserve: 0 }
    } else {
        Overcommit::Always
    };
    promising(overcommit, samara_probe::Profile::running().features)
}

/// An empty model of a machine with these overcommit settings and kernel features.
pub(crate) fn promising(overcommit: Overcommit, features: Features) -> Model {
    let defaults = Config::default();
    let mut model = AddressSpace::new(Config {
        page_size: PageSize::new(sys::page_size()).unwrap_or(PageSize::K4),
        // No limits: the kernel has already checked the addresses and the number of areas.
        task_size: 1 << 56,
        max_map_count: usize::MAX / 2,
        touches: Touches::Unseen,
        overcommit,
        features,
        stack_guard_pages: 0,
        ..defaults
    });
    model.set_huge_pages(huge_pages::HUGE_PAGES.map(|size| (size, u64::MAX)));
    model
}

/// An area of the kernel's view as an area of the model.
pub(crate) fn import(k: &KernelArea, page: u64) -> (Area<Inode>, Extras) {
    let name = k.name.as_deref().unwrap_or_default();
    let flags = match &k.flags {
        Some(letters) => Flags::from_letters(letters),
        None if k.huge().is_some() => {
            guess_flags(k.perms).difference(Flags::ACCOUNT) | Flags::HUGETLB | Flags::DONTEXPAND
        }
        // The first thread's stack grows by faults.
        None if name == "[stack]" => guess_flags(k.perms) | Flags::GROWSDOWN,
        None => guess_flags(k.perms),
    };
    let (object, tag) = object(k, name);
    let bias = match &object {
        Object::File(_) => Area::<Inode>::bias_of(k.start, k.offset, page),
        _ => 0,
    };
    let mut area = Area::new(flags, object, bias);
    if area.is_private() && !matches!(area.object, Object::Special(_)) {
        area.set_anon(Anon::Unknown);
    }
    (area, Extras { name: tag, ..Extras::default() })
}

/// The userfaultfd of the parts of one area. `None`: it is not known, or the parts disagree.
pub(crate) fn owner<'a>(parts: impl Iterator<Item = Placed<'a, Inode>>) -> Option<Uffd> {
    let mut known = parts.filter_map(|m| m.extras().uffd);
    let first = known.next()?;
    known.all(|other| other == first).then_some(first)
}

/// Sets the userfaultfd of the registered areas in a range to `uffd`: of all of them (`known_too`),
/// or only where it is unknown.
pub(crate) fn own(model: &mut Model, (start, end): Range, uffd: Option<Uffd>, known_too: bool) {
    let other = |owner: Option<Uffd>| if known_too { owner != uffd } else { owner.is_none() };
    let changes = |m: &Placed<'_, Inode>| m.area.flags.intersects(Flags::UFFD) && other(m.extras().uffd);
    let areas = model.areas_in(start, end).filter(changes);
    let areas: Vec<Range> = areas.map(|m| (m.start, m.end)).collect();
    for area in areas {
        let _ = set_owner(model, area, uffd);
    }
}

/// Sets the userfaultfd of all memory in a range. False: out of memory.
pub(crate) fn set_owner(model: &mut Model, (start, end): Range, uffd: Option<Uffd>) -> bool {
    let areas =
        model.areas_in(start, end).map(|m| (m.start.max(start), m.end.min(end), m.area.clone(), m.extras().clone()));
    let areas: Vec<_> = areas.collect();
    areas.into_iter().all(|(start, end, area, extras)| {
        model.forget(start, end).is_ok() && model.import_with(start, end, area, Extras { uffd, ..extras }).is_ok()
    })
}

fn object(k: &KernelArea, name: &str) -> (Object<Inode>, Option<Arc<str>>) {
    let tagged = |tag: &str| name.strip_prefix(tag).and_then(|n| n.strip_suffix(']')).map(Arc::from);
    if k.inode != 0 || k.dev != (0, 0) {
        let name = tagged("[anon_shmem:").map_or(name, |_| "/dev/zero (deleted)");
        return (
            Object::File(Inode {
                dev: k.dev,
                inode: k.inode,
                name: name.into(),
                places: HugePlaces::Plain,
                huge: k.huge(),
            }),
            tagged("[anon_shmem:"),
        );
    }
    match name {
        "" | "[heap]" | "[stack]" => (Object::Anonymous, None),
        _ if name.starts_with("[anon:") => (Object::Anonymous, tagged("[anon:")),
        _ => (Object::Special(name.into()), None),
    }
}

/// Guesses the flags of an area from the letters of its maps line.
fn guess_flags(perms: u8) -> Flags {
    let mut flags = Flags::MAYREAD | Flags::MAYWRITE | Flags::MAYEXEC;
    flags.set(Flags::READ, perms & READ != 0);
    flags.set(Flags::WRITE, perms & WRITE != 0);
    flags.set(Flags::EXEC, perms & EXEC != 0);
    flags.set(Flags::SHARED | Flags::MAYSHARE, perms & SHARED != 0);
    flags.set(Flags::ACCOUNT, perms & (SHARED | WRITE) == WRITE);
    flags
}

/// The letters of an area's maps line.
pub(crate) fn perms(flags: Flags) -> u8 {
    let bit = |flag, bit| if flags.contains(flag) { bit } else { 0 };
    bit(Flags::READ, READ) | bit(Flags::WRITE, WRITE) | bit(Flags::EXEC, EXEC) | bit(Flags::MAYSHARE, SHARED)
}

/// Offset, device and inode of an area's maps line.
pub(crate) fn backing(model: &Model, at: &Placed<'_, Inode>) -> (u64, (u32, u32), u64) {
    match &at.area.object {
        Object::File(file) => (at.offset(model.config().page_size), file.dev, file.inode),
        _ => (0, (0, 0), 0),
    }
}

/// The name of an area's maps line.
fn name(model: &Model, at: &Placed<'_, Inode>) -> String {
    let layout = model.layout();
    match (&at.area.object, &at.extras().name) {
        (Object::File(_), Some(name)) => format!("[anon_shmem:{name}]"),
        (Object::File(file), None) => file.name.to_string(),
        (Object::Special(name), _) => name.to_string(),
        _ if layout.names_heap(at.start, at.end, model.config().features) => "[heap]".into(),
        _ if at.start <= layout.start_stack && at.end >= layout.start_stack && layout.start_stack != 0 => {
            "[stack]".into()
        }
        (Object::Anonymous, Some(name)) => format!("[anon:{name}]"),
        (Object::Anonymous, None) => String::new(),
    }
}

/// An area as a trace keeps it.
pub(crate) fn record(model: &Model, at: &Placed<'_, Inode>) -> AreaRecord {
    let (offset, dev, inode) = backing(model, at);
    AreaRecord {
        start: at.start,
        end: at.end,
        perms: perms(at.area.flags),
        offset,
        dev,
        inode,
        name: name(model, at),
        apart: apart(model, at.start),
    }
}

/// The reasons that keep the two areas that touch at `addr` apart, as a trace keeps them.
pub(crate) fn apart(model: &Model, addr: u64) -> String {
    let Some(why) = model.why_not_merged(addr).filter(|why| !why.is_empty()) else { return String::new() };
    // Special areas differ in many flags, and would not be joined without these differences either.
    if !why.contains(Reason::Flags) || why.contains(Reason::Special) {
        return why.to_string();
    }
    let flags = flags_reason(model.flags_apart(addr).unwrap_or_default());
    let names: Vec<&str> =
        why.iter().map(|reason| if reason == Reason::Flags { &*flags } else { reason.name() }).collect();
    names.join("+")
}

/// The areas that meet `[start, end)`, as records.
pub(crate) fn records(model: &Model, start: u64, end: u64) -> Vec<AreaRecord> {
    model.areas_in(start, end).map(|at| record(model, &at)).collect()
}

/// The steps of a plan as events have them: those of areas, without those of page content.
pub(crate) fn steps(plan: &[Step]) -> Vec<Step> {
    plan.iter().filter_map(recorded).collect()
}
