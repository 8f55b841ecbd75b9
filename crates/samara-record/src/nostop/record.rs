//! Parses the records of the kernel's rings: calls, write sections, areas, births and ends of
//! tasks. Knows no rings, and not what a call means.

use std::collections::BTreeMap;
use std::sync::Arc;

use perf_event_open_sys::bindings::{
    PERF_RECORD_COMM, PERF_RECORD_EXIT, PERF_RECORD_FORK, PERF_RECORD_LOST, PERF_RECORD_MISC_COMM_EXEC,
    PERF_RECORD_MMAP2, PERF_RECORD_SAMPLE,
};

use super::tracefs::Tracepoint;
use crate::os::sys::Tid;
use crate::stacks::{Copied, Copies};

/// What the kernel recorded, and when (CLOCK_MONOTONIC).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Record {
    pub(super) time: u64,
    pub(super) pid: Tid,
    pub(super) tid: Tid,
    /// The number of the event, or of the one from which it was inherited.
    pub(super) event: u64,
    pub(super) what: What,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum What {
    /// A call was entered. With a copy of the task's stack, if stacks are recorded.
    Enter { nr: u32, args: [u64; 6], stack: Option<Arc<Copied>> },
    /// A call returned.
    Return { nr: u32, result: i64 },
    /// A write section began, in the address space at this kernel address. With its number of
    /// areas, where that is known.
    Lock { mm: u64, areas: Option<u32> },
    /// A write section ended.
    Unlock { mm: u64, areas: Option<u32> },
    /// The kernel made or changed an area.
    Area(Box<ShownArea>),
    /// The process loaded a program.
    Loaded,
    /// The task was made by this task, of this process.
    Born { by: Tid, of: Tid },
    /// A signal ends the task, with this wait status.
    #[cfg_attr(not(feature = "bpf"), expect(dead_code, reason = "only BPF reports it"))]
    Killed { status: i32 },
    /// The task ended.
    Ended,
    /// The ring reports this number of lost records before this one.
    Lost(u64),
    /// Records were lost between this record's time and `until` ([`Record::loss`]).
    Loss { until: u64 },
}

impl Record {
    /// The two records of a loss between two times. The first one puts all spaces in doubt. The
    /// second one does so again, because the records of calls that began in between may be missing.
    pub(super) fn loss(from: u64, until: u64) -> [Record; 2] {
        [from, until].map(|time| Record { time, pid: 0, tid: 0, event: 0, what: What::Loss { until } })
    }
}

/// An area as an MMAP2 record shows it, after it was merged with its neighbours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ShownArea {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) offset: u64,
    pub(super) dev: (u32, u32),
    pub(super) inode: u64,
    /// PROT_READ and so on.
    pub(super) prot: u32,
    /// MAP_SHARED and so on.
    pub(super) flags: u32,
    /// Empty: the area has no name.
    pub(super) name: Vec<u8>,
}

/// The content of a tracepoint's records, with the offsets of their fields.
#[derive(Clone, Debug)]
enum Tells {
    Enter { nr: usize, args: Vec<usize> },
    Return { nr: usize, result: usize },
    Lock { mm: usize, write: usize, success: Option<usize> },
    Unlock { mm: usize, write: usize },
}

/// Reads records of the tracepoints that it was made for.
#[derive(Clone, Debug, Default)]
pub(super) struct Reader(BTreeMap<u64, Tells>);

impl Reader {
    /// Adds the tracepoint at the entry of a call. This and the next three functions return its
    /// number; `None`: it lacks a field.
    pub(super) fn add_enter(&mut self, point: &Tracepoint) -> Option<u64> {
        let tells = Tells::Enter { nr: point.offset("__syscall_nr")?, args: point.arguments() };
        self.0.insert(point.number, tells);
        Some(point.number)
    }

    /// Adds the tracepoint at the return of a call.
    pub(super) fn add_return(&mut self, point: &Tracepoint) -> Option<u64> {
        let tells = Tells::Return { nr: point.offset("__syscall_nr")?, result: point.offset("ret")? };
        self.0.insert(point.number, tells);
        Some(point.number)
    }

    /// Adds the tracepoint at the beginning of a section.
    pub(super) fn add_lock(&mut self, point: &Tracepoint) -> Option<u64> {
        let (mm, write) = (point.offset("mm")?, point.offset("write")?);
        self.0.insert(point.number, Tells::Lock { mm, write, success: point.offset("success") });
        Some(point.number)
    }

