//! map_image on a shared space. The rules are those of `AddressSpace::map_image`.

use crate::area::Backing;
use crate::calls::image::Image;
use crate::errno::Errno;
use crate::shared::SharedAddressSpace;
use crate::shared::calls::Caller;
use crate::shared::credit::Growth;
use crate::shared::update::Reach;
use crate::shared::wait::Wait;
use crate::space::error::Error;
use crate::space::place::Placement;
use crate::space::plan::Plan;
use samara::{PinHere, Reclaim};

impl<B, R, W, F> Caller<'_, B, R, W, F>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere,
    W: Wait,
    F: FnMut(&Plan) -> Result<(), Errno>,
{
    /// [`AddressSpace::map_image`](crate::AddressSpace::map_image): all segments with one plan, one
    /// instant at which others see them, and one acquisition of the file's reverse map. An image
    /// that is fixed locks its range; any other takes the whole space, because its place depends on
    /// all areas.
    ///
    /// # Errors
    /// As there.
    pub fn map_image(&mut self, image: &Image<B>, placement: &mut impl Placement<B>) -> Result<(u64, Plan), Error> {
        let reach = |space: &SharedAddressSpace<B, R, W>| {
            let Some(len) = image.len(space.config.page_size.bytes()).filter(|_| image.fixed) else {
                return Reach::WHOLE;
            };
            let reach = space.mapping(image.start, len, false, Some(&image.backing));
            // The call reserves the place first, and then maps the segments over it.
            let bytes = reach.growth.bytes.saturating_mul(2);
            Reach { growth: Growth { bytes, areas: image.most_areas(), ..reach.growth }, ..reach }
        };
        self.ranged(reach, |space| space.map_image(image, placement))
    }
}

impl<B, R, W> SharedAddressSpace<B, R, W>
where
    B: Backing + Send + Sync,
    R: Reclaim + PinHere,
    W: Wait,
{
    /// [`Caller::map_image`].
    ///
    /// # Errors
    /// As there.
    pub fn map_image(&self, image: &Image<B>, placement: &mut impl Placement<B>) -> Result<(u64, Plan), Error> {
        self.caller().map_image(image, placement)
    }
}
