//! Tests: the filter agrees with `decode` on every call.

use super::*;

/// A small interpreter of the instructions that the filter uses, over `struct seccomp_data`.
fn run(arch: u32, nr: u32, args: [u64; 6]) -> u32 {
    let mut data = Vec::new();
    data.extend_from_slice(&nr.to_ne_bytes());
    data.extend_from_slice(&arch.to_ne_bytes());
    data.extend_from_slice(&[0; 8]);
    for a in args {
        data.extend_from_slice(&a.to_ne_bytes());
    }
    let program = program();
    let (mut pc, mut acc) = (0usize, 0u32);
    loop {
        let i = program[pc];
        pc += 1;
        match i.code {
            LOAD => acc = u32::from_ne_bytes(data[i.k as usize..][..4].try_into().unwrap()),
            AND => acc &= i.k,
            IF_EQUAL => pc += usize::from(if acc == i.k { i.jt } else { i.jf }),
            IF_BIT => pc += usize::from(if acc & i.k != 0 { i.jt } else { i.jf }),
            RETURN => return i.k,
            _ => pc += i.k as usize,
        }
    }
}

#[test]
fn agrees_with_decode_for_every_number() {
    let interesting = [0u64, 16, 21, 22, 35, 65, 67, 0x5356_4d41, 0x2003, 0x4206, 0xc020_aa00, 0x8010_aa01];
    let mut stops = 0;
    for arch in [arch::AUDIT_NATIVE, arch::AUDIT_COMPAT] {
        for nr in (0..700).chain(0x4000_0000..0x4000_02bc) {
            // All argument values, where a number has its usual meaning.
            let all = arch == arch::AUDIT_NATIVE && nr < 0x4000_0000;
            for &value in &interesting[..if all { interesting.len() } else { 4 }] {
                for at in 0..2 {
                    let mut args = [0u64; 6];
                    args[at] = value;
                    let stop = run(arch, nr, args) == STOP;
                    // x32 has its own numbers for ioctl, execve, io_setup and execveat. Their
                    // x86-64 numbers are no calls that the recorder stops for.
                    let ours = arch::decode(arch, u64::from(nr), args, |_, _| true).is_some();
                    assert_eq!(stop, ours, "arch {arch:x} nr {nr:x} args {args:x?}");
                    stops += u32::from(stop);
                }
            }
        }
    }
    assert!(stops > 1000, "the test looks at calls that stop: {stops}");
}

#[test]
fn fits_the_kernels_limit() {
    assert!(program().len() <= 4096);
}
