//! A call as a trace shows it: the call, the memory that it read, and the memory that it mapped.
//! Knows only the break of a model, and no rules.
//!
//! A trace does not have the program's memory. It has the names that calls set for anonymous
//! memory; ranges, masks and modes that are passed by pointer are unknown.

use samara_mm::{FileMode, MapFlags, PageSize};
use samara_trace::calls::Call;
use samara_trace::event::{AreaRecord, Event, EventKind, Step, StepKind};
use samara_trace::file::Space;

use crate::arch::{AUDIT_NATIVE, Decoded, decode};
use crate::os::proc::{EXEC, KernelArea};
use crate::space::memory::Memory;

/// Size of a page.
const PAGE: u64 = 4096;

/// A call of a trace.
#[derive(Clone, Debug)]
pub(super) struct TracedCall {
    pub(super) decoded: Decoded,
    pub(super) memory: Memory,
    pub(super) result: i64,
}

impl TracedCall {
    /// The call of an event, if it acts on areas. `space`: the areas after it. `brk`: the break
    /// before it.
    pub(super) fn of(event: &Event, space: Option<&Space>, brk: u64) -> Option<TracedCall> {
        let nr = event.nr.filter(|_| event.kind == EventKind::Call)?;
        let mut decoded = decode(AUDIT_NATIVE, nr.into(), event.args, |_, _| false)?;
        if decoded.stays_out() || decoded.call.makes_task() {
            return None;
        }
        // A trace does not mark 32-bit calls. The only sign of one is a 64-bit break that was cut
        // to 32 bits.
        decoded.compat = decoded.call == Call::Brk && brk >> 32 != 0 && event.result as u64 == brk & 0xffff_ffff;
        Some(TracedCall { memory: memory(event, &decoded, space), decoded, result: event.result })
    }

    pub(super) fn failed(&self) -> bool {
        match self.decoded.call {
            Call::Brk => self.decoded.args[0] != 0 && self.result as u64 != self.decoded.args[0],
            _ => (-4095..0).contains(&self.result),
        }
    }

    /// READ_IMPLIES_EXEC, if the areas show it: a trace does not have the personality.
    pub(super) fn personality(&self, space: &Space) -> u32 {
        let (a, shown) = (&self.decoded.args, samara_mm::Personality::READ_IMPLIES_EXEC.bits());
        let at = match self.decoded.call {
            Call::Mmap => self.result as u64,
            Call::Mprotect | Call::PkeyMprotect => a[0],
            Call::Brk => (self.result as u64).wrapping_sub(1),
            _ => return 0,
        };
        let (read, exec) = ((libc::PROT_READ) as u64, (libc::PROT_EXEC) as u64);
        let asked = a[2] & read != 0 && a[2] & exec == 0;
        let implied = !self.failed() && (asked || self.decoded.call == Call::Brk);
        let is = || space.at(at).is_some_and(|area| area.perms & EXEC != 0);
        if implied && is() { shown } else { 0 }
    }

    /// Whether its effect depends on memory that a trace does not have.
    pub(super) fn reads_more(&self) -> bool {
        matches!(self.decoded.call, Call::ProcessMadvise | Call::Mbind) && !self.failed()
    }
}

fn memory(event: &Event, d: &Decoded, space: Option<&Space>) -> Memory {
    let a = &d.args;
    if event.result < 0 {
        return Memory::unknown();
    }
    let (mut bytes, mut mapped) = ((0, Vec::new()), None);
    match d.call {
        Call::Mmap => {
            let area = event.areas.iter().find(|area| area.start <= event.result as u64 && event.result as u64 > 0);
            let at = event.result as u64;
            let area = area.filter(|area| at < area.end).cloned().or_else(|| space.and_then(|space| space.at(at)));
            // Whole huge pages are mapped, which may be more than the requested length.
            let more = |s: &Step| {
                s.kind == StepKind::Mapped && s.start == at && s.end.saturating_sub(at) / PAGE > a[1].div_ceil(PAGE)
            };
            let flags = if event.plan.iter().any(more) { u64::from(MapFlags::HUGETLB.bits()) } else { 0 };
            mapped = area.map(|area| (at, kernel(&area, a[3] | flags), FileMode::RW));
        }
        Call::PrSetVma => {
            let name = space.and_then(|space| space.at(a[2])).and_then(|area| tag(&area.name).map(str::to_owned));
            if let Some(name) = name {
                bytes = (a[4], [name.as_bytes(), &[0; 80]].concat());
            }
        }
        _ => {}
    }
    Memory::recorded(bytes, mapped)
}

/// The name that a program gave to anonymous memory.
pub(super) fn tag(name: &str) -> Option<&str> {
    name.strip_prefix("[anon:").or_else(|| name.strip_prefix("[anon_shmem:"))?.strip_suffix(']')
}

/// An area of a trace as the kernel showed it. `flags`: those of the call that mapped it.
pub(super) fn kernel(area: &AreaRecord, flags: u64) -> KernelArea {
    let huge =
        MapFlags::from_bits_retain(flags as u32).contains(MapFlags::HUGETLB) || area.name.starts_with("/anon_hugepage");
    KernelArea {
        start: area.start,
        end: area.end,
        perms: area.perms,
        offset: area.offset,
        dev: area.dev,
        inode: area.inode,
        name: Some(area.name.clone()),
        flags: None,
        page: if huge { PageSize::M2.bytes() } else { PAGE },
    }
}
