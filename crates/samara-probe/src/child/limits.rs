//! Resource limits and capabilities of the sacrificial process, and the sums that they limit.

use super::call;
use super::process::Child;
use crate::harness::read;
use crate::op::Limited;

impl Child<'_> {
    /// Only the hard limits count, which the model knows.
    pub(super) fn raise_limits(&mut self) {
        for which in [libc::RLIMIT_AS, libc::RLIMIT_DATA, libc::RLIMIT_STACK, libc::RLIMIT_MEMLOCK] {
            let mut limit = [0u64; 2];
            let got = call(libc::SYS_getrlimit, [which as u64, &raw mut limit as u64, 0, 0, 0, 0]);
            limit[0] = limit[1];
            let done = call(libc::SYS_setrlimit, [which as u64, &raw const limit as u64, 0, 0, 0, 0]);
            self.expect(got == 0 && done == 0, 7);
        }
    }

    /// Sets soft limits above the present use, and drops all capabilities.
    pub(super) fn limit(&mut self, set: Limited) -> i64 {
        let [total, data] = self.sums([b"VmSize:", b"VmData:"]);
        for (which, used, left) in [
            (libc::RLIMIT_AS, total, set.address_space),
            (libc::RLIMIT_DATA, data, set.data),
            (libc::RLIMIT_STACK, 0, set.stack),
            (libc::RLIMIT_MEMLOCK, 0, set.locked),
        ] {
            let mut limit = [0u64; 2];
            let got = call(libc::SYS_getrlimit, [which as u64, &raw mut limit as u64, 0, 0, 0, 0]);
            // Without privileges the hard limit is the end.
            limit[0] = left.map_or(u64::MAX, |left| used + left).min(limit[1]);
            let done = call(libc::SYS_setrlimit, [which as u64, &raw const limit as u64, 0, 0, 0, 0]);
            self.expect(got == 0 && done == 0, 7);
        }
        if !set.privileged {
            // _LINUX_CAPABILITY_VERSION_3, this process; effective, permitted and inheritable,
            // twice.
            let (head, none) = ([0x2008_0522u32, 0], [0u32; 6]);
            let done = call(libc::SYS_capset, [&raw const head as u64, &raw const none as u64, 0, 0, 0, 0]);
            self.expect(done == 0, 7);
        }
        0
    }

    /// Sums of `/proc/self/status`, in bytes.
    pub(super) fn sums<const N: usize>(&mut self, names: [&[u8]; N]) -> [u64; N] {
        let mut text = [0u8; 4096];
        let status = self.open(c"/proc/self/status", 7);
        let len = read(status, &mut text);
        call(libc::SYS_close, [status, 0, 0, 0, 0, 0]);
        let text = &text[..len];
        names.map(|name| {
            let sum = bytes_of(text, name);
            self.expect(sum.is_some(), 7);
            sum.unwrap_or(0)
        })
    }
}

/// A line of `/proc/self/status` that counts kB.
fn bytes_of(text: &[u8], name: &[u8]) -> Option<u64> {
    let at = text.windows(name.len()).position(|w| w == name)? + name.len();
    let digits = text[at..].iter().skip_while(|c| c.is_ascii_whitespace()).take_while(|c| c.is_ascii_digit());
    Some(digits.fold(0, |n, c| n * 10 + u64::from(c - b'0')) * 1024)
}
