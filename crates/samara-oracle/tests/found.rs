//! Sequences of calls in which `samara check` once found a difference, as it prints them.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use samara_oracle::{Limited, Mix, Op, ROOM, agree, agree_threads, at, fd};

/// limits, seed 3, sequence 14: op 17.
/// kernel: 0; 6-7 rw-p
/// model:  errno 1 (Operation not permitted); 6-7 rw-p
#[test]
fn limits_3_14_cd2a() {
    agree(
        Mix::Limits,
        &[
            // 0: areas elsewhere, until 100 are left to the limit
            Op::Fill { left: 100 },
            // 1: mmap 5-8 private fixed|anonymous: rw-
            Op::call(libc::SYS_mmap, &[at(5), 0x3000, 3, 0x32, fd::NONE]),
            // 2: mmap 8-9 shared fixed: r--, read_only from 0x8000
            Op::call(libc::SYS_mmap, &[at(8), 0x1000, 1, 0x11, 0x67, 0x8000]),
            // 3: madvise 5-7: DontDump
            Op::call(libc::SYS_madvise, &[at(5), 0x2000, 0x10]),
            // 4: mremap 5-6, new length 0x1000 maymove|fixed|dontunmap to 20
            Op::call(libc::SYS_mremap, &[at(5), 0x1000, 0x1000, 7, at(20)]),
            // 5: mprotect Op::result(4, 0x800), 0x1234 bytes: r--|0x1000000
            Op::call(libc::SYS_mprotect, &[Op::result(4, 0x800), 0x1234, 0x1000001]),
            // 6: write 6
            Op::Write(at(6)),
            // 7: fork
            Op::Fork,
            // 8: userfaultfd unregister 6-7
            Op::Uffd { on: false, at: at(6), len: 0x1000 },
            // 9: the heap begins at 40
            Op::Heap { at: at(40) },
            // 10: brk 41
            Op::call(libc::SYS_brk, &[at(41)]),
            // 11: process_madvise 5-6 and 0x0-0x0 and 6, 0x123 bytes: DontDump
            Op::Advise { advice: 0x10, ranges: [(at(5), 0x1000), (0, 0), (at(6), 0x123)] },
            // 12: shmat 201 at 50: 0x1000
            Op::call(libc::SYS_shmat, &[0xc9, at(50), 0x1000]),
            // 13: shmdt 50
            Op::call(libc::SYS_shmdt, &[at(50)]),
            // 14: mincore 5-6: 0xf00000000
            Op::call(libc::SYS_mincore, &[at(5), 0x1000, ROOM]),
            // 15: remap_file_pages 8-9 from 0x9000
            Op::call(libc::SYS_remap_file_pages, &[at(8), 0x1000, 0, 9]),
            // 16: prctl 66: 0, 0
            Op::call(libc::SYS_prctl, &[0x42]),
            // 17: mseal 6-7
            Op::call(462, &[at(6), 0x1000]),
        ],
    );
}

/// mbind takes a length that rounds up to 2^64 as none.
#[test]
fn errors_1_3() {
    agree(
        Mix::Errors,
        &[
            // 0: mbind 19, 0xfffffffffffff001 bytes: 0x4
            Op::call(libc::SYS_mbind, &[at(19), 0xfffffffffffff001, 4]),
        ],
    );
}

/// A fixed address that looks like an error number comes back as one.
#[test]
fn errors_1_76() {
    agree(
        Mix::Errors,
        &[
            // 0: mmap 0xfffffffffffff800, 0xc000 bytes private
            // fixed|anonymous|noreserve|populate|fixed_noreplace: rw-
            Op::call(libc::SYS_mmap, &[0xfffffffffffff800, 0xc000, 3, 0x10c032, fd::NONE]),
        ],
    );
}

/// What cannot be mapped has no end of its own that an offset could pass.
#[test]
fn errors_2_17() {
    agree(
        Mix::Errors,
        &[
            // 0: mmap 5-9 private fixed|stack: rw-, pipe from 0x8000000000000000
            Op::call(libc::SYS_mmap, &[at(5), 0x4000, 3, 0x20012, 0x6b, 0x8000000000000000]),
            // 1: mmap 14-17 private fixed|populate|0x2000000: rw-, pipe from 0xfffffffffffff000
            Op::call(libc::SYS_mmap, &[at(14), 0x3000, 3, 0x2008012, 0x6b, 0xfffffffffffff000]),
        ],
    );
}