    /// Adds the tracepoint at the end of a section.
    pub(super) fn add_unlock(&mut self, point: &Tracepoint) -> Option<u64> {
        let tells = Tells::Unlock { mm: point.offset("mm")?, write: point.offset("write")? };
        self.0.insert(point.number, tells);
        Some(point.number)
    }

    /// Reads a record with its header. `None`: the record is not needed.
    pub(super) fn read(&self, bytes: &[u8], copies: &mut Copies) -> Option<Record> {
        let kind = u32(bytes, 0)?;
        let (misc, body) = (u32(bytes, 4)? & 0xffff, bytes.get(8..)?);
        if kind == PERF_RECORD_SAMPLE {
            let (event, pid, tid, time) = (u64(body, 0)?, tid(body, 8)?, tid(body, 12)?, u64(body, 16)?);
            let len = u32(body, 32)? as usize;
            let mut what = self.sample(body.get(36..36 + len)?)?;
            if let What::Enter { stack, .. } = &mut what {
                *stack = copied(body.get(36 + len..)?, copies);
            }
            return Some(Record { time, pid, tid, event, what });
        }
        // At the end of every other record: task, time, processor, event.
        let end = body.len().checked_sub(32)?;
        let (time, event) = (u64(body, end + 8)?, u64(body, end + 24)?);
        let (mut pid, mut tid_) = (tid(body, 0)?, tid(body, 4)?);
        let what = match kind {
            PERF_RECORD_MMAP2 => What::Area(Box::new(ShownArea {
                start: u64(body, 8)?,
                end: u64(body, 8)?.saturating_add(u64(body, 16)?),
                offset: u64(body, 24)?,
                dev: (u32(body, 32)?, u32(body, 36)?),
                inode: u64(body, 40)?,
                prot: u32(body, 56)?,
                flags: u32(body, 60)?,
                name: match body.get(64..end)?.split(|byte| *byte == 0).next()? {
                    b"//anon" => Vec::new(),
                    name => name.to_owned(),
                },
            })),
            PERF_RECORD_COMM if misc & PERF_RECORD_MISC_COMM_EXEC != 0 => What::Loaded,
            PERF_RECORD_FORK | PERF_RECORD_EXIT => {
                let (of, by) = (tid(body, 4)?, tid(body, 12)?);
                (pid, tid_) = (tid(body, 0)?, tid(body, 8)?);
                if kind == PERF_RECORD_FORK { What::Born { by, of } } else { What::Ended }
            }
            PERF_RECORD_LOST => What::Lost(u64(body, 8)?),
            _ => return None,
        };
        Some(Record { time, pid, tid: tid_, event, what })
    }

    fn sample(&self, raw: &[u8]) -> Option<What> {
        let number = u64::from(u16::from_ne_bytes(*raw.first_chunk()?));
        let is = |at: usize| raw.get(at).is_some_and(|byte| *byte != 0);
        match self.0.get(&number)? {
            Tells::Enter { nr, args: at } => {
                let mut args = [0; 6];
                for (arg, at) in args.iter_mut().zip(at) {
                    *arg = u64(raw, *at)?;
                }
                Some(What::Enter { nr: u32(raw, *nr)?, args, stack: None })
            }
            Tells::Return { nr, result } => {
                Some(What::Return { nr: u32(raw, *nr)?, result: u64(raw, *result)? as i64 })
            }
            Tells::Lock { mm, write, success } => {
                let taken = is(*write) && success.is_none_or(is);
                let mm = u64(raw, *mm)?;
                taken.then_some(What::Lock { mm, areas: None })
            }
            Tells::Unlock { mm, write } => {
                let mm = u64(raw, *mm)?;
                is(*write).then_some(What::Unlock { mm, areas: None })
            }
        }
    }
}

/// The end of a record: registers ([`arch::PERF_REGISTERS`](crate::arch)) of a 64-bit program, and
/// its stack.
fn copied(rest: &[u8], copies: &mut Copies) -> Option<Arc<Copied>> {
    const ABI_64: u64 = 2;
    if u64(rest, 0)? != ABI_64 {
        return None;
    }
    let (bp, sp, ip, size) = (u64(rest, 8)?, u64(rest, 16)?, u64(rest, 24)?, u64(rest, 32)? as usize);
    let all = rest.get(40..)?.get(..size)?;
    // Number of bytes that were really copied.
    let len = if size == 0 { 0 } else { u64(rest, 40 + size)? as usize };
    Some(copies.of((ip, sp, bp), 0, all.get(..len)?))
}

fn u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn tid(bytes: &[u8], at: usize) -> Option<Tid> {
    u32(bytes, at).map(|tid| tid as Tid)
}
