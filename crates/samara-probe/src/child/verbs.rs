//! The code of each op in the sacrificial process. Limits are in `limits`.

use super::files::Given;
use super::process::Child;
use super::{LOW, STATUS, call};
use crate::harness::{self, exit, register, wait};
use crate::op::{BASE, Op, PAGE};

impl Child<'_> {
    /// Makes an op. Returns the result of its call.
    pub(super) fn make(&mut self, op: Op, given: &Given) -> i64 {
        match op {
            Op::Call(libc::SYS_shmat, [number, at, flags, ..]) => {
                let id = given.segments.iter().find(|s| s.1 == number).map_or(number, |s| s.0 as u64);
                call(libc::SYS_shmat, [id, at, flags, 0, 0, 0])
            }
            Op::Call(nr, args) => call(nr, args),
            Op::Heap { at } => self.heap(at),
            Op::Advise { advice, ranges } => advise(advice, ranges),
            Op::Write(addr) => call(libc::SYS_read, [self.zero, addr, 1, 0, 0, 0]).min(0),
            Op::Read(addr) => call(libc::SYS_pwrite64, [self.sink, addr, 1, 0, 0, 0]).min(0),
            Op::Fork => self.fork(),
            // For write protection.
            Op::Uffd { on, at, len } => register(self.uffd, at, len, if on { 2 } else { 0 }),
            Op::Limit(limits) => self.limit(limits),
            Op::Fill { left } => self.fill(given.max_map_count.saturating_sub(left)),
        }
    }

    /// Forks, and goes on in the child.
    fn fork(&mut self) -> i64 {
        // SAFETY: this is the process of a run, and it waits for the child.
        match unsafe { harness::fork(self.limit_s) } {
            0 => {
                self.open_maps();
                0
            }
            pid if pid > 0 => {
                // From here on the child's time counts.
                call(libc::SYS_alarm, [0; 6]);
                let status = wait(pid);
                if status != 0 {
                    self.words[STATUS] = status as u64;
                }
                exit(0)
            }
            errno => errno,
        }
    }

    /// Makes the heap begin there. The private writable memory of the process counts as its data,
    /// so RLIMIT_DATA counts heap and data like all other memory.
    fn heap(&mut self, at: u64) -> i64 {
        // Code; data; heap; stack; arguments; environment; no auxiliary vector, no program.
        let (low, data) = (LOW, LOW + self.own_data);
        let map = [low, low + 1, low, data, at, at, low, low, low, low, low, 0, u64::from(u32::MAX) << 32];
        let (option, size) = (libc::PR_SET_MM_MAP as u64, size_of_val(&map) as u64);
        call(libc::SYS_prctl, [libc::PR_SET_MM as u64, option, map.as_ptr() as u64, size, 0, 0])
    }

    /// Areas that cannot become one, from `BASE` + 4 GiB on, up to this many areas in all.
    fn fill(&mut self, up_to: u64) -> i64 {
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let (mut there, mut cursor) = (0, self.areas_from(0));
        while self.next_area(&mut cursor).is_some() {
            there += 1;
        }
        for i in 0..up_to.saturating_sub(there) {
            let to = BASE + (1 << 32) + i * PAGE;
            let done = call(libc::SYS_mmap, [to, PAGE, i & 1, kind as u64, u64::MAX, 0]);
            self.expect(done == to as i64, 6);
        }
        0
    }
}

/// process_madvise on the process itself.
fn advise(advice: u64, ranges: [(u64, u64); 3]) -> i64 {
    let own = call(libc::SYS_pidfd_open, [call(libc::SYS_getpid, [0; 6]) as u64, 0, 0, 0, 0, 0]);
    let words = ranges.map(|(start, len)| [start, len]);
    let args = [own as u64, words.as_ptr() as u64, words.len() as u64, advice, 0, 0];
    let ret = if own < 0 { own } else { call(libc::SYS_process_madvise, args) };
    call(libc::SYS_close, [own as u64, 0, 0, 0, 0, 0]);
    ret
}