/// What mremap with DONTUNMAP has emptied counts as locked for ever: all of the area, of which a
/// part was moved.
#[test]
fn limits_3_404() {
    let limits = Limited { address_space: Some(57344), locked: Some(40960), ..Limited::default() };
    agree(
        Mix::Limits,
        &[
            // 0: mlockall 0x2-0x2
            Op::call(libc::SYS_mlockall, &[2]),
            // 1: mmap 16-30 private fixed|anonymous|growsdown: rw-
            Op::call(libc::SYS_mmap, &[at(16), 0xe000, 3, 0x132, fd::NONE]),
            // 2: mremap 26-27, new length 0x1000 maymove|fixed|dontunmap to 6
            Op::call(libc::SYS_mremap, &[at(26), 0x1000, 0x1000, 7, at(6)]),
            Op::Limit(limits),
            // 4: mmap 5-6 private fixed|anonymous: ---
            Op::call(libc::SYS_mmap, &[at(5), 0x1000, 0, 0x32, fd::NONE]),
        ],
    );
}

/// A move of several areas with DONTUNMAP asks for each of them whether a limit allows it, when the
/// target has been emptied.
#[test]
fn limits_2_79() {
    let data = |bytes| Limited { data: Some(bytes), ..Limited::default() };
    agree(
        Mix::Limits,
        &[
            // 0: mmap 2-5 private fixed|anonymous: r--
            Op::call(libc::SYS_mmap, &[at(2), 0x3000, 1, 0x32, fd::NONE]),
            Op::Limit(data(40960)),
            // 2: mmap 7, 0x10000000000 bytes private fixed|anonymous|noreserve: r--
            Op::call(libc::SYS_mmap, &[at(7), 0x10000000000, 1, 0x4032, fd::NONE]),
            // 3: mprotect 19-23: rw-
            Op::call(libc::SYS_mprotect, &[at(19), 0x4000, 3]),
            // 4: mmap 5-18 private fixed|anonymous: rwx
            Op::call(libc::SYS_mmap, &[at(5), 0xd000, 7, 0x32, fd::NONE]),
            // 5: mremap 2-6, new length 0x4000 maymove|fixed|dontunmap to 10
            Op::call(libc::SYS_mremap, &[at(2), 0x4000, 0x4000, 7, at(10)]),
        ],
    );
}

/// Growth that a limit refuses counts as a write: the charge stays where write access goes.
#[test]
fn limits_2_98() {
    agree(
        Mix::Limits,
        &[
            Op::Limit(Limited { stack: Some(32768), privileged: true, ..Limited::default() }),
            // 1: mmap 17-22 private fixed|anonymous|growsdown: rwx
            Op::call(libc::SYS_mmap, &[at(17), 0x5000, 7, 0x132, fd::NONE]),
            // 2: write 8
            Op::Write(at(8)),
            // 3: mprotect 21, 0x8c96 bytes: r--
            Op::call(libc::SYS_mprotect, &[at(21), 0x8c96, 1]),
        ],
    );
}

/// Guard pages are written to memory of /dev/zero, though it is mapped as shared: it keeps its
/// offset.
#[test]
fn basic_12_813() {
    agree(
        Mix::Basic,
        &[
            // 0: mmap 6-20 shared_validate fixed: r--, zero_read_only from 0x6000
            Op::call(libc::SYS_mmap, &[at(6), 0xe000, 1, 0x13, 0x6d, 0x6000]),
            // 1: madvise 12-14: GuardInstall
            Op::call(libc::SYS_madvise, &[at(12), 0x2000, 0x66]),
            // 2: mremap 18-19, new length 0x1000 maymove|fixed to 1
            Op::call(libc::SYS_mremap, &[at(18), 0x1000, 0x1000, 3, at(1)]),
        ],
    );
}

