//! Shared maps beside what a system does to a process: `fork`, and a filter of system calls.
#![cfg(all(target_os = "linux", not(miri)))]

use samara::{Epoch, Fenced, Membarrier, PinHere, SharedRangeMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

/// One test at a time: a filter's test looks at what the others change.
static ONE: Mutex<()> = Mutex::new(());

/// Runs `act` in a child, whose only thread it is; whether it came to its end.
fn child(act: impl FnOnce()) -> bool {
    // SAFETY: the child does `act`, which allocates little (the system's allocator allows that) and
    // takes no lock of std's that another thread may hold, and ends without unwinding beyond.
    match unsafe { libc::fork() } {
        0 => {
            let done = catch_unwind(AssertUnwindSafe(act));
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(done.is_err())) }
        }
        pid => {
            assert!(pid > 0, "fork");
            let mut status = 0;
            // SAFETY: our child, and a place for its status.
            assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
        }
    }
}

fn filled<R: PinHere>(reclaim: R) -> SharedRangeMap<u64, u64, R> {
    let map = SharedRangeMap::with_reclaim(reclaim);
    for i in 0..1_000 {
        map.write().insert(10 * i..=10 * i + 4, i).unwrap();
    }
    map
}

/// A child of a process another thread of which was in a store: it may look, and try.
fn in_the_midst<R: PinHere<Stamp: Send> + Sync + Send>(reclaim: R, by_handle: bool) {
    let map = &filled(reclaim);
    let (in_store, wait_in_store) = mpsc::channel();
    let (go, wait_go) = mpsc::channel::<()>();
    drop(map.pin()); // the registration is made here, and not in the child
    thread::scope(|scope| {
        scope.spawn(move || {
            let observe = |_: samara::Displaced<'_, u64, u64>| {
                in_store.send(()).unwrap();
                wait_go.recv().unwrap();
            };
            if by_handle {
                map.write().replace(5_000..=5_004, 1, observe).unwrap();
            } else {
                map.writer().unwrap().replace(5_000..=5_004, 1, observe).unwrap();
            }
        });
        wait_in_store.recv().unwrap();
        let looked = child(|| {
            let guard = map.pin();
            assert_eq!(guard.iter().count(), 1_000);
            assert_eq!(guard.get(5_000).map(|(_, value)| *value), Some(500), "the store has not been");
            assert_eq!(map.len(), 1_000);
            assert!(map.try_write().is_err(), "the handle is that thread's for ever");
        });
        go.send(()).unwrap();
        assert!(looked, "by handle: {by_handle}");
    });
    assert_eq!(map.pin().get(5_000).map(|(_, value)| *value), Some(1));
    // Where no thread stores, a child may store, and its parent does not see it.
    let stored = child(|| {
        for i in 0..1_000 {
            map.write().insert(10 * i..=10 * i + 4, i + 7).unwrap();
        }
        map.writer().unwrap().remove(0).unwrap();
        assert_eq!(map.snapshot().len(), 999);
        map.write().check().unwrap();
        map.write().reclaim();
    });
    assert!(stored);
    assert_eq!(map.len(), 1_000);
    map.write().check().unwrap();
}

#[test]
fn children_of_fork() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    for by_handle in [true, false] {
        in_the_midst(Epoch::new(), by_handle);
        in_the_midst(Membarrier::new(), by_handle);
        in_the_midst(Fenced, by_handle);
    }
}

/// Refuses membarrier(2) to the calling thread from now on.
fn refuse_membarrier() -> bool {
    let jump = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut filter = [
        // The call's number.
        jump(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        jump(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, libc::SYS_membarrier as u32, 0, 1),
        jump(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0, 0),
        jump(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0, 0),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program and its instructions live until the call is over.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    }
}

/// A filter that comes after the call was granted: what its thread takes out stays, `is_expedited`
/// says so, and another thread frees it.
#[test]
fn membarrier_is_refused_later() {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let reclaim = Membarrier::new();
    if !reclaim.is_expedited() {
        println!("skipped: membarrier(2) is not to be had here");
        return;
    }
    let map = filled(reclaim);
    while map.write().reclaim() > 0 {
        thread::yield_now();
    }
    assert!(reclaim.is_expedited());
    let refused = thread::scope(|scope| {
        scope
            .spawn(|| {
                if !refuse_membarrier() {
                    return false;
                }
                for i in 0..5_000 {
                    map.write().insert(i % 1_000 * 10..=i % 1_000 * 10 + 4, i).unwrap();
                }
                assert!(map.write().reclaim() >= 5_000 * 500, "something was freed without a barrier");
                assert!(!reclaim.is_expedited() && !Membarrier::new().is_expedited());
                assert!(format!("{reclaim:?}").contains("false"));
                assert_eq!(map.pin().iter().count(), 1_000);
                true
            })
            .join()
            .unwrap()
    });
    if !refused {
        println!("skipped: no filter of system calls can be installed here");
        return;
    }
    while map.write().reclaim() > 0 {
        thread::yield_now();
    }
    assert!(reclaim.is_expedited(), "it is granted here");
    map.write().check().unwrap();
}
