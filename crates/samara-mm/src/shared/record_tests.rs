use crate::area::FileId;
use crate::shared::SharedAddressSpace;
use crate::space::Config;
use std::sync::Barrier;
use std::time::Duration;

/// Threads whose first calls come together make no more records than they need.
#[test]
fn records_are_not_made_for_each_thread_that_waited() {
    const THREADS: usize = 12;
    let space = SharedAddressSpace::<FileId>::new(Config::default()).unwrap();
    let (all_have_one, released) = (Barrier::new(THREADS + 1), Barrier::new(THREADS + 1));
    std::thread::scope(|scope| {
        let state = space.state.lock();
        for _ in 0..THREADS {
            scope.spawn(|| {
                let faulter = space.try_faulter().expect("a record");
                let record = space.record().expect("a record");
                all_have_one.wait();
                released.wait();
                drop(faulter);
                record.give_back();
            });
        }
        // So that all of them have found no record, and wait for the lock.
        std::thread::sleep(Duration::from_millis(20));
        drop(state);
        all_have_one.wait();
        assert_eq!((space.calls.iter().count(), space.faults.iter().count()), (16, 16));
        released.wait();
    });
}

/// A range lock whose guard was leaked ends with the next one of the same thread, and with the
/// thread's record.
#[test]
fn a_leaked_guard_keeps_nobody_waiting_for_ever() {
    use crate::{Access, Errno, MapRequest, Prot};
    let space = SharedAddressSpace::<FileId>::new(Config::default()).unwrap();
    for at in [0x10000, 0x20000] {
        space.map(&MapRequest::anonymous(at, 0x1000, Prot::RW)).unwrap();
    }
    let unmap =
        |at| space.caller().timeout(Duration::from_millis(1)).unmap(at, 0x1000).map(|_| ()).map_err(|e| e.errno);
    let mut faulter = space.faulter();
    core::mem::forget(faulter.fault_range(0x10000, 8, Access::Write).unwrap());
    assert_eq!(unmap(0x10000), Err(Errno::ETIMEDOUT));
    core::mem::forget(faulter.fault_range(0x20000, 8, Access::Write).unwrap());
    assert_eq!((unmap(0x10000), unmap(0x20000)), (Ok(()), Err(Errno::ETIMEDOUT)));
    core::mem::forget(faulter.fault(0x20000, Access::Write).unwrap());
    drop(faulter);
    assert_eq!(unmap(0x20000), Ok(()));
    space.check().unwrap();
}
