//! The kernel's own pages, which exec places: `[vdso]`, `[vvar]` and the like.

use crate::area::flags::Flags;
use crate::area::{Area, Object};

impl<B> Area<B> {
    /// `[vdso]`: code of the kernel. Readable and executable; a debugger may write to it.
    ///
    /// The kernel's areas are never cut, never merge with others and cannot grow. They can be
    /// moved, protected and unmapped, but only whole, and keep their names.
    /// [`AddressSpace::import`](crate::AddressSpace::import) places them.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Area, Config, Errno, FileId};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.import(0x7fff_f7fc_1000, 0x7fff_f7fc_5000, Area::vvar("[vvar]")).unwrap();
    /// space.import(0x7fff_f7fc_5000, 0x7fff_f7fc_7000, Area::vdso()).unwrap();
    /// assert_eq!(space.unmap(0x7fff_f7fc_5000, 0x1000).unwrap_err().errno, Errno::EINVAL);
    /// assert!(space.line(0x7fff_f7fc_5000).unwrap().to_string().ends_with("[vdso]"));
    /// ```
    pub fn vdso() -> Area<B> {
        let may = Flags::MAYREAD | Flags::MAYWRITE | Flags::MAYEXEC;
        Area::special("[vdso]", Flags::READ | Flags::EXEC | may | Flags::DONTEXPAND)
    }

    /// `[vvar]`, `[vvar_vclock]`: data of the kernel, which can only ever be read.
    pub fn vvar(name: &str) -> Area<B> {
        let device = Flags::PFNMAP | Flags::IO | Flags::DONTEXPAND | Flags::DONTDUMP;
        Area::special(name, Flags::READ | Flags::MAYREAD | device)
    }

    fn special(name: &str, flags: Flags) -> Area<B> {
        Area::new(flags, Object::Special(name.into()), 0)
    }
}
