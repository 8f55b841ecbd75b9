//! Loads the BPF programs of `bpf/nostop.bpf.c`, and turns their output into records like those of
//! perf events. Knows no order, and not what a record means.
//!
//! - **BPF-ORDER-1** [`Bpf::read`] returns everything up to a time: finished calls from the ring
//!   (BPF-CALL-1), and what long calls did so far from their slots. A call's ring record repeats
//!   the content of its slot; the repetition is dropped. `read` returns false if a slot was
//!   changing, or if the ring has an incomplete record.
//! - **BPF-ORDER-2** a loss lasts from the previous look at the loss counts to the present one.

mod calls;
mod each;
mod words;

use std::collections::BTreeMap;
use std::error::Error;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use aya::maps::{Array, HashMap, Map, MapData, RingBuf};
use aya::programs::BtfTracePoint;
use aya::{Btf, Ebpf, EbpfLoader};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::Whose;
use super::record::Record;
use super::refused::{REFUSES, ROOTLESS};
use super::source::CallsToRecord;
use crate::os::proc::{self, Status};
use crate::os::sys::{self, Tid};
use crate::stacks::Copies;
use calls::{CALL_WORDS, Calls, STEP};
use each::EachCall;
use words::Words;

/// The programs, built by `ci/bpf.sh`.
static OBJECT: &[u8] = aya::include_bytes_aligned!("../../../bpf/nostop.bpf.o");

/// The programs, and the tracepoint of each.
const PROGRAMS: [(&str, &str); 5] = [
    ("loaded", "sched_process_exec"),
    ("lock", "mmap_lock_acquire_returned"),
    ("unlock", "mmap_lock_released"),
    ("born", "sched_process_fork"),
    ("ended", "sched_process_exit"),
];

/// The programs at all calls, where they cannot be attached to each call.
const ALL_CALLS: [(&str, &str); 2] = [("all_exit", "sys_exit"), ("all_enter", "sys_enter")];

/// Values of `recording`.
const NONE: u32 = 0;
const AT_EACH: u32 = 1;
const AT_ALL: u32 = 2;

/// Most live tasks that have made a call. Calls of further tasks are lost.
const SLOTS: u32 = 1 << 15;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Most bytes of the ring, which one thread reads.
const MOST_BYTES: usize = 128 << 20;

/// The event number of all records from BPF.
const EVENT: u64 = u64::MAX;

pub(in super::super) struct Bpf {
    /// `None`: the recording is over.
    programs: Option<Ebpf>,
    /// Closed last, because closing may take seconds, in which the rings would not be read.
    _each: Option<EachCall>,
    /// Which programs record calls: see `bpf/nostop.bpf.c`.
    recording: Array<MapData, u32>,
    /// Why the programs run at all calls. `None`: they run at the recorded calls only.
    pub(in super::super) at_all_calls: Option<String>,
    ring: RingBuf<MapData>,
    /// The ring's read and write positions.
    positions: Words,
    slots: Words,
    watched: HashMap<MapData, u32, u32>,
    /// The processes in `watched`.
    roots: Vec<Tid>,
    /// Number of lost records per processor, each in its own cache line.
    lost: Words,
    /// The sum of losses at the last look, and the time of that look.
    known: u64,
    looked: u64,
    calls: Calls,
    /// Becomes readable when the ring is filled in part.
    filled: Epoll,
}

