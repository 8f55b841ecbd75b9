//! Random calls during readings whose lines are of different moments. A second model plays the
//! kernel. Areas outside the doubt always equal the kernel's.

use samara_mm::{MapRequest, Prot};
use samara_trace::event::{Event, EventKind};

use super::followed_space::{Entry, FollowedSpace};
use super::window::tests::call;
use crate::journal::{Journal, Who};
use crate::os::proc::{self, Layout};
use crate::space::Reading;
use crate::space::model::{self, Model};
use crate::space::reach::{Range, meets_one};

const PAGE: u64 = 0x1000;
const BASE: u64 = 0x1000_0000;
const PROTS: [Prot; 2] = [Prot::NONE, Prot::READ];

/// The kernel, the recorder, and the time.
struct Both<'a> {
    kernel: Model,
    place: FollowedSpace,
    journal: Journal<'a>,
    random: fastrand::Rng,
    now: u64,
}

/// An area: where it is, and its permissions.
type Seen = (u64, u64, u8);

fn seen(model: &Model) -> Vec<Seen> {
    model.areas().map(|a| (a.start, a.end, model::perms(a.area.flags))).collect()
}

impl Both<'_> {
    /// A call of the program, from its section to its return.
    fn call(&mut self) {
        let r = &mut self.random;
        let (start, len) = (BASE + r.u64(0..48) * PAGE, r.u64(1..5) * PAGE);
        let prot = r.usize(0..2);
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED) as u64;
        let (nr, args, done) = match r.u8(0..4) {
            0 | 1 => {
                let request = MapRequest::anonymous(start, len, PROTS[prot]);
                (
                    libc::SYS_mmap,
                    [start, len, prot as u64, flags, u64::MAX, 0],
                    self.kernel.map(&request).map(|_| start),
                )
            }
            2 => (libc::SYS_munmap, [start, len, 0, 0, 0, 0], self.kernel.unmap(start, len).map(|_| 0)),
            _ => {
                let done = self.kernel.protect(start, len, PROTS[prot], None).map(|_| 0);
                (libc::SYS_mprotect, [start, len, prot as u64, 0, 0, 0], done)
            }
        };
        let result = done.map_or_else(|error| -(error.errno as i64), |value| value as i64);
        let number = self.place.lock(7, self.now, true);
        self.place.unlock(7, self.now + 1);
        self.place.fill_first(&[number], Entry::Call(Box::new(call(nr, args, result)), None, None));
        self.now += 10;
        self.follow();
    }

    /// Reads line by line, while the program makes calls.
    fn read(&mut self) {
        let from = self.now;
        self.place.begin_reading(from);
        self.now += 10;
        let (mut text, mut flags, mut cursor) = (String::new(), String::new(), 0);
        let next = |kernel: &Model, cursor: u64| {
            let one = kernel.areas().find(|area| area.end > cursor)?;
            let (all, start) = (kernel.to_string(), format!("{:x}-", one.start));
            let line = all.lines().find(|line| line.starts_with(&start))?.to_owned();
            Some((one.end, line, one.area.flags.letters().to_string()))
        };
        while let Some((end, line, letters)) = next(&self.kernel, cursor) {
            text += &format!("{line}\n");
            flags += &format!("{line}\nVmFlags: {letters}\n");
            cursor = end;
            while self.random.u8(0..8) == 0 {
                self.call();
            }
        }
        let layout = Layout { start_brk: 0x100_0000, ..Layout::default() };
        let reading = Reading { areas: proc::parse(&flags), text, has_flags: true, layout };
        let who = Who { pid: 7, tid: 7, entry_ns: self.now, exit_ns: self.now };
        self.place.reading = false;
        self.place.part(from, Box::new(reading), who);
        self.now += 10;
        self.follow();
    }

    fn follow(&mut self) {
        while let Some(entry) = self.place.next() {
            self.place.apply(entry, self.now, &mut self.journal);
        }
    }

    /// The areas that touch no range in doubt: the recorder's, and the kernel's.
    fn certain(&self) -> Option<[Vec<Seen>; 2]> {
        let model = &self.place.space.as_ref()?.model;
        let doubt: &[Range] = self.place.doubt.as_ref().map_or(&[], |doubt| &doubt.ranges);
        let apart = |areas: Vec<Seen>| areas.into_iter().filter(|a| !meets_one(doubt, (a.0 - 1, a.1 + 1))).collect();
        Some([seen(model), seen(&self.kernel)].map(apart))
    }
}

#[test]
fn what_is_not_in_doubt_is_as_in_the_kernel() {
    let (mut known, mut doubtful) = (0, 0);
    for seed in 0..300 {
        let mut events: Vec<Event> = Vec::new();
        let mut both = Both {
            kernel: model::empty(),
            place: FollowedSpace::new(1, (7, true), 0),
            journal: Journal::new(&mut events, 0),
            random: fastrand::Rng::with_seed(seed),
            now: 10,
        };
        for _ in 0..60 {
            if both.random.u8(0..6) == 0 {
                both.read()
            } else {
                both.call()
            }
            let Some([ours, theirs]) = both.certain() else { continue };
            assert_eq!(ours, theirs, "seed {seed}: {:?}\n{}", both.place.doubt, both.kernel);
            known += ours.len();
            doubtful += usize::from(both.place.doubt.is_some());
        }
        let wrong = events.iter().filter(|event| event.kind == EventKind::Difference).count();
        assert_eq!(wrong, 0, "seed {seed}");
    }
    assert!(known > 10_000 && doubtful > 1_000, "{known} areas compared, {doubtful} times beside a doubt");
}
