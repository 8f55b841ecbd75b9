//! mbind, set_mempolicy_home_node and PR_SET_VMA_ANON_NAME: policies and names, which here only
//! keep areas apart.

use crate::area::{Backing, Object, Policy};
use crate::errno::Errno;
use crate::space::AddressSpace;
use crate::space::error::Error;
use crate::space::index::AreaIndex;
use crate::space::plan::Plan;
use crate::space::walk::Holes;
use alloc::sync::Arc;

impl<B: Backing, I: AreaIndex<B>> AddressSpace<B, I> {
    /// Sets the memory policy of `[start, start + len)`; `None` is the default policy
    /// (`MPOL_DEFAULT`).
    ///
    /// # Errors
    /// - EINVAL: a bad range.
    /// - EFAULT: a hole, with nothing changed. The default policy skips holes, and is refused only
    ///   if nothing is mapped in the range at all.
    /// - ENOMEM: too many areas.
    pub fn set_policy(&mut self, start: u64, len: u64, policy: Option<Policy>) -> Result<Plan, Error> {
        let end = start.wrapping_add(self.page_up(len));
        if !self.aligned(start) || end < start {
            return Err(Errno::EINVAL.into());
        }
        if end == start {
            return Ok(Plan::new());
        }
        let refused = match policy {
            Some(_) => self.covered(start, end) < end,
            None => self.is_free(start, end),
        };
        if refused {
            return Err(Errno::EFAULT.into());
        }
        self.derive_extras(&[(start, end - 1)], |extras| extras.policy = policy)?;
        let (plan, went) = self.walk(start, end, Holes::Pass, |space, a, _, _| Ok(Some(space.with_derived(a))))?;
        self.finish(went.map(|_| ()), plan)
    }

    /// Sets the home node of the policies in `[start, start + len)` (`set_mempolicy_home_node`).
    /// Holes, and areas without a policy, stay as they are.
    ///
    /// # Errors
    /// - EINVAL: a bad range.
    /// - EOPNOTSUPP: a policy is neither `MPOL_BIND` nor `MPOL_PREFERRED_MANY`. The areas before it
    ///   are done.
    /// - ENOENT: no area in the range has a policy.
    /// - ENOMEM: too many areas.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, Errno, FileId, MapRequest, Policy, Prot};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.map(&MapRequest::anonymous(0x10000, 0x2000, Prot::RW))?;
    /// assert_eq!(space.set_home_node(0x10000, 0x2000, 0).unwrap_err().errno, Errno::ENOENT);
    /// let bind = Policy { mode: 2, nodes: [1; Policy::WORDS], home: None };
    /// space.set_policy(0x10000, 0x2000, Some(bind))?;
    /// space.set_home_node(0x11000, 0x1000, 0)?;
    /// assert_eq!(space.len(), 2);
    /// # Ok::<(), samara_mm::Error>(())
    /// ```
    pub fn set_home_node(&mut self, start: u64, len: u64, node: u16) -> Result<Plan, Error> {
        let end = start.wrapping_add(self.page_up(len));
        if !self.aligned(start) || end < start {
            return Err(Errno::EINVAL.into());
        }
        if end == start {
            return Ok(Plan::new());
        }
        self.derive_extras(&[(start, end - 1)], |extras| {
            extras.policy = extras.policy.map(|policy| Policy { home: Some(node), ..policy });
        })?;
        let mut found = false;
        let (plan, went) = self.walk(start, end, Holes::Pass, |space, a, _, _| {
            let Some(policy) = space.extras.get(a.extra).policy else { return Ok(None) };
            if !matches!(policy.mode & !Policy::MODIFIERS, Policy::BIND | Policy::PREFERRED_MANY) {
                return Err(Errno::EOPNOTSUPP);
            }
            found = true;
            Ok(Some(space.with_derived(a)))
        })?;
        self.finish(went.and(if found { Ok(()) } else { Err(Errno::ENOENT) }), plan)
    }

    /// Names anonymous memory (`PR_SET_VMA_ANON_NAME`); `None` removes the name.
    ///
    /// # Errors
    /// - EINVAL: a bad range.
    /// - EBADF: an area is not private anonymous memory. The areas before it are named.
    /// - ENOMEM: a hole. All areas in the range are named.
    /// - EAGAIN: too many areas.
    ///
    /// ```
    /// use samara_mm::{AddressSpace, Config, FileId, MapRequest, Prot};
    /// let mut space = AddressSpace::<FileId>::new(Config::default());
    /// space.map(&MapRequest::anonymous(0x10000, 0x1000, Prot::RW))?;
    /// space.set_anon_name(0x10000, 0x1000, Some("arena".into()))?;
    /// assert!(space.line(0x10000).unwrap().to_string().ends_with("[anon:arena]"));
    /// # Ok::<(), samara_mm::Error>(())
    /// ```
    pub fn set_anon_name(&mut self, start: u64, len: u64, name: Option<Arc<str>>) -> Result<Plan, Error> {
        let end = self.end_of(start, len)?;
        if end == start {
            return Ok(Plan::new());
        }
        self.derive_extras(&[(start, end - 1)], |extras| extras.name.clone_from(&name))?;
        let (plan, went) = self.walk(start, end, Holes::Pass, |space, a, _, _| {
            if !matches!(a.object, Object::Anonymous) {
                return Err(Errno::EBADF);
            }
            Ok(Some(space.with_derived(a)))
        })?;
        self.finish(self.advice_answer(went), plan)
    }
}
