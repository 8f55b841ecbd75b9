//! `mmap`: finds the object to map, from flags and descriptor.
//!
//! It knows no rules of areas. Neighbours: [`Host`] gives the objects.

use super::host::Host;
use super::system_call::SystemCall;
use crate::area::Backing;
use crate::area::flags::{MapFlags, Prot};
use crate::area::huge_places::HugePlaces;
use crate::area::page_size::PageSize;
use crate::calls::mmap::{FileMode, MapRequest};
use crate::errno::Errno;
use crate::space::features::Features;
use crate::space::index::AreaIndex;
use crate::space::place::Placement;
use crate::space::plan::Plan;
use crate::space::{AddressSpace, Config};

/// The bit position of the huge page size in the flags of `mmap` (MAP_HUGE_SHIFT).
const HUGE_SHIFT: u32 = 26;

/// The page size with this logarithm; 0: the default size.
fn huge_size(log: u32) -> Result<Option<PageSize>, Errno> {
    if log == 0 { Ok(None) } else { PageSize::new(1 << log).map(Some).ok_or(Errno::EINVAL) }
}

/// A fixed address from here on looks like an error number.
pub(crate) const ERRORS: u64 = u64::MAX - 4094;

/// The request of these arguments. Makes the objects that it needs.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(crate) fn map_request<B: Backing>(
    config: &Config,
    host: &mut impl Host<B>,
    args: &[u64; 6],
) -> Result<MapRequest<B>, Errno> {
    let [start, len, prot, flags, fd, offset] = *args;
    let below = config.page_size.bytes() - 1;
    if offset & below != 0 {
        return Err(Errno::EINVAL);
    }
    let page_up = |len: u64| len.wrapping_add(below) & !below;
    let (kind, huge) = (flags as u32 & MapFlags::TYPE, flags as u32 >> HUGE_SHIFT);
    // Bits above 32 are unknown flags: only SHARED_VALIDATE refuses them.
    let unknown = if flags >> 32 == 0 { 0 } else { 1 << 31 };
    let mut flags = MapFlags::from_bits_retain(flags as u32 | unknown);
    let anonymous = flags.contains(MapFlags::ANONYMOUS);
    let (backing, mode) = if !anonymous {
        let file = host.file(fd as u32 as i32)?;
        if flags.contains(MapFlags::HUGETLB) && config.huge_page(Some(&file.backing)).is_none() {
            return Err(Errno::EINVAL);
        }
        let every = config.features.contains(Features::SHARED_ZERO_IS_SHMEM);
        let with_object = if every { FileMode::ZERO } else { FileMode::ZERO | FileMode::WRITE };
        let own = kind & MapFlags::SHARED.bits() != 0 && file.mode.contains(with_object);
        (Some(if own { host.shared_memory(page_up(len))? } else { file.backing }), file.mode)
    } else if flags.contains(MapFlags::HUGETLB) {
        // From here on it is a file like any other.
        let memory = host.huge_memory(huge_size(huge)?)?;
        flags -= MapFlags::ANONYMOUS;
        (Some(memory), FileMode::RW)
    } else if kind == MapFlags::SHARED.bits() {
        (Some(host.shared_memory(page_up(len))?), FileMode::RW)
    } else {
        (None, FileMode::RW)
    };
    let prot = Prot::from_bits_retain(prot as u32);
    Ok(MapRequest { offset, mode, flags, backing, ..MapRequest::anonymous(start, len, prot) })
}

/// Makes this map. `places` returns the addresses that a file prefers.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(crate) fn make_map<B: Backing, I: AreaIndex<B>>(
    space: &mut AddressSpace<B, I>,
    request: &MapRequest<B>,
    places: impl FnOnce(&B) -> HugePlaces,
    placement: &mut impl Placement<B, I>,
    plan: &mut Plan,
) -> Result<u64, Errno> {
    // A fixed address that looks like an error number is returned as one, if the length is sound.
    let fixed = request.flags.intersects(MapFlags::FIXED | MapFlags::FIXED_NOREPLACE);
    let sound = space.huge_page(request.backing.as_ref()).is_none()
        && request.len != 0
        && (1..=space.config().task_size).contains(&space.page_up(request.len));
    if fixed && request.start >= ERRORS && sound && space.len() <= space.config().max_map_count {
        return Ok(request.start);
    }
    space.mmap_at(request, places, placement, plan)
}

impl<B: Backing, I: AreaIndex<B>, H: Host<B>, P: Placement<B, I>> SystemCall<'_, B, I, H, P> {
    pub(super) fn mmap(&mut self) -> Result<u64, Errno> {
        let request = map_request(self.space.config(), self.host, self.args)?;
        let places = |file: &B| self.host.huge_places(file, false);
        make_map(self.space, &request, places, self.placement, self.plan)
    }
}
