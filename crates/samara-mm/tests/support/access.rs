//! A memory access by the program itself: one instruction that reads, writes or executes an
//! address, and a handler for the signals that it may raise.

use samara_mm::Access;
use std::arch::asm;

const TRAP_FLAG: i64 = 0x100;

/// Does it, in the sacrificial child. 0, or the signal's code; 100 more for SIGBUS.
pub(super) fn perform(access: Access, addr: u64) -> i64 {
    // SAFETY: plain calls; the handler is async-signal-safe, and on the stack that the child has.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
        for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGTRAP] {
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
    let (mut scratch, mut code) = (0u64, 0i64);
    // SAFETY: the address is in the window, where no Rust object lives. Whatever is refused comes
    // back at label 3 (in r10) with a code in r9. What is executed there is one instruction, of two
    // zero bytes, which adds al to the scratch word: the trap flag stops it after that.
    unsafe {
        match access {
            Access::Read => asm!("lea r10, [rip + 3f]", "mov r8b, byte ptr [rdi]", "3:",
                in("rdi") addr, inout("r9") code, out("r8") _, out("r10") _),
            Access::Write => asm!("lea r10, [rip + 3f]", "mov byte ptr [rdi], 0", "3:",
                in("rdi") addr, inout("r9") code, out("r10") _),
            Access::Execute => {
                asm!("lea r10, [rip + 3f]", "pushfq", "or qword ptr [rsp], 0x100", "popfq", "jmp rdi", "3:",
                in("rdi") addr, inout("r9") code, inout("rax") &raw mut scratch => _, out("r10") _)
            }
        }
    }
    std::hint::black_box(&mut scratch);
    code
}

extern "C" fn handler(signal: i32, info: *const libc::siginfo_t, context: *mut libc::ucontext_t) {
    // SAFETY: the kernel hands over both.
    let (code, registers) = unsafe { ((*info).si_code, &mut (*context).uc_mcontext.gregs) };
    let code = match signal {
        // Before the instruction that is to be executed, and after it.
        libc::SIGTRAP if registers[libc::REG_RIP as usize] == registers[libc::REG_RDI as usize] => return,
        libc::SIGTRAP => 0,
        libc::SIGBUS => 100 + code,
        _ => code,
    };
    registers[libc::REG_R9 as usize] = code.into();
    registers[libc::REG_RIP as usize] = registers[libc::REG_R10 as usize];
    registers[libc::REG_EFL as usize] &= !TRAP_FLAG;
}
