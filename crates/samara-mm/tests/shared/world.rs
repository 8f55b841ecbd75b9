//! Random calls as data, made on a shared space and on a space with one owner.

use crate::rng::Rng;
use samara_mm::*;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const PAGE: u64 = 4096;
/// Where the calls are.
pub(crate) const ARENA: u64 = 0x1000_0000;
/// Where the heap starts.
pub(crate) const HEAP: u64 = 0x5000_0000;
/// Where nothing is mapped.
pub(crate) const NOWHERE: u64 = 0x7000_0000;
/// Number of areas that no call is about.
const CROWD: u64 = 40;
/// The size of a huge page where searches are narrow.
const HUGE: u64 = 4 * PAGE;

/// The files that random calls map.
pub(crate) trait Numbered: Backing + Send + Sync {
    fn numbered(n: u64) -> Self;
}

impl Numbered for FileId {
    fn numbered(n: u64) -> Self {
        FileId { dev: (8, 1), inode: n, open: n, name: "/file".into() }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Call<B = FileId> {
    Map(MapRequest<B>),
    Mmap(MapRequest<B>),
    Unmap(u64, u64),
    Protect(u64, u64, Prot),
    Advise(u64, u64, Advice),
    Lock(u64, u64, LockKind),
    Unlock(u64, u64),
    LockAll(bool, bool),
    UnlockAll,
    Seal(u64, u64),
    Brk(u64),
    Remap(RemapRequest),
    Mremap((u64, u64), u64, RemapFlags, u64),
    Name(u64, u64, Option<Arc<str>>),
    Touch(u64, u64),
    Fault(u64, Access),
}

/// What a call answers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Done(Result<(u64, Plan), Error>),
    Fault(Result<(u64, u64, Flags), FaultError>),
}

impl<B: Numbered> Call<B> {
    /// A call in the first `pages` pages of the arena.
    pub(crate) fn random(r: &mut Rng, pages: u64) -> Self {
        let at = ARENA + r.below(pages) * PAGE;
        let len = (1 + r.below(6)) * PAGE;
        let prot = r.pick(&[Prot::empty(), Prot::READ, Prot::RW, Prot::RW, Prot::READ | Prot::EXEC]);
        let kind = if r.below(3) == 0 { LockKind::OnFault } else { LockKind::Now };
        match r.below(40) {
            0..=7 => Call::Map(Call::request(r, at, len, prot)),
            8 => Call::mmap(r, at, len, prot),
            9..=14 => Call::Unmap(at, len),
            15..=19 => Call::Protect(at, len, prot),
            20..=21 => {
                let advice = [Advice::DontFork, Advice::DoFork, Advice::Sequential, Advice::Normal, Advice::DontNeed];
                Call::Advise(at, len, r.pick(&advice))
            }
            22 => Call::Lock(at, len, kind),
            23 => Call::Unlock(at, len),
            24 if r.below(8) == 0 => Call::LockAll(r.below(2) == 0, r.below(2) == 0),
            24 if r.below(4) == 0 => Call::UnlockAll,
            25 if r.below(12) == 0 => Call::Seal(at, PAGE),
            26..=28 => Call::Brk(HEAP + r.below(8) * PAGE + r.below(2) * 100),
            29 => {
                let to = ARENA + (pages + r.below(pages)) * PAGE;
                let mode = match r.below(3) {
                    0 => RemapMode::InPlace,
                    1 => RemapMode::MoveTo(to),
                    _ => RemapMode::Fixed(to),
                };
                let new_len = (1 + r.below(6)) * PAGE;
                Call::Remap(RemapRequest { old: at, old_len: len, new_len, mode, dontunmap: r.below(6) == 0 })
            }
            33 => Call::mremap(r, at, len),
            30 if r.below(4) == 0 => Call::Name(at, len, r.pick(&[None, Some("a"), Some("b")]).map(Arc::from)),
            31 => Call::Touch(at, at + len),
            _ => {
                let access = [Access::Read, Access::Write, Access::Write, Access::Execute][r.below(4) as usize];
                Call::Fault(at + r.below(PAGE), access)
            }
        }
    }

    /// A call in the first `pages` pages of the arena: mostly maps that search for a place there,
    /// and what frees places.
    pub(crate) fn searching(r: &mut Rng, pages: u64) -> Self {
        let at = ARENA + r.below(pages) * PAGE;
        let len = (1 + r.below(3)) * PAGE;
        match r.below(16) {
            0..=5 => Call::mmap(r, at, len, Prot::RW),
            6..=8 => Call::Unmap(at, len),
            9..=10 => Call::mremap(r, at, len),
            11 => Call::Fault(at, Access::Write),
            12 => Call::Protect(at, len, Prot::READ),
            _ => Call::random(r, pages),
        }
    }