impl Bpf {
    /// Loads and starts the programs. An error says in a few words why that is not possible.
    pub(in super::super) fn new(asked: CallsToRecord<'_>) -> Result<Bpf, String> {
        missing()?;
        let btf = Btf::from_sys_fs().map_err(|_| "this kernel has no BTF (/sys/kernel/btf/vmlinux)".to_owned())?;
        let steps = match asked.stack {
            0 => 0,
            bytes => bytes.div_ceil(STEP) + 1, // the first step may begin below the stack pointer
        };
        let bytes = asked.bytes.next_power_of_two().clamp(sys::page_size() as usize, MOST_BYTES);
        // Upper bound of a record's size.
        let record = u64::from(steps) * u64::from(STEP) + 512;
        let (all, group) = match asked.whose {
            Whose::Process => (0u32, 0u64),
            Whose::Group(Some(number)) => (0, number),
            Whose::Group(None) => return Err("the control group is one of version 1".into()),
            Whose::All => (1, 0),
        };
        let namespace = proc::namespace()?;
        let processors = aya::util::nr_cpus().map_err(|(_, e)| refused(&e))? as u32;
        let (calls, ends) = (set([asked.calls, asked.ends].concat()), set(asked.ends.to_vec()));
        let wake = bytes as u64 / 4;
        let mut loader = EbpfLoader::new();
        loader
            .btf(Some(&btf))
            .allow_unsupported_maps() // the storage of tasks, which only the programs use
            .override_global("CALLS", &calls, true)
            .override_global("ENDS", &ends, true)
            .override_global("ALL", &all, true)
            .override_global("GROUP", &group, true)
            .override_global("NAMESPACE", &namespace, true)
            .override_global("STACK_STEPS", &steps, true)
            .override_global("SLOTS", &SLOTS, true)
            .override_global("WAKE_FROM", &wake, true)
            .override_global("WAKE_MORE", &record, true)
            .map_max_entries("ring", bytes as u32)
            .map_max_entries("slots", SLOTS)
            .map_max_entries("lost", processors)
            .map_max_entries("unused", SLOTS);
        let own = std::process::id();
        let mut programs = loader.override_global("NOT_THIS", &own, true).load(OBJECT).map_err(|e| refused(&e))?;
        let mut map = |name: &str| programs.take_map(name).ok_or_else(|| format!("its map {name} is missing"));
        let mapped = |fd: BorrowedFd<'_>, bytes| Words::of(fd.as_raw_fd(), bytes).map_err(|e| refused(&e));
        let ring = RingBuf::try_from(map("ring")?).map_err(|e| refused(&e))?;
        let Map::Array(slots) = map("slots")? else { return Err("its map slots is none".into()) };
        let slots = mapped(slots.fd().as_fd(), SLOTS as usize * CALL_WORDS * 8)?;
        let positions = mapped(ring.as_fd(), 2 * sys::page_size() as usize)?;
        let watched = HashMap::try_from(map("watched")?).map_err(|e| refused(&e))?;
        let Map::Array(lost) = map("lost")? else { return Err("its map lost is none".into()) };
        let lost = mapped(lost.fd().as_fd(), processors as usize * LINE)?;
        let filled = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
            .and_then(|all| {
                all.add(ring.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN | EpollFlags::EPOLLET, 0)).map(|()| all)
            })
            .map_err(|e| refused(&e))?;
        let mut recording = Array::try_from(map("recording")?).map_err(|e| refused(&e))?;
        let (each, at_all_calls) = match EachCall::new(&mut programs, asked) {
            Ok(each) => (Some(each), None),
            Err(why) => (None, Some(why)),
        };
        let at_all = at_all_calls.iter().flat_map(|_| ALL_CALLS);
        for (name, tracepoint) in at_all.chain(PROGRAMS) {
            let program = programs.program_mut(name).ok_or_else(|| format!("its program {name} is missing"))?;
            let program: &mut BtfTracePoint = program.try_into().map_err(|e| refused(&e))?;
            program.load(tracepoint, &btf).map_err(|e| refused(&e))?;
            program.attach().map_err(|e| refused(&e))?;
        }
        let by = if each.is_some() { AT_EACH } else { AT_ALL };
        recording.set(0, by, 0).map_err(|e| refused(&e))?;
        let (programs, calls, looked) = (Some(programs), Calls::default(), sys::now_ns());
        Ok(Bpf {
            programs,
            _each: each,
            recording,
            at_all_calls,
            ring,
            positions,
            slots,
            watched,
            roots: Vec::new(),
            lost,
            known: 0,
            looked,
            calls,
            filled,
        })
    }

    /// Records a process from now on, and those that it makes.
    pub(in super::super) fn watch(&mut self, pid: Tid) -> std::io::Result<()> {
        self.watched.insert(pid as u32, 1, 0).map_err(std::io::Error::other)?;
        self.roots.push(pid);
        Ok(())
    }

    /// Forgets all other processes. They have ended, and new processes may get their numbers.
    pub(in super::super) fn forget_all_but(&mut self, follows: impl Fn(Tid) -> bool) {
        self.roots.retain(|pid| {
            let stays = follows(*pid);
            if !stays {
                let _ = self.watched.remove(&(*pid as u32)); // an error means that it is gone
            }
            stays
        });
    }

    /// A descriptor on which a poll waits for records.
    pub(in super::super) fn descriptor(&self) -> RawFd {
        self.filled.0.as_raw_fd()
    }

    /// Returns the records since the last call: all up to `until`, and perhaps later ones. False:
    /// something may be missing, and comes with a later call (BPF-ORDER-1).
    pub(in super::super) fn read(
        &mut self,
        until: u64,
        received: &mut u64,
        copies: &mut Copies,
        out: &mut Vec<Record>,
    ) -> bool {
        // Consumes the wake-up event.
        let _ = self.filled.wait(&mut [EpollEvent::empty()], EpollTimeout::ZERO);
        let (long, whole) = calls::long(&self.slots, SLOTS, until);
        let end = self.written();
        while let Some(record) = self.ring.next() {
            *received += 1;
            self.calls.record(&record, copies, out);
        }
        let is_complete = self.taken() >= end;
        long.iter().for_each(|(slot, call)| self.calls.so_far(*slot, call, out));
        let before = sys::now_ns();
        let lost = self.lost().values().sum();
        if lost > self.known {
            out.extend(Record::loss(self.looked, sys::now_ns()));
            self.known = lost;
        }
        self.looked = before;
        whole && is_complete
    }

    fn taken(&self) -> u64 {
        self.positions.load(0)
    }

    fn written(&self) -> u64 {
        self.positions.load(sys::page_size() as usize / 8)
    }

    /// How many records each processor has lost, exactly.
    pub(in super::super) fn lost(&self) -> BTreeMap<u32, u64> {
        let all = (0u32..).take(self.lost.len() / (LINE / 8));
        all.map(|cpu| (cpu, self.lost.load(cpu as usize * (LINE / 8)))).filter(|(_, lost)| *lost > 0).collect()
    }

    /// Ends the recording. Records in the ring stay.
    pub(in super::super) fn disable(&mut self) {
        // This ends it at once. The programs are detached one after another.
        let _ = self.recording.set(0, NONE, 0);
        self.programs = None;
    }
}

