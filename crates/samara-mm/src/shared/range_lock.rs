//! Range locks: a FIFO queue of requests for ranges of addresses, without a cache line that all
//! threads write.
//!
//! This is Lamport's bakery algorithm (a ticket lock without a shared counter), with ranges. Each
//! thread has a [`Request`] of its own, in a list. It takes a number greater than all that it sees,
//! and then waits for the requests that meet its own and have smaller numbers. The caller does the
//! waiting (`held`). Does not know what is done under a range lock.
//!
//! - **RANGE-1** Two requests *meet* if their ranges do, and at least one of them is to change its
//!   range ([`Mode`]). A request is granted when no earlier one meets it, ordered by number and
//!   then by rank. So two granted requests never meet (except as RANGE-4 says), requests that meet
//!   are granted in the order of their numbers, and a request that meets no other does not wait.
//! - **RANGE-2** A request waits only for earlier requests, so no cycle of waiting requests exists.
//!   A record has at most one request.
//! - **RANGE-3** Ranges are stored before the request is marked as choosing its number, and not
//!   changed before it has left. A number is never used twice in a record. So a thread that loads a
//!   record's word, then its ranges, and then the same word again, has the ranges of that request.
//! - **RANGE-4** A request that is granted at once ([`Request::hold`]) comes before all others. Its
//!   thread has found, in a stage, that no other request meets it. Any other thread stores its
//!   request, waits for the stages that have begun, and only then looks at other requests
//!   (LEAF-UPDATE-1); so it finds this one. Two such requests in neighbouring leaves may meet in
//!   the page that is locked beside a window: neither thread changes that page.
//!
//! Why no request is missed: a request stores that it is choosing, then loads all others; it stores
//! its number, then loads all others again. Stores come before loads, with a full fence between. Of
//! two requests, let the first be the one that stores its number first. Either the second loaded
//! that number before it chose its own: then it comes later, and finds the first. Or the second was
//! choosing when the first looked: then the first waits until it has chosen (unless their ranges do
//! not meet).

use crate::shared::sync::{AtomicU64, Ordering, fence, load_own, store_fenced};
use samara::Span;

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The range may change.
    Change,
    /// The range must not change. Requests of this mode share it.
    Read,
}

/// The ranges of a request: one or two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spans {
    pub(crate) first: Span,
    pub(crate) second: Option<Span>,
}

impl Spans {
    pub(crate) fn one(span: Span) -> Self {
        Spans { first: span, second: None }
    }

    fn meet(self, other: Spans) -> bool {
        let meet = |a: Span, b: Span| a.first <= b.last && b.first <= a.last;
        let each = |a: Span| meet(a, other.first) || other.second.is_some_and(|b| meet(a, b));
        each(self.first) || self.second.is_some_and(each)
    }
}

/// Bits of a request's word below its number. All are clear if there is no request.
const ACTIVE: u64 = 1;
/// The request is taking its number.
const CHOOSING: u64 = 2;
const READ: u64 = 4;
/// A thread sleeps until the request leaves.
const WATCHED: u64 = 8;
/// The request was granted when it was made, and comes before all others.
const HELD: u64 = 16;
/// Bits below the number.
const BITS: u32 = 5;

/// A thread's request.
#[derive(Debug, Default)]
pub(crate) struct Request {
    /// The number of the current or last request, and the bits.
    word: AtomicU64,
    /// First and last address of the first range, and of the second one (reversed if absent).
    ends: [AtomicU64; 4],
}

/// A request that was made, and waits for its turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// Its word without WATCHED: orders requests by their numbers.
    pub(crate) word: u64,
    /// The place of its record in the list: orders requests that have the same number.
    pub(crate) rank: usize,
    spans: Spans,
}

/// An earlier request that a turn waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before<'a> {
    pub(crate) request: &'a Request,
    /// The place of its record in the list.
    pub(crate) rank: usize,
    /// Its word without WATCHED.
    pub(crate) word: u64,
}

impl Before<'_> {
    /// Whether the turn still waits for it.
    pub(crate) fn is_before(&self, turn: &Turn) -> bool {
        self.request.standing(self.rank, turn) == Standing::Before(self.word)
    }

    /// Whether its record has any request that meets the turn: this one or a later one.
    pub(crate) fn is_in_the_way(&self, turn: &Turn) -> bool {
        let last = Turn { word: turn.word | u64::MAX << BITS, rank: usize::MAX, ..*turn };
        self.request.standing(self.rank, &last) != Standing::Passed
    }
}

/// The last of the earlier requests that meet the turn. If all requests meet, each turn waits for a
/// different one, so a thread that leaves wakes only one. `others` gives all requests but that of
/// the turn, with their ranks. `pause` waits while a request takes its number; its argument is the
/// number of looks at that request.
#[inline]
pub(crate) fn last_before<'a>(
    turn: &Turn,
    others: impl Iterator<Item = (usize, &'a Request)>,
    mut pause: impl FnMut(u32),
) -> Option<Before<'a>> {
    let mut last: Option<Before<'a>> = None;
    for (rank, request) in others {
        let mut round = 0;
        let word = loop {
            match request.standing(rank, turn) {
                Standing::Passed => break None,
                Standing::Before(word) => break Some(word),
                Standing::Choosing => pause(round),
            }
            round = round.saturating_add(1);
        };
        if let Some(word) = word
            && last.is_none_or(|last| (last.word >> BITS, last.rank) < (word >> BITS, rank))
        {
            last = Some(Before { request, rank, word });
        }
    }
    last
}