/// The areas of a munmap are gone for other calls, and a page of them can still be read.
#[test]
fn threads_5_9130() {
    agree_threads(
        &[
            // mmap 3-6 private fixed|anonymous|populate: r-x
            Op::call(libc::SYS_mmap, &[at(3), 0x3000, 5, 0x8032, fd::NONE]),
        ],
        &[
            &[
                // munmap 4-6
                Op::call(libc::SYS_munmap, &[at(4), 0x2000]),
            ],
            &[
                // madvise 4-6: PopulateWrite
                Op::call(libc::SYS_madvise, &[at(4), 0x2000, 0x17]),
                // read 4
                Op::Read(at(4)),
            ],
        ],
    );
}

/// unseen, seed 1795830164, sequence 566: the flags at the end.
/// kernel: 1000016000: Some(Flags(READ | WRITE | MAYREAD | MAYWRITE | MAYEXEC | MAYBE_GUARD))
/// model:  rd wr mr mw me ac
#[test]
fn unseen_1795830164_566_96c6() {
    agree(
        Mix::Unseen,
        &[
            // 0: mmap 1-11 private fixed|anonymous: rw-
            Op::call(libc::SYS_mmap, &[at(1), 0xa000, 3, 0x32, fd::NONE]),
            // 1: mmap 17-30 private fixed|anonymous: rw-
            Op::call(libc::SYS_mmap, &[at(17), 0xd000, 3, 0x32, fd::NONE]),
            // 2: mprotect 10-12: rwx
            Op::call(libc::SYS_mprotect, &[at(10), 0x2000, 7]),
            // 3: mremap 21-22, new length 0x1000 maymove|fixed to 8
            Op::call(libc::SYS_mremap, &[at(21), 0x1000, 0x1000, 3, at(8)]),
            // 4: madvise 18-28: GuardInstall
            Op::call(libc::SYS_madvise, &[at(18), 0xa000, 0x66]),
            // 5: mremap 3-13, new length 0xa000 maymove|fixed to 22
            Op::call(libc::SYS_mremap, &[at(3), 0xa000, 0xa000, 3, at(22)]),
        ],
    );
}

/// What DONTUNMAP cuts off of a locked area has no pages, and so does not join what was written.
#[test]
fn locks_6_7_fa65() {
    agree(
        Mix::Locks,
        &[
            // 0: mlockall 0x3-0x3
            Op::call(libc::SYS_mlockall, &[3]),
            // 1: mmap 33-40 private fixed|stack: rw-, sealed from 0x3000
            Op::call(libc::SYS_mmap, &[at(33), 0x7000, 3, 0x20012, 0x69, 0x3000]),
            // 2: mremap 38-40, new length 0x2000 maymove|fixed|dontunmap to 6
            Op::call(libc::SYS_mremap, &[at(38), 0x2000, 0x2000, 7, at(6)]),
            // 3: munlockall 0x0-0x0
            Op::call(libc::SYS_munlockall, &[]),
        ],
    );
}

/// A read that a huge page of zeros serves gives memory an identity, where its settings say so.
#[test]
fn huge_6_18_6e36() {
    for advice in [0, 14, 15] {
        agree(
            Mix::Huge,
            &[
                // 0: mmap 2048, 0x3ff3a5 bytes private fixed|anonymous: r--
                Op::call(libc::SYS_mmap, &[at(2048), 0x3ff3a5, 1, 0x32, fd::NONE]),
                // 1: mmap 2048-2560 private fixed|anonymous: rw-, written
                Op::call(libc::SYS_mmap, &[at(2048), 0x200000, 3, 0x32, fd::NONE]),
                Op::call(libc::SYS_madvise, &[at(2048), 0x400000, advice]),
                Op::Write(at(2048)),
                // 2: madvise 2560-4096: PopulateRead
                Op::call(libc::SYS_madvise, &[at(2560), 0x600000, 0x16]),
                // 3: mprotect 2048, 0x5fff86 bytes: rwx
                Op::call(libc::SYS_mprotect, &[at(2048), 0x5fff86, 7]),
            ],
        );
    }
}