/// Why the programs cannot be loaded, as far as that is known before trying.
fn missing() -> Result<(), String> {
    const BPF: u64 = 1 << 39;
    const PERFMON: u64 = 1 << 38;
    const SYS_ADMIN: u64 = 1 << 21;
    if proc::is_rootless() {
        return Err(ROOTLESS.into());
    }
    let own = Status::own().bits("CapEff:");
    if own & (BPF | SYS_ADMIN) == 0 {
        return Err("CAP_BPF is missing".into());
    }
    if own & (PERFMON | SYS_ADMIN) == 0 {
        return Err("CAP_PERFMON is missing".into());
    }
    Ok(())
}

/// Describes the kernel's refusal, with a hint by its error number. This process has the
/// capabilities.
fn refused(error: &(dyn Error + 'static)) -> String {
    let (mut errno, mut cause) = (None, Some(error));
    while let Some(error) = cause {
        errno = errno.or_else(|| error.downcast_ref::<std::io::Error>()?.raw_os_error());
        cause = error.source();
    }
    let hint = match errno {
        Some(libc::EPERM) => "; a seccomp filter may forbid bpf, as a container's default one does",
        Some(libc::EMFILE) => "; raise the limit of descriptors: ulimit -n, LimitNOFILE of a unit",
        Some(libc::ENOMEM) => "; memory is short: the control group's, or ulimit -l (before Linux 5.11)",
        _ => "",
    };
    format!("{REFUSES} ({}){hint}", first_line(error))
}

/// The first line of an error and of its causes.
fn first_line(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text.lines().next().unwrap_or_default().to_owned()
}

/// Numbers of calls as a set of bits.
fn set(numbers: Vec<u32>) -> [u64; 8] {
    let mut all = [0; 8];
    for number in numbers {
        if let Some(word) = all.get_mut(number as usize / 64) {
            *word |= 1 << (number % 64);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// The kernel's error number is found in the causes of the loader's error.
    #[test]
    fn a_refusal_names_what_helps() {
        for (errno, hint) in [(libc::EPERM, "seccomp"), (libc::EMFILE, "ulimit -n"), (libc::ENOMEM, "ulimit -l")] {
            let kernels =
                aya::sys::SyscallError { call: "bpf_prog_load", io_error: io::Error::from_raw_os_error(errno) };
            let error = aya::programs::ProgramError::SyscallError(kernels);
            let text = refused(&error);
            assert!(text.contains(hint) && text.contains("bpf_prog_load"), "{text}");
        }
        let text = refused(&io::Error::from_raw_os_error(libc::EINVAL));
        assert!(text.ends_with(')'), "{text}");
    }
}
