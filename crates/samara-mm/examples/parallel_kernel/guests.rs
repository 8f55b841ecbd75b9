//! What the guests of the example do: calls and accesses whose answers they know. A process has
//! threads with memory of their own (`churn`), memory that all of them change (`quarrel`), and a
//! ledger, whose state at each moment is known, so that a child shows of which moment it is.

use crate::{FRAMES, Guest, PAGE, Process, USER};
use samara_mm::{Advice, Errno, Linux, MapRequest, Prot, Refused};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Pages of a place of the ledger.
pub(crate) const PLACE: u64 = 8;
const OWN_PAGES: u64 = 32;
pub(crate) const THREADS: u64 = 4;
pub(crate) const ROUNDS: u64 = 1000;

/// The pages of one thread that knows what they held at each moment.
const LEDGER: Range<u64> = pages_from(USER.start, 2 * PLACE);
/// The pages that all threads change.
pub(crate) const COMMON: Range<u64> = pages_from(LEDGER.end, 8);

const fn pages_from(start: u64, count: u64) -> Range<u64> {
    start..start + count * PAGE
}

/// The pages of one thread. They touch those of the next one, so that areas merge.
fn own(thread: u64) -> Range<u64> {
    pages_from(COMMON.end + thread * OWN_PAGES * PAGE, OWN_PAGES)
}

/// Random numbers (Knuth's linear congruence).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % end
    }
}

/// What a thread expects of one of its pages.
#[derive(Clone, Copy)]
struct Expected {
    prot: Prot,
    byte: u8,
    has_frame: bool,
}

impl Expected {
    fn load(page: Option<Expected>) -> Result<u8, Refused> {
        let page = page.ok_or(Refused::NotMapped)?;
        if page.prot.is_empty() { Err(Refused::NotAllowed) } else { Ok(page.byte) }
    }
}

/// Random calls and accesses of one thread in memory of its own, next to that of others. Returns
/// how many frames it has in the end.
pub(crate) fn churn(process: &Process, thread: u64, rounds: u64) -> u64 {
    let (mut random, mut guest, own) = (Random(thread), Guest::new(process), own(thread));
    let mut expected = [None::<Expected>; OWN_PAGES as usize];
    let fresh = Some(Expected { prot: Prot::RW, byte: 0, has_frame: false });
    // In a child: what the parent had there.
    process.caller().unmap(own.start, own.end - own.start).expect("it may be empty");

    for round in 0..rounds {
        let first = random.below(OWN_PAGES);
        let count = (1 + random.below(8)).min(OWN_PAGES - first);
        let (at, len) = (own.start + first * PAGE, count * PAGE);
        let pages = &mut expected[first as usize..(first + count) as usize];
        let hole = pages.iter().position(Option::is_none);
        let whole = if hole.is_none() { Ok(()) } else { Err(Errno::ENOMEM) };
        match random.below(8) {
            0 | 1 => {
                process.caller().map(&MapRequest::anonymous(at, len, Prot::RW)).expect("no limit is near");
                pages.fill(fresh);
            }
            2 => {
                process.populate(at, len).expect("the guests use less than there is");
                pages.fill(fresh.map(|page| Expected { has_frame: true, ..page }));
            }
            // More than the RAM, over the memory of all: refused, without an effect on others.
            3 => assert_eq!(process.populate(at, (FRAMES + 1) * PAGE).unwrap_err().errno, Errno::ENOMEM),
            4 => {
                process.caller().unmap(at, len).expect("no limit is near");
                pages.fill(None);
            }
            5 => {
                let prot = [Prot::empty(), Prot::READ, Prot::RW][random.below(3) as usize];
                let done = process.caller().protect(at, len, prot, None);
                // It ends at the first hole; what comes before is changed.
                assert_eq!(done.map(drop).map_err(|error| error.errno), whole);
                pages.iter_mut().map_while(Option::as_mut).for_each(|page| page.prot = prot);
            }
            6 => {
                let done = process.caller().advise(at, len, Advice::DontNeed);
                // It goes on after a hole.
                assert_eq!(done.map(drop).map_err(|error| error.errno), whole);
                pages.iter_mut().flatten().for_each(|page| *page = Expected { byte: 0, has_frame: false, ..*page });
            }
            _ => borrow(&mut guest, count),
        }
        for _ in 0..8 {
            let (i, byte) = (random.below(OWN_PAGES), 1 + random.below(255) as u8);
            let stored = guest.store(own.start + i * PAGE, byte);
            match &mut expected[i as usize] {
                Some(page) if page.prot.contains(Prot::WRITE) => {
                    assert_eq!(stored, Ok(()));
                    *page = Expected { byte, has_frame: true, ..*page };
                }
                Some(_) => assert_eq!(stored, Err(Refused::NotAllowed)),
                None => assert_eq!(stored, Err(Refused::NotMapped)),
            }
            let i = random.below(OWN_PAGES);
            assert_eq!(guest.load(own.start + i * PAGE), Expected::load(expected[i as usize]));
        }
        quarrel(&mut guest, &mut random);
        if round % 16 == 0 {
            process.check();
        }
    }
    for (addr, page) in own.clone().step_by(PAGE as usize).zip(expected) {
        // The window alone shows nothing that a fault would not.
        let seen = guest.processor.load(&process.window, addr);
        assert!(seen.is_none_or(|byte| Expected::load(page) == Ok(byte)));
        assert_eq!(guest.load(addr), Expected::load(page));
    }
    let frames = expected.iter().flatten().filter(|page| page.has_frame).count() as u64;
    assert_eq!(process.frames_in(own), frames);
    frames
}

