//! Threads of the sacrificial process: they make their ops at the same time, and note when each
//! began and ended. Does not know the effects of ops on one another.
//!
//! The threads are made by clone(2), without thread-local storage of their own: the process was
//! forked from one that may have had threads, and allocates nothing. So they make their calls
//! without the C library, whose `errno` is thread-local, and run no code that could panic.
//!
//! - **THREADS-1** A thread's job and stack outlive it: the process goes on only after the kernel
//!   has reported the thread's end (CLONE_CHILD_CLEARTID).
//! - **THREADS-2** Each thread writes to its own part of the arena. Everything else that threads
//!   share is atomic, or read only.

use super::call;
use super::process::Child;
use crate::op::{Op, PAGE};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The most threads.
pub const THREADS: usize = 4;
/// Words of the arena for an op: result, beginning, end.
pub(super) const NOTED: usize = 3;
/// Rounds of a loop in which a thread waits for the others before it lets them have its processor.
const SOON: u32 = 300;
const STACK: u64 = 16 * PAGE;

/// An op of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// A pause before the op.
    pub pause: Pause,
    pub op: Op,
}

/// A pause, so threads that start at the same time also meet at later ops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Rounds of an empty loop.
    Spin(u32),
    /// Until this moment, if it comes soon: then the other threads have come as far.
    Until(u64),
    /// sched_yield(2).
    Yield,
}

/// What the threads share.
struct Shared {
    /// Counts its own reads: each read is a moment.
    clock: AtomicU64,
    /// Number of threads that have started.
    ready: AtomicU64,
    threads: u64,
    zero: u64,
    sink: u64,
}

/// The work of a thread.
struct Job<'a> {
    shared: &'a Shared,
    ops: &'a [Timed],
    notes: &'a [AtomicU64],
}

/// Makes a thread that runs [`thread`], by clone(2) itself: the C library musl refuses these flags.
/// A negative result is an errno.
///
/// # Safety
/// `top` ends a stack of the thread's own, of 16-byte alignment. The stack, `job` and `alive` are
/// there until the kernel has cleared `alive`.
#[cfg(target_arch = "x86_64")]
unsafe fn clone(top: *mut c_void, flags: c_int, job: *mut c_void, alive: &AtomicU32) -> i64 {
    let id;
    // SAFETY: the caller's contract. The new thread has these registers and an empty stack, and
    // ends in `thread`; in this one the call changes its result and the two registers that every
    // call does.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone => id,
            in("rdi") flags as u64,
            in("rsi") top,
            in("rdx") 0_u64,
            in("r10") alive.as_ptr(),
            in("r8") 0_u64,
            in("r12") job,
            in("r13") thread as extern "C" fn(*mut c_void) -> c_int,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    id
}

/// The same by the C library.
///
/// # Safety
/// As above.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn clone(top: *mut c_void, flags: c_int, job: *mut c_void, alive: &AtomicU32) -> i64 {
    let none = std::ptr::null_mut::<c_void>();
    // SAFETY: the caller's contract.
    i64::from(unsafe { libc::clone(thread, top, flags, job, none, none, alive.as_ptr()) })
}

impl Child<'_> {
    /// Makes the ops of each thread, all threads at the same time.
    pub(super) fn together(&mut self, threads: &[Vec<Timed>]) {
        let words = NOTED * threads.iter().map(Vec::len).sum::<usize>();
        let fits = threads.len() <= THREADS && self.words.len() - self.at > words;
        self.expect(fits, 5);
        let (kind, prot) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_READ | libc::PROT_WRITE);
        let stacks = call(libc::SYS_mmap, [0, STACK * THREADS as u64, prot as u64, kind as u64, u64::MAX, 0]);
        self.expect(stacks > 0, 8);
        let notes = &mut self.words[self.at..][..words];
        notes.fill(0);
        // SAFETY: the same memory, as long; an atomic has the layout of its integer. The exclusive
        // borrow lasts until the threads are gone (THREADS-1), so all writes are by these atomics.
        let notes = unsafe { std::slice::from_raw_parts(notes.as_mut_ptr().cast::<AtomicU64>(), words) };
        let shared = Shared {
            clock: AtomicU64::new(0),
            ready: AtomicU64::new(0),
            threads: threads.len() as u64,
            zero: self.zero,
            sink: self.sink,
        };
        // The kernel sets a thread's word to 0 when it is gone.
        let alive: [AtomicU32; THREADS] = [const { AtomicU32::new(0) }; THREADS];
        let mut from = 0;
        let jobs: [Job<'_>; THREADS] = std::array::from_fn(|i| {
            let ops = threads.get(i).map_or(&[][..], Vec::as_slice);
            let notes = &notes[from..from + NOTED * ops.len()];
            from += notes.len();
            Job { shared: &shared, ops, notes }
        });
        let mut made = true;
        for (i, (job, alive)) in jobs.iter().zip(&alive).enumerate().take(threads.len()) {
            alive.store(1, Ordering::Relaxed);
            let top = (stacks as u64 + STACK * (i as u64 + 1)) as *mut c_void;
            let flags = libc::CLONE_VM
                | libc::CLONE_FS
                | libc::CLONE_FILES
                | libc::CLONE_SIGHAND
                | libc::CLONE_THREAD
                | libc::CLONE_SYSVSEM
                | libc::CLONE_CHILD_CLEARTID;
            // SAFETY: the stack is new and this thread's alone; THREADS-1 for the job and the word,
            // which the kernel clears. `thread` keeps to what the head says.
            let id = unsafe { clone(top, flags, (&raw const *job).cast_mut().cast(), alive) };
            made &= id > 0;
        }
        // The others would wait for a thread that could not be made; they end with the process.
        self.expect(made, 8);
        for alive in &alive {
            // Pairs with the kernel's store when the thread is gone.
            while alive.load(Ordering::Acquire) != 0 {
                call(libc::SYS_futex, [alive.as_ptr() as u64, libc::FUTEX_WAIT as u64, 1, 0, 0, 0]);
            }
        }
        self.at += words;
    }
}