/// Registered memory joins nothing where it moves, if its userfaultfd does not follow.
#[test]
fn uffd_7_32_d9c0() {
    agree(
        Mix::Uffd,
        &[
            // 0: mmap 1-8 private fixed|anonymous: rw-
            Op::call(libc::SYS_mmap, &[at(1), 0x7000, 3, 0x32, fd::NONE]),
            // 1: mprotect 6-8: ---
            Op::call(libc::SYS_mprotect, &[at(6), 0x2000]),
            // 2: userfaultfd register 4-5
            Op::Uffd { on: true, at: at(4), len: 0x1000 },
            // 3: mremap 4-5, new length 0x1000 maymove|fixed to 3
            Op::call(libc::SYS_mremap, &[at(4), 0x1000, 0x1000, 3, at(3)]),
        ],
    );
}

/// The emptied target of a move takes the source, whose length wraps, with it.
#[test]
fn errors_8_12() {
    agree(
        Mix::Errors,
        &[
            // 0: mmap 17-24 private fixed|anonymous: rw-
            Op::call(libc::SYS_mmap, &[at(17), 0x7000, 3, 0x32, fd::NONE]),
            // 1: mremap 17, 0xfffffffffffff000 bytes, new length 0x6000 maymove|fixed to 16
            Op::call(libc::SYS_mremap, &[at(17), 0xffff_ffff_ffff_f000, 0x6000, 3, at(16)]),
        ],
    );
}

/// In 6.16 and 6.17 what was written loses its identity where it moves beside what was not.
#[test]
fn forks_8_28_eed6() {
    agree(
        Mix::Forks,
        &[
            // 0: mmap 1-3 private fixed|anonymous|noreserve: rw-
            Op::call(libc::SYS_mmap, &[at(1), 0x2000, 3, 0x4032, fd::NONE]),
            // 1: write 1
            Op::Write(at(1)),
            // 2: mremap 1-5, new length 0x4000 maymove|fixed|dontunmap to 6
            Op::call(libc::SYS_mremap, &[at(1), 0x4000, 0x4000, 7, at(6)]),
            // 3: mmap 1-5 private fixed|anonymous|noreserve: rw-
            Op::call(libc::SYS_mmap, &[at(1), 0x4000, 3, 0x4032, fd::NONE]),
            // 4: mremap 7, 0xdea bytes, new length 0xdea maymove|fixed|dontunmap to 2
            Op::call(libc::SYS_mremap, &[at(7), 0xdea, 0xdea, 7, at(2)]),
            // 5: mremap 2-6, new length 0x4000 maymove|fixed to 6
            Op::call(libc::SYS_mremap, &[at(2), 0x4000, 0x4000, 3, at(6)]),
            // 6: mmap 3-8 private fixed|anonymous|noreserve: rw-
            Op::call(libc::SYS_mmap, &[at(3), 0x5000, 3, 0x4032, fd::NONE]),
        ],
    );
}

/// There, a child has it as if the parent had not written it.
#[test]
fn forks_7_1_c501() {
    agree(
        Mix::Forks,
        &[
            Op::call(libc::SYS_mmap, &[at(14), 0x1000, 3, 0x4032, fd::NONE]),
            Op::Write(at(14)),
            Op::call(libc::SYS_mremap, &[at(14), 0x1000, 0x1000, 3, at(2)]),
            Op::call(libc::SYS_mmap, &[at(11), 0x3000, 3, 0x4032, fd::NONE]),
            Op::call(libc::SYS_mremap, &[at(2), 0x1000, 0x1000, 3, at(14)]),
            Op::Fork,
            Op::call(libc::SYS_mmap, &[at(15), 0x1000, 3, 0x4032, fd::NONE]),
        ],
    );
}

/// The range with holes at which `process_madvise` ends loses its guard pages all the same.
#[test]
fn guards_before_a_hole_are_removed() {
    agree(
        Mix::Calls,
        &[
            Op::call(libc::SYS_mmap, &[at(4), 0x2000, 3, 0x32, fd::NONE]),
            Op::call(libc::SYS_madvise, &[at(4), 0x2000, 0x66]),
            Op::Advise { advice: 0x67, ranges: [(at(4), 0x1000), (at(0), 0x8000), (at(13), 0x7000)] },
            Op::Write(at(5)),
        ],
    );
}