    /// A map that is not fixed, sometimes with a hint, sometimes of whole huge pages.
    fn mmap(r: &mut Rng, at: u64, len: u64, prot: Prot) -> Self {
        let len = if r.one_in(4) { len.next_multiple_of(HUGE) } else { len };
        let hint = if r.one_in(3) { at } else { 0 };
        let request = Call::request(r, hint, len, prot);
        Call::Mmap(MapRequest { flags: request.flags - MapFlags::FIXED_NOREPLACE, ..request })
    }

    fn mremap(r: &mut Rng, at: u64, len: u64) -> Self {
        let flags = [RemapFlags::empty(), RemapFlags::MAYMOVE, RemapFlags::MAYMOVE, RemapFlags::DONTUNMAP];
        Call::Mremap((at, len), (1 + r.below(6)) * PAGE, r.pick(&flags), r.pick(&[0, 0, 0, at]))
    }

    fn request(r: &mut Rng, at: u64, len: u64, prot: Prot) -> MapRequest<B> {
        let mut request = MapRequest::anonymous(at, len, prot);
        match r.below(8) {
            0 => {
                let kind = if r.below(2) == 0 { MapFlags::SHARED } else { MapFlags::PRIVATE };
                request = MapRequest::file(at, len, prot, kind, B::numbered(1 + r.below(2)), at - at.min(ARENA));
            }
            1 => request.flags |= MapFlags::GROWSDOWN,
            2 => request.flags |= MapFlags::NORESERVE,
            3 => request.flags |= MapFlags::POPULATE,
            4 => request.flags |= MapFlags::LOCKED,
            5 => request.flags |= MapFlags::FIXED_NOREPLACE,
            _ => {}
        }
        request
    }

    pub(crate) fn on_space<I: AreaIndex<B>>(&self, space: &mut AddressSpace<B, I>) -> Answer {
        let plain = |done: Result<Plan, Error>| Answer::Done(done.map(|plan| (0, plan)));
        match self.clone() {
            Call::Map(request) => plain(space.map(&request)),
            Call::Mmap(request) => Answer::Done(space.mmap(&request, &mut Linux)),
            Call::Unmap(at, len) => plain(space.unmap(at, len)),
            Call::Protect(at, len, prot) => plain(space.protect(at, len, prot, None)),
            Call::Advise(at, len, advice) => plain(space.advise(at, len, advice)),
            Call::Lock(at, len, kind) => plain(space.lock(at, len, kind)),
            Call::Unlock(at, len) => plain(space.unlock(at, len)),
            Call::LockAll(current, future) => plain(space.lock_all(current, future, LockKind::Now)),
            Call::UnlockAll => plain(space.unlock_all()),
            Call::Seal(at, len) => plain(space.seal(at, len)),
            Call::Brk(to) => plain(space.brk(to)),
            Call::Remap(request) => plain(space.remap(&request)),
            Call::Mremap(old, len, flags, to) => Answer::Done(space.mremap(old, len, flags, to, &mut Linux)),
            Call::Name(at, len, name) => plain(space.set_anon_name(at, len, name)),
            Call::Touch(at, end) => {
                space.touch(at, end);
                plain(Ok(Plan::default()))
            }
            Call::Fault(at, access) => {
                let done = space.fault(at, access).map(|f| (f.at.start, f.at.end, f.at.area.flags));
                Answer::Fault(done.map_err(FaultError::Refused))
            }
        }
    }