/// A thread.
extern "C" fn thread(job: *mut c_void) -> c_int {
    // SAFETY: THREADS-1: the job that `together` gave it.
    let job = unsafe { &*job.cast::<Job<'_>>() };
    job.run();
    // SAFETY: it ends this thread, and touches no memory.
    unsafe { system(libc::SYS_exit, [0; 6]) };
    0
}

impl Job<'_> {
    fn run(&self) {
        let Shared { clock, ready, threads, .. } = self.shared;
        // Pairs with those of the other threads: none goes on before all are there.
        ready.fetch_add(1, Ordering::SeqCst);
        let mut rounds = 0;
        while ready.load(Ordering::SeqCst) < *threads {
            rounds += 1;
            pause(if rounds < SOON { Pause::Spin(1) } else { Pause::Yield }, clock);
        }
        for (timed, notes) in self.ops.iter().zip(self.notes.chunks_exact(NOTED)) {
            pause(timed.pause, clock);
            // Each pairs with those of the other threads: all moments are in one order.
            let began = clock.fetch_add(1, Ordering::SeqCst);
            let ret = self.make(timed.op);
            let ended = clock.fetch_add(1, Ordering::SeqCst);
            for (note, word) in notes.iter().zip([ret as u64, began, ended]) {
                note.store(word, Ordering::Relaxed);
            }
        }
    }

    /// Memory is accessed by a system call that copies to or from it: it returns EFAULT where a
    /// program would get SIGSEGV, so no handler is needed, and the kernel handles the fault in the
    /// same way.
    fn make(&self, op: Op) -> i64 {
        let (nr, args) = match op {
            Op::Call(nr, args) => (nr, args),
            Op::Write(at) => (libc::SYS_read, [self.shared.zero, at, 1, 0, 0, 0]),
            Op::Read(at) => (libc::SYS_pwrite64, [self.shared.sink, at, 1, 0, 0, 0]),
            _ => return -i64::from(libc::ENOSYS),
        };
        // SAFETY: calls in the window, where no Rust object lives; or the others that `call` names.
        let ret = unsafe { system(nr, args) };
        if matches!(op, Op::Call(..)) { ret } else { ret.min(0) }
    }
}

fn pause(pause: Pause, clock: &AtomicU64) {
    match pause {
        Pause::Until(moment) => {
            let mut rounds = 0;
            while rounds < SOON && clock.load(Ordering::Relaxed) < moment {
                std::hint::spin_loop();
                rounds += 1;
            }
        }
        Pause::Spin(rounds) => (0..rounds).for_each(|_| std::hint::spin_loop()),
        Pause::Yield => {
            // SAFETY: it touches no memory.
            unsafe { system(libc::SYS_sched_yield, [0; 6]) };
        }
    }
}

/// Makes a system call without the C library. A negative result is an errno.
///
/// # Safety
/// As of [`crate::harness::call`].
unsafe fn system(nr: i64, a: [u64; 6]) -> i64 {
    let ret;
    // SAFETY: x86-64's call of the kernel, which keeps all registers but these; it may read and
    // write memory as the caller's contract says.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") nr => ret,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2], in("r10") a[3], in("r8") a[4], in("r9") a[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    ret
}