/// Memory at a place that the kernel chooses, used and given back.
fn borrow(guest: &mut Guest, count: u64) {
    let request = MapRequest::anonymous(0, count * PAGE, Prot::RW);
    let (at, _) = guest.process.caller().mmap(&request, &mut Linux).expect("there is room");
    for page in pages_from(at, count).step_by(PAGE as usize) {
        assert_eq!(guest.load(page), Ok(0));
        guest.store(page, 1).expect("it may be written");
    }
    assert!(pages_from(at, count).step_by(PAGE as usize).all(|page| guest.load(page) == Ok(1)));
    guest.process.caller().unmap(at, request.len).expect("no limit is near");
}

/// A call and an access in memory that all threads change. The answers are not known, but a page
/// holds zero or what is stored in that page.
fn quarrel(guest: &mut Guest, random: &mut Random) {
    let range = pages_from(COMMON.start + random.below(5) * PAGE, 1 + random.below(4));
    let (at, len) = (range.start, range.end - range.start);
    let _may_be_refused = match random.below(4) {
        0 => guest.process.caller().map(&MapRequest::anonymous(at, len, Prot::RW)),
        1 => guest.process.caller().unmap(at, len),
        2 => guest.process.caller().protect(at, len, Prot::READ, None),
        _ => guest.process.caller().protect(at, len, Prot::RW, None),
    };
    for page in range.step_by(PAGE as usize) {
        let byte = 1 + (page / PAGE % 255) as u8;
        let _may_be_refused = guest.store(page, byte);
        if let Ok(found) = guest.load(page) {
            assert!([0, byte].contains(&found));
        }
    }
}

/// How many steps of the ledger have begun, and how many are done.
#[derive(Default)]
pub(crate) struct Steps {
    begun: AtomicU64,
    done: AtomicU64,
}

/// The ledger has two places, in turn: an era of each begins with the `mmap` of the place and the
/// `munmap` of the other one, and goes on with stores.
const ERA: u64 = 2 + 30;

/// What a load of page `i` of a place finds after the first `steps` steps. Every state is another
/// one, as far as bytes can tell.
fn in_ledger(place: u64, i: u64, steps: u64) -> Result<u8, Refused> {
    let last = steps.checked_sub(1).ok_or(Refused::NotMapped)?;
    let (era, stores) = match (last / ERA, last % ERA) {
        (era, at) if era % 2 == place => (era, at.saturating_sub(1)),
        (era @ 1.., 0) => (era - 1, ERA - 2),
        _ => return Err(Refused::NotMapped),
    };
    // The last store to that page.
    let store = stores.checked_sub(i + 1).map(|more| more / PLACE * PLACE + i);
    Ok(store.map_or(0, |store| in_store(era, store)))
}

fn in_store(era: u64, store: u64) -> u8 {
    1 + ((era * (ERA - 2) + store) % 255) as u8
}

fn page_of(place: u64, i: u64) -> u64 {
    LEDGER.start + (place * PLACE + i) * PAGE
}

/// All pages of the ledger: place, number, address.
fn ledger() -> impl Iterator<Item = (u64, u64, u64)> {
    (0..2 * PLACE).map(|n| (n / PLACE, n % PLACE, page_of(n / PLACE, n % PLACE)))
}

/// Goes through the eras of the ledger. What a child does is not seen here.
pub(crate) fn keep_ledger(process: &Process, steps: &Steps) {
    let mut guest = Guest::new(process);
    for step in 0..20 * ROUNDS / ERA * ERA {
        let (era, at) = (step / ERA, step % ERA);
        let (place, other) = (era % 2, 1 - era % 2);
        for (place, i) in [(place, at % PLACE), (other, at % PLACE)] {
            assert_eq!(guest.load(page_of(place, i)), in_ledger(place, i, step));
        }
        steps.begun.store(step + 1, Ordering::Release); // with the Acquire in `one_child`
        match at {
            0 => {
                let request = MapRequest::anonymous(page_of(place, 0), PLACE * PAGE, Prot::RW);
                process.caller().map(&request).map(drop).expect("no limit is near");
            }
            1 => process.caller().unmap(page_of(other, 0), PLACE * PAGE).map(drop).expect("no limit is near"),
            _ => guest.store(page_of(place, (at - 2) % PLACE), in_store(era, at - 2)).expect("it may be written"),
        }
        steps.done.store(step + 1, Ordering::Release); // with the Acquire in `one_child`
    }
}

/// Forks beside everything else. The child has the ledger of one moment, its areas and its bytes,
/// and keeps it, whatever the parent and the child do.
pub(crate) fn one_child(parent: &Process, steps: &Steps) {
    let least = steps.done.load(Ordering::Acquire); // with the Release in `keep_ledger`
    let child = parent.fork().expect("there is memory");
    let most = steps.begun.load(Ordering::Acquire); // with the Release in `keep_ledger`
    child.check();
    ledger().for_each(|(.., page)| parent.check_holder(&child, page));

    let mut guest = Guest::new(&child);
    let mut found: Vec<_> = ledger().map(|(.., page)| guest.load(page)).collect();
    let is_of = |steps| ledger().zip(&found).all(|((place, i, _), found)| *found == in_ledger(place, i, steps));
    // After 510 eras, bytes and places repeat.
    assert!((least..=most).take(510 * ERA as usize).any(is_of), "{least}..={most}: {found:?}");

    for ((.., page), found) in ledger().zip(&mut found).step_by(2) {
        if let Ok(byte) = found {
            *byte = !*byte;
            guest.store(page, *byte).expect("it may be written");
        }
    }
    thread::scope(|scope| {
        let child = &child;
        (0..2).for_each(|thread| drop(scope.spawn(move || churn(child, thread, ROUNDS / 40))));
    });
    assert!(ledger().zip(found).all(|((.., page), found)| guest.load(page) == found));
    child.check();
}
