//! The seccomp program: stops the calls of the tables and allows all others at full speed.
//!
//! - **SECCOMP-1** jumps go forwards and stay inside the program. Each block ends in a return, so
//!   no jump is longer than its block.
//! - **SECCOMP-2** a call that is not in a table is allowed without a look at its arguments, so the
//!   kernel can cache the answer for its number.

use samara_trace::calls::{Number, When};

use crate::arch;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IF_BIT: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const AND: u16 = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// The SECCOMP_RET_DATA of the recorder's stops, to tell them from those of the program's filters.
pub(crate) const DATA: u16 = 0x5a4d;
const STOP: u32 = libc::SECCOMP_RET_TRACE | DATA as u32;

const OFFSET_NR: u32 = 0;
const OFFSET_ARCH: u32 = 4;
const OFFSET_ARGS: u32 = 16;

fn op(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k }
}

/// Tests the accumulator: if the test fails, skips `over` instructions.
fn unless_skip(code: u16, k: u32, over: usize) -> libc::sock_filter {
    debug_assert!(over < 256);
    libc::sock_filter { code, jt: 0, jf: over as u8, k }
}

/// The blocks for one table. At the start of each the accumulator holds the call's number.
fn table(rows: &[Number]) -> Vec<libc::sock_filter> {
    let mut out = Vec::new();
    let mut done: Vec<u32> = Vec::new();
    for row in rows {
        if done.contains(&row.nr) {
            continue;
        }
        done.push(row.nr);
        let mut body = Vec::new();
        // A number may be in several rows with different argument values. One block serves them
        // all.
        for same in rows.iter().filter(|r| r.nr == row.nr) {
            match same.when {
                When::Always => body.push(op(RETURN, STOP)),
                When::Is(arg, values) => {
                    body.push(op(LOAD, OFFSET_ARGS + 8 * u32::from(arg)));
                    for value in values {
                        body.push(unless_skip(IF_EQUAL, value.0, 1));
                        body.push(op(RETURN, STOP));
                    }
                }
            }
        }
        body.push(op(RETURN, libc::SECCOMP_RET_ALLOW));
        out.push(unless_skip(IF_EQUAL, row.nr, body.len()));
        out.append(&mut body);
    }
    out.push(op(RETURN, libc::SECCOMP_RET_ALLOW));
    out
}

/// The whole program.
pub(crate) fn program() -> Vec<libc::sock_filter> {
    let compat = table(arch::COMPAT);
    let x32: Vec<Number> = {
        let own = arch::X32.iter().map(|r| r.nr).collect::<Vec<_>>();
        arch::NATIVE.iter().filter(|r| !own.contains(&r.nr)).chain(arch::X32).copied().collect()
    };
    let x32 = table(&x32);
    // Long jumps use BPF_JA, whose offset has 32 bits.
    let jump = |over: usize| op((libc::BPF_JMP | libc::BPF_JA) as u16, over as u32);
    let mut out = vec![op(LOAD, OFFSET_ARCH), unless_skip(IF_EQUAL, arch::AUDIT_COMPAT, 2)];
    out.push(op(LOAD, OFFSET_NR));
    out.push(jump(0)); // patched below: to the i386 table
    let to_compat = out.len() - 1;
    out.push(op(LOAD, OFFSET_NR));
    out.push(unless_skip(IF_BIT, arch::X32_BIT, 2));
    out.push(op(AND, !arch::X32_BIT));
    out.push(jump(0)); // patched below: to the x32 table
    let to_x32 = out.len() - 1;
    out.extend(table(arch::NATIVE));
    out[to_x32].k = (out.len() - to_x32 - 1) as u32;
    out.extend(x32);
    out[to_compat].k = (out.len() - to_compat - 1) as u32;
    out.extend(compat);
    out
}

#[cfg(test)]
#[path = "seccomp_tests.rs"]
mod tests;