/// How another request relates to a waiting turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// The turn need not wait for it.
    Passed,
    /// It is taking its number: look again soon.
    Choosing,
    /// It meets the turn, and comes before it.
    Before(u64),
}

impl Request {
    /// Requests these ranges. `all` gives the requests of the list, this one at `rank`; whether
    /// this one is among them makes no difference. `all` is called only when this one is visible:
    /// the list may grow until then (RECORDS-1).
    #[inline]
    pub(crate) fn ask<'a, I: Iterator<Item = &'a Request>>(
        &self,
        rank: usize,
        spans: Spans,
        mode: Mode,
        all: impl FnOnce() -> I,
    ) -> Turn {
        let idle = self.store_ends(spans);
        store_fenced(&self.word, idle | CHOOSING);
        // SeqCst, with `store_fenced` of the others (RANGE-1).
        let highest = all().fold(idle >> BITS, |most, other| most.max(other.word.load(Ordering::SeqCst) >> BITS));
        let bits = if mode == Mode::Read { ACTIVE | READ } else { ACTIVE };
        let word = (highest + 1) << BITS | bits;
        store_fenced(&self.word, word);
        Turn { word, rank, spans }
    }

    /// Makes a request for these ranges that is granted at once. The caller has found that no other
    /// request meets them, and a thread that asks meanwhile waits for the caller (RANGE-4).
    #[inline]
    pub(crate) fn hold(&self, spans: Spans) {
        let idle = self.store_ends(spans);
        // Release: with the loads in `standing` and `may_meet` (RANGE-3). A thread that looks at it
        // has waited for the caller's stage (RANGE-4).
        self.word.store(((idle >> BITS) + 1) << BITS | ACTIVE | HELD, Ordering::Release);
    }

    /// Stores the ranges of the next request. Returns the current word.
    #[inline]
    fn store_ends(&self, spans: Spans) -> u64 {
        let idle = load_own(&self.word);
        // Release: with the Acquire fence in `spans` (RANGE-3).
        fence(Ordering::Release);
        let none = Span { first: 1, last: 0 };
        let second = spans.second.unwrap_or(none);
        let ends = [spans.first.first, spans.first.last, second.first, second.last];
        self.ends.iter().zip(ends).for_each(|(word, end)| word.store(end, Ordering::Relaxed));
        // Release: with the Acquire of this word, or of the next one, in `standing` (RANGE-3).
        fence(Ordering::Release);
        idle
    }

    /// How this request, at `rank` in the list, relates to the `turn` of another one.
    #[inline]
    fn standing(&self, rank: usize, turn: &Turn) -> Standing {
        loop {
            // SeqCst, with `store_fenced` of this request (RANGE-1). Acquire, with the Release of
            // `leave`: the next holder sees all work under the lock.
            let word = self.word.load(Ordering::SeqCst);
            if word & (ACTIVE | CHOOSING) == 0 {
                return Standing::Passed;
            }
            if word & (CHOOSING | HELD) == 0 && (word >> BITS, rank) > (turn.word >> BITS, turn.rank) {
                return Standing::Passed;
            }
            let spans = self.spans();
            let again = self.word.load(Ordering::Relaxed);
            if (word ^ again) & !WATCHED != 0 {
                continue;
            }
            // The mode of a request that is choosing is not known yet.
            if !spans.meet(turn.spans) || word & turn.word & READ != 0 {
                return Standing::Passed;
            }
            return if word & CHOOSING != 0 { Standing::Choosing } else { Standing::Before(word & !WATCHED) };
        }
    }

    /// The ranges. The caller must load the word again (RANGE-3), except the record's own thread.
    #[inline]
    pub(crate) fn spans(&self) -> Spans {
        let [a, b, c, d] = self.ends.each_ref().map(|word| word.load(Ordering::Relaxed));
        fence(Ordering::Acquire); // with the Release fence in `store_ends`
        let second = (c <= d).then_some(Span { first: c, last: d });
        Spans { first: Span { first: a, last: b }, second }
    }

    /// Whether there is a request that meets these ranges. A concurrent request may be missed.
    pub(crate) fn may_meet(&self, spans: Spans) -> bool {
        // SeqCst, with `store_fenced` in `ask`: LEAF-UPDATE-1.
        self.word.load(Ordering::SeqCst) & (ACTIVE | CHOOSING) != 0 && self.spans().meet(spans)
    }

    /// Announces that a thread will sleep until the request with this `word` leaves. `false`: it
    /// has left.
    pub(crate) fn watch(&self, word: u64) -> bool {
        // Acquire if it has left, as in `standing`.
        match self.word.compare_exchange(word, word | WATCHED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => true,
            Err(now) => now == word | WATCHED,
        }
    }

    /// Whether there is a request. If the record's thread has made none, a guard was leaked
    /// (`mem::forget`).
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.word.load(Ordering::Relaxed) & ACTIVE != 0
    }

    /// Withdraws the request, granted or not. Returns whether a thread sleeps until it leaves.
    #[inline]
    pub(crate) fn leave(&self) -> bool {
        let idle = load_own(&self.word) >> BITS << BITS;
        // Release, with the Acquire in `standing` and `watch`; Acquire, with `watch`.
        self.word.swap(idle, Ordering::AcqRel) & WATCHED != 0
    }
}