    pub(crate) fn on_shared<W: Wait, F: FnMut(&Plan) -> Result<(), Errno>>(
        &self,
        caller: &mut Caller<'_, B, FencedDomain, W, F>,
        faulter: &mut Faulter<'_, B, FencedDomain, W>,
    ) -> Answer {
        let plain = |done: Result<Plan, Error>| Answer::Done(done.map(|plan| (0, plan)));
        match self.clone() {
            Call::Map(request) => plain(caller.map(&request)),
            Call::Mmap(request) => Answer::Done(caller.mmap(&request, &mut Linux)),
            Call::Unmap(at, len) => plain(caller.unmap(at, len)),
            Call::Protect(at, len, prot) => plain(caller.protect(at, len, prot, None)),
            Call::Advise(at, len, advice) => plain(caller.advise(at, len, advice)),
            Call::Lock(at, len, kind) => plain(caller.lock(at, len, kind)),
            Call::Unlock(at, len) => plain(caller.unlock(at, len)),
            Call::LockAll(current, future) => plain(caller.lock_all(current, future, LockKind::Now)),
            Call::UnlockAll => plain(caller.unlock_all()),
            Call::Seal(at, len) => plain(caller.seal(at, len)),
            Call::Brk(to) => plain(caller.brk(to)),
            Call::Remap(request) => plain(caller.remap(&request)),
            Call::Mremap(old, len, flags, to) => Answer::Done(caller.mremap(old, len, flags, to, &mut Linux)),
            Call::Name(at, len, name) => plain(caller.set_anon_name(at, len, name)),
            Call::Touch(at, end) => plain(caller.touch(at, end).map(|()| Plan::default())),
            Call::Fault(at, access) => {
                Answer::Fault(faulter.fault(at, access).map(|guard| (guard.start(), guard.end(), guard.flags())))
            }
        }
    }
}

/// Everything that a space shows, with identities numbered in the order in which they appear.
pub(crate) fn shown<B: Backing, I: AreaIndex<B>>(space: &AddressSpace<B, I>) -> Vec<String> {
    let mut ids = Vec::new();
    let mut number = |id| {
        let at = ids.iter().position(|i| *i == id).unwrap_or_else(|| {
            ids.push(id);
            ids.len() - 1
        });
        at as u64
    };
    let mut lines: Vec<String> = space
        .areas()
        .map(|a| {
            let mut area = a.area.clone();
            if let Anon::Identity { id, inherited } = area.anon() {
                area.set_anon(Anon::Identity { id: number(id), inherited });
            }
            let Area { flags, object, bias, .. } = &area;
            format!("{:x}-{:x} {flags:?} {object:?} {bias:x} {:?} {:?}", a.start, a.end, area.anon(), a.extras())
        })
        .collect();
    lines.push(format!("{:?} {:?} {:?}", space.counters(), space.layout(), space.future_locks()));
    lines
}

/// Settings that make limits near or far.
pub(crate) fn space(r: &mut Rng) -> AddressSpace<FileId> {
    let bases = if r.one_in(2) { Bases::default() } else { narrow(r, 24) };
    space_with(r, bases)
}

/// Searches are about the first `pages` pages of the arena, and a few above.
pub(crate) fn narrow(r: &mut Rng, pages: u64) -> Bases {
    let end = ARENA + pages * PAGE;
    let legacy = r.one_in(4);
    let bottom_up = if legacy { ARENA } else { end };
    let window = r.pick(&[end, end + 16 * PAGE]);
    Bases { top_down: end, bottom_up, least: ARENA, legacy, huge: HUGE, window, ..Bases::default() }
}

/// Settings that make limits near or far, with these places. Half of the spaces have areas that no
/// call is about, so that their trees have several leaves.
pub(crate) fn space_with<B: Backing, I: AreaIndex<B>>(r: &mut Rng, bases: Bases) -> AddressSpace<B, I> {
    let crowd = if r.one_in(2) { CROWD } else { 0 };
    let max_map_count = if r.below(3) == 0 { 12 + crowd as usize } else { 65530 };
    let overcommit = match r.below(3) {
        0 => Overcommit::Never { limit: 60 * PAGE, admin_reserve: PAGE, user_reserve: 2 * PAGE },
        1 => Overcommit::Always,
        _ => Overcommit::Guess { total: 5 * PAGE },
    };
    let mut space = AddressSpace::with_index(Config {
        max_map_count,
        overcommit,
        stack_guard_pages: 3,
        bases,
        transparent_huge: r.pick(&[TransparentHuge::Never, TransparentHuge::Madvise, TransparentHuge::Always]),
        ..Config::default()
    });
    let limit = |r: &mut Rng, pages: u64| if r.below(2) == 0 { Limit::bytes(pages * PAGE) } else { Limit::NONE };
    for i in 0..crowd {
        // Below the arena and above it, apart; they count for no limit but that of addresses.
        let at = if i % 2 == 0 { ARENA - (i + 1) * 64 * PAGE } else { ARENA + 0x100_0000 + i * 64 * PAGE };
        space.map(&MapRequest::anonymous(at, PAGE, Prot::READ)).unwrap();
    }
    space.set_limits(Limits {
        address_space: limit(r, 40 + crowd),
        data: limit(r, 25),
        stack: limit(r, 6),
        locked: limit(r, 10),
    });
    if r.below(2) == 0 {
        space.set_caps(Caps::all() - Caps::IPC_LOCK);
    }
    space.set_layout(Layout { start_brk: HEAP, brk: HEAP, start_stack: 0, data: 0 });
    space
}

/// Waits as [`Sleep`] does, and stands aside `PATIENCE` times.
pub(crate) struct Aside<const PATIENCE: u32>;

/// The first to come is first.
pub(crate) type InLine = Aside<0>;

impl<const PATIENCE: u32> Wait for Aside<PATIENCE> {
    type Lock = <Sleep as Wait>::Lock;
    type Event = <Sleep as Wait>::Event;

    const PATIENCE: u32 = PATIENCE;

    fn pause(round: u32) {
        Sleep::pause(round);
    }

    fn now() -> Duration {
        Sleep::now()
    }
}
