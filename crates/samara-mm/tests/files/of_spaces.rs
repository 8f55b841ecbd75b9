//! Files with reverse maps, and what the maps must hold for some spaces.

use crate::PAGE;
use crate::file::File;
use samara_mm::files::{FileArea, Mapping};
use samara_mm::{
    AddressSpace, FileMode, Flags, Image, ImageSegment, MapFlags, MapRequest, Object, Prot, SharedAddressSpace,
};
use std::sync::Arc;

pub(crate) type Space = SharedAddressSpace<File>;

impl File {
    /// Some pages of it from `page` on, at a page of the space.
    pub(crate) fn at(&self, at: u64, pages: u64, page: u64, prot: Prot, flags: MapFlags) -> MapRequest<File> {
        MapRequest::file(at * PAGE, pages * PAGE, prot, flags, self.clone(), page * PAGE)
    }

    /// How often a lock was taken for changes.
    pub(crate) fn batches(&self) -> u64 {
        self.map.stats().unwrap().batches
    }

    /// A library of five areas: text, constants, data, zeros, and what lies between.
    pub(crate) fn library(&self, at: Option<u64>) -> Image<File> {
        let segment = |addr: u64, len: u64, offset: u64, file_len: u64, prot| {
            let [addr, len, offset, file_len] = [addr, len, offset, file_len].map(|pages| pages * PAGE);
            ImageSegment { addr, len, offset, file_len, prot }
        };
        Image {
            start: at.unwrap_or(0) * PAGE,
            fixed: at.is_some(),
            backing: self.clone(),
            mode: FileMode::READ,
            segments: vec![
                segment(0, 4, 0, 4, Prot::READ | Prot::EXEC),
                segment(4, 2, 4, 2, Prot::READ),
                segment(8, 3, 6, 1, Prot::RW),
            ],
        }
    }
}

/// What must be linked for the areas of a space.
pub(crate) fn links(number: u64, space: &AddressSpace<File>, file: &File) -> Vec<Mapping> {
    let of_file = |object: &Object<File>| matches!(object, Object::File(of) if Arc::ptr_eq(&of.map, &file.map));
    let areas = space.areas().filter(|at| of_file(&at.area.object));
    let mapping = areas.map(|at| {
        let page = at.offset(space.config().page_size) / PAGE;
        let shared_writable = at.area.flags.contains(Flags::SHARED | Flags::MAYWRITE);
        Mapping { space: number, area: FileArea { start: at.start, end: at.end, page, shared_writable } }
    });
    mapping.collect()
}

/// The maps of these files hold the areas of these spaces, and no others.
pub(crate) fn check(files: &[File], spaces: &[&Space]) {
    for file in files {
        let mut want: Vec<Mapping> =
            spaces.iter().flat_map(|space| links(space.number(), &space.snapshot().unwrap(), file)).collect();
        want.sort();
        assert_eq!(file.map.areas(..).unwrap(), want);
        file.map.check().unwrap();
    }
    spaces.iter().for_each(|space| space.check().unwrap());
}
