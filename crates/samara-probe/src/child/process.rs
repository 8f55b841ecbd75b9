//! The sacrificial process: sets itself up, makes the ops one after the other, and notes the result
//! of each and the areas after it. Knows no op: `verbs` makes them.
//!
//! It makes raw system calls only and allocates nothing. Its own changes of the address space are
//! outside the window.

use super::files::Given;
use super::threads::Timed;
use super::{DONE, MOST, Scope, TEXT_LEN, TROUBLE, WORDS, call};
use crate::harness::{UFFD_WP_FILES, exit, open, read, userfaultfd};
use crate::op::{BASE, END, Op, PAGE, ROOM};
use std::os::fd::AsRawFd;

/// The process.
pub(super) struct Child<'a> {
    pub(super) words: &'a mut [u64],
    /// Where the next word goes.
    pub(super) at: usize,
    /// Buffer for the text of smaps, and before that for the text of maps.
    pub(super) text: &'a mut [u8],
    /// `/proc/self/maps`.
    pub(super) maps: u64,
    /// PROCMAP_QUERY is used.
    pub(super) queries: bool,
    /// `/dev/zero`.
    pub(super) zero: u64,
    /// A file to which memory is written to read it, if there are ops that need one.
    pub(super) sink: u64,
    /// A userfaultfd, if there are ops that need one.
    pub(super) uffd: u64,
    pub(super) scope: Scope,
    /// Bytes of private writable memory that the process had before the first op, if there will be
    /// a heap.
    pub(super) own_data: u64,
    /// Seconds.
    pub(super) limit_s: u64,
}

impl Child<'_> {
    /// Makes the ops, and notes the result of each and the areas after it; then those of the
    /// threads.
    pub(super) fn go(mut self, ops: &[Op], threads: &[Vec<Timed>], given: &Given) {
        self.raise_limits();
        // The model does not know these areas, so no op may reach them.
        for (.., at) in &given.segments {
            call(libc::SYS_shmdt, [*at, 0, 0, 0, 0, 0]);
        }
        for (file, number) in &given.files {
            let done = call(libc::SYS_dup3, [file.as_raw_fd() as u64, *number, 0, 0, 0, 0]);
            self.expect(done == *number as i64, 1);
        }
        if self.scope == Scope::Window {
            let kind = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
            for guard in [BASE - PAGE, END] {
                let r = call(libc::SYS_mmap, [guard, PAGE, 0, kind as u64, u64::MAX, 0]);
                self.expect(r == guard as i64, 2);
            }
            let room = libc::PROT_READ | libc::PROT_WRITE;
            let r = call(libc::SYS_mmap, [ROOM, PAGE, room as u64, kind as u64, u64::MAX, 0]);
            self.expect(r == ROOM as i64, 2);
        }
        if ops.iter().any(|op| matches!(op, Op::Heap { .. })) {
            [self.own_data] = self.sums([b"VmData:"]);
        }
        self.zero = self.open(c"/dev/zero", 1);
        self.open_maps();
        if ops.iter().any(|op| matches!(op, Op::Uffd { .. })) {
            // Older kernels have one that protects anonymous memory only.
            let uffd = Some(userfaultfd(UFFD_WP_FILES)).filter(|fd| *fd >= 0).unwrap_or_else(|| userfaultfd(0));
            self.expect(uffd >= 0, 4);
            self.uffd = uffd as u64;
        }
        let reads = |op: &Op| matches!(op, Op::Read(_));
        if ops.iter().any(reads) || threads.iter().flatten().any(|timed| reads(&timed.op)) {
            let sink = call(libc::SYS_memfd_create, [c"sink".as_ptr() as u64, 0, 0, 0, 0, 0]);
            self.expect(sink >= 0, 1);
            self.sink = sink as u64;
        }
        self.look();
        let mut results = [0i64; 1 << 12];
        for (i, op) in ops.iter().enumerate() {
            let ret = self.make(op.resolved(|of| results.get(of).copied().unwrap_or(0)), given);
            if let Some(result) = results.get_mut(i) {
                *result = ret;
            }
            self.put(ret as u64);
            self.look();
            self.words[DONE] = i as u64 + 1;
        }
        if !threads.is_empty() {
            self.together(threads);
            self.look();
        }
        let smaps = self.open(c"/proc/self/smaps", 3);
        self.words[TEXT_LEN] = read(smaps, self.text) as u64;
    }

    pub(super) fn expect(&mut self, done: bool, trouble: u64) {
        if !done {
            self.words[TROUBLE] = trouble;
            exit(0);
        }
    }

    pub(super) fn open(&mut self, path: &std::ffi::CStr, trouble: u64) -> u64 {
        let fd = open(path);
        self.expect(fd >= 0, trouble);
        fd as u64
    }

    fn put(&mut self, word: u64) {
        let room = self.at < WORDS;
        self.expect(room, 5);
        self.words[self.at] = word;
        self.at += 1;
    }

    /// Notes the areas in scope.
    fn look(&mut self) {
        let (start, end) = self.scope.bounds();
        let (count, mut cursor, mut n) = (self.at, self.areas_from(start), 0);
        self.put(0);
        while let Some(seen) = self.next_area(&mut cursor).filter(|seen| seen.start < end) {
            for word in [seen.start, seen.end, seen.perms, seen.offset] {
                self.put(word);
            }
            n += 1;
            self.expect(n <= MOST, 5);
        }
        self.words[count] = n as u64;
    }
}
