//! No argument makes the model panic or break its own promises.

#[path = "kernel/rng.rs"]
mod rng;

use rng::Rng;
use samara_mm::*;
use std::sync::Arc;

const ADVICE: [Advice; 25] = Advice::ALL;

/// Addresses and lengths that hurt: the ends of everything, and their neighbours.
fn number(r: &mut Rng) -> u64 {
    let base = r.pick(&[
        0,
        1 << 12,
        1 << 20,
        1 << 47,
        0x7fff_ffff_f000,
        1 << 63,
        u64::MAX,
        u64::MAX - 4095,
        0x10000,
        0x20000,
        0x30000,
    ]);
    match r.below(4) {
        0 => base,
        1 => base.wrapping_add(r.below(3)).wrapping_sub(1),
        2 => base.wrapping_add(r.below(16) * 4096),
        _ => (r.below(64)) * 4096,
    }
}

/// One call; `before` is the space as it was before it (others may come first).
fn step(space: &mut AddressSpace<FileId>, before: &mut String, r: &mut Rng) -> Result<Plan, Error> {
    let (a, b, c) = (number(r), number(r), number(r));
    let bits = r.next();
    match r.below(20) {
        0..=4 => {
            let prot = Prot::from_bits_retain(if r.one_in(4) { bits as u32 } else { r.below(8) as u32 });
            let kinds =
                [MapFlags::PRIVATE | MapFlags::ANONYMOUS, MapFlags::SHARED, MapFlags::from_bits_retain(bits as u32)];
            let file = FileId { dev: (1, 2), inode: 3, open: r.below(2), name: Arc::from("x\ny") };
            let backing = r.one_in(3).then_some(file);
            let driver_flags = if r.one_in(20) { Flags::from_bits_retain(r.next()) } else { Flags::empty() };
            let writable_file = r.one_in(2);
            let flags = r.pick(&kinds);
            space.map(&MapRequest { start: a, len: b, prot, flags, backing, offset: c, writable_file, driver_flags })
        }
        5 => space.unmap(a, b),
        6 | 7 => space.protect(
            a,
            b,
            Prot::from_bits_retain(if r.one_in(3) { bits as u32 } else { 3 }),
            r.one_in(5).then_some(bits as u8),
        ),
        8..=10 => {
            let mode = r.pick(&[RemapMode::InPlace, RemapMode::MoveTo(c), RemapMode::Fixed(c), RemapMode::Fixed(c)]);
            let new_len = if r.one_in(2) { b } else { number(r) };
            space.remap(&RemapRequest { old: a, old_len: b, new_len, mode, dontunmap: r.one_in(4) })
        }
        11 => space.advise(a, b, r.pick(&ADVICE)),
        12 => space.lock(a, b, LockKind::OnFault),
        13 => space.unlock(a, b),
        14 => space.lock_all(r.one_in(2), r.one_in(2), LockKind::Now),
        15 => {
            space.touch(a, b);
            let _ = (space.learn_cut(c), space.learn_join(a), space.why_not_merged(a));
            let _ = space.grow_down(a, c);
            *before = space.to_string();
            space.set_policy(a, b, r.one_in(2).then(|| Arc::new(Policy { mode: 1, nodes: Arc::from([r.below(3)]) })))
        }
        16 => space.brk(a),
        17 => {
            let uffd = Uffd { id: r.below(2), fork_events: r.one_in(2), remap_events: r.one_in(2) };
            let _ = space.unregister_uffd(a, b);
            *before = space.to_string();
            space.register_uffd(a, b, uffd, Flags::UFFD_WP)
        }
        18 => space.set_anon_name(a, b, Some(Arc::from("n"))),
        _ => {
            let _ = space.import(a, b, Area::new(Flags::from_bits_retain(bits), Object::Special(Arc::from("[x]")), c));
            let _ = space.forget(a, c);
            *before = space.to_string();
            if r.one_in(6) { space.seal(a, b) } else { space.unlock_all() }
        }
    }
}

#[test]
fn arbitrary_arguments() {
    for seed in 0..400 {
        let mut r = Rng(seed);
        let touches = if seed % 2 == 0 { Touches::Told } else { Touches::Unseen };
        let task_size = r.pick(&[0x7fff_ffff_f000, !4095, u64::MAX, 0x40000, 0]);
        let max_map_count = r.pick(&[0, 5, 65530, usize::MAX]);
        let mut space = AddressSpace::<FileId>::new(Config { task_size, max_map_count, touches, ..Config::default() });
        space.set_layout(Layout { start_brk: number(&mut r), brk: number(&mut r), start_stack: number(&mut r) });
        for i in 0..300 {
            let mut before = space.to_string();
            let done = step(&mut space, &mut before, &mut r);
            if let Err(e) = done
                && e.done.is_empty()
            {
                // The steps are the truth: nothing said, nothing done.
                assert_eq!(before, space.to_string(), "seed {seed}, step {i}: {e}");
            }
            space.check().unwrap_or_else(|v| panic!("seed {seed}, step {i}: {v}"));
            if r.one_in(100) {
                space = space.fork().expect("memory is not short");
                space.check().expect("a whole child");
            }
        }
    }
}

#[test]
fn the_last_pages() {
    // The highest page that an exclusive end can express.
    let mut space = AddressSpace::<FileId>::new(Config { task_size: !4095, ..Config::default() });
    let last = u64::MAX - 2 * 4096 + 1;
    space.map(&MapRequest::anonymous(last, 4096, Prot::RW)).unwrap();
    space.map(&MapRequest::anonymous(0, 4096, Prot::RW)).unwrap();
    assert_eq!(space.len(), 2);
    assert_eq!(space.line(last).unwrap().to_string(), "ffffffffffffe000-fffffffffffff000 rw-p 00000000 00:00 0 ");
    assert_eq!(space.unmap(last, 4096).unwrap().to_string(), "unmapped ffffffffffffe000-fffffffffffff000");
    space.check().unwrap();
}

#[test]
fn counts_follow_the_plan() {
    // Each plan's steps add up to the change in the number of areas, where no whole area was unmapped.
    let mut r = Rng(9);
    let mut space = AddressSpace::<FileId>::new(Config::default());
    space.map(&MapRequest::anonymous(0, 256 * 4096, Prot::RW)).unwrap();
    for _ in 0..5000 {
        let (from, len) = (r.below(250), 1 + r.below(6));
        let before = space.len();
        let prot = r.pick(&[Prot::RW, Prot::READ, Prot::NONE]);
        let plan = space.protect(from * 4096, len * 4096, prot, None).unwrap();
        assert_eq!(space.len() + plan.count(StepKind::Merged), before + plan.count(StepKind::Split), "{plan}");
        assert_eq!(space.mapped_bytes(), 256 * 4096);
    }
}
