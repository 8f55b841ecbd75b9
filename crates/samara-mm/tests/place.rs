//! Where mmap puts what has no fixed place, against the running kernel: a child with randomisation off maps and unmaps at random; before each
//! call it reads what is mapped, and afterwards the model, which is made from that, must have foretold the address.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use samara_mm::{AddressSpace, Area, Bases, Config, Errno, FileId, Flags, Linux, MapFlags, MapRequest, Object, Prot};
use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::process::Command;

const PAGE: u64 = 4096;
const HUGE: u64 = 2 << 20;

/// Runs `child` in a process of its own, with randomisation off: it is the same test, and finds this variable.
const CHILD: &str = "SAMARA_MM_PLACE_CHILD";

#[test]
fn as_the_kernel_places() {
    if std::env::var_os(CHILD).is_some() {
        return child();
    }
    if cfg!(miri) {
        return;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "as_the_kernel_places", "--nocapture", "--test-threads=1"]).env(CHILD, "1");
    // SAFETY: two system calls, which are safe between fork and exec.
    unsafe {
        command.pre_exec(|| {
            if libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) < 0 {
                return Err(std::io::Error::last_os_error());
            }
            let limit = libc::rlimit { rlim_cur: 8 << 20, rlim_max: libc::RLIM_INFINITY };
            // Where the hard limit is lower, the search begins at the same place.
            libc::setrlimit(libc::RLIMIT_STACK, &limit);
            Ok(())
        });
    }
    let out = command.output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{text}\n{}", String::from_utf8_lossy(&out.stderr));
    assert!(text.contains("compared 10000"), "the child did not do its work: {text}");
}

/// What is mapped, as text, read without any other call that maps.
fn maps(buffer: &mut Vec<u8>) {
    // SAFETY: plain system calls; the buffer has the room that is told.
    unsafe {
        let file = libc::open(c"/proc/self/maps".as_ptr(), libc::O_RDONLY);
        assert!(file >= 0);
        buffer.clear();
        loop {
            let room = buffer.capacity() - buffer.len();
            assert!(room > 0, "too many areas");
            let n = libc::read(file, buffer.as_mut_ptr().add(buffer.len()).cast(), room);
            assert!(n >= 0);
            if n == 0 {
                break;
            }
            buffer.set_len(buffer.len() + n as usize);
        }
        libc::close(file);
    }
}

/// The lowest address that the kernel chooses: a hint below it is raised to it. (A security module may ask for more than the sysctl says.)
fn least() -> u64 {
    // SAFETY: a new map, which goes again.
    unsafe {
        let at =
            libc::mmap(PAGE as *mut libc::c_void, PAGE as usize, 0, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0);
        assert_eq!(libc::munmap(at, PAGE as usize), 0);
        at as u64
    }
}

/// The model of what is mapped; `down` are the starts of areas that grow down.
fn model(text: &str, least: u64, down: &BTreeSet<u64>) -> AddressSpace<FileId> {
    let bases = Bases { least, ..Bases::default() };
    let mut space = AddressSpace::new(Config { bases, ..Config::default() });
    for line in text.lines().filter(|line| !line.ends_with("[vsyscall]")) {
        let (start, rest) = line.split_once('-').unwrap();
        let (start, end) = (u64::from_str_radix(start, 16).unwrap(), rest.split(' ').next().unwrap());
        let mut flags = Flags::MAYREAD;
        if line.ends_with("[stack]") || down.contains(&start) {
            flags |= Flags::GROWSDOWN;
        }
        // No two of them join: each its own object.
        let file = FileId { dev: (0, 0), inode: start, open: start, name: "".into() };
        let area = Area::new(flags | Flags::SHARED, Object::File(file), 0);
        space.import(start, u64::from_str_radix(end, 16).unwrap(), area).unwrap();
    }
    space
}

struct Rng(u64);
impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

fn child() {
    let mut rng = Rng(0x5eed_5eed);
    let (least, mut text) = (least(), Vec::with_capacity(1 << 20));
    let (mut mine, mut down): (Vec<(u64, u64)>, BTreeSet<u64>) = (Vec::new(), BTreeSet::new());
    let (mut compared, mut refused, mut hinted) = (0, 0, 0);
    while compared < 10_000 {
        if mine.len() > 150 || (!mine.is_empty() && rng.below(3) == 0) {
            let (start, len) = mine.swap_remove(rng.below(mine.len() as u64) as usize);
            // SAFETY: memory that this test has mapped, and nobody uses.
            assert_eq!(unsafe { libc::munmap(start as *mut libc::c_void, len as usize) }, 0);
            down.remove(&start);
            continue;
        }
        let len = match rng.below(8) {
            0 => HUGE * (1 + rng.below(4)),
            1 => HUGE * (1 + rng.below(4)) + PAGE * rng.below(300),
            2 => PAGE * rng.below(2_000) + rng.below(PAGE) + 1,
            3 if rng.below(8) == 0 => [1 << 46, 1 << 47, u64::MAX, 0, 0x7fff_ffff_f000][rng.below(5) as usize],
            _ => PAGE * (1 + rng.below(20)),
        };
        let near = |rng: &mut Rng| {
            let at = if mine.is_empty() { 0x7000_0000_0000 } else { mine[rng.below(mine.len() as u64) as usize].0 };
            at.wrapping_add(rng.below(2 * HUGE)).wrapping_sub(HUGE)
        };
        let hint = match rng.below(6) {
            0 => near(&mut rng),
            1 => rng.below(1 << 48),
            2 => rng.below(1 << 17),
            _ => 0,
        };
        let extra = match rng.below(8) {
            0 => MapFlags::GROWSDOWN,
            1 => MapFlags::BIT32,
            2 => MapFlags::ABOVE4G,
            3 => MapFlags::FIXED_NOREPLACE,
            _ => MapFlags::empty(),
        };
        let hint = if extra == MapFlags::FIXED_NOREPLACE { near(&mut rng) & !(PAGE - 1) } else { hint };
        let mut request = MapRequest::anonymous(hint, len, Prot::NONE);
        request.flags |= extra | MapFlags::NORESERVE;
        maps(&mut text);
        // SAFETY: no fixed place that is taken: nothing is mapped over.
        let got = unsafe {
            let (prot, flags) = (libc::PROT_NONE, request.flags.bits() as i32);
            libc::mmap(hint as *mut libc::c_void, len as usize, prot, flags, -1, 0)
        };
        let got = if got == libc::MAP_FAILED {
            Err(std::io::Error::last_os_error().raw_os_error().unwrap())
        } else {
            Ok(got as u64)
        };
        let mut space = model(std::str::from_utf8(&text).unwrap(), least, &down);
        let told = space.mmap(&request, &mut Linux).map(|(at, _)| at).map_err(|error| Errno::raw(error.errno));
        assert_eq!(
            told,
            got,
            "call {compared}: mmap({hint:#x}, {len:#x}, {extra:?})\n{}",
            String::from_utf8_lossy(&text)
        );
        compared += 1;
        match got {
            Ok(at) => {
                hinted += u64::from(hint != 0 && at == hint & !(PAGE - 1));
                if extra == MapFlags::GROWSDOWN {
                    down.insert(at);
                }
                mine.push((at, len));
            }
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 100 && hinted > 100, "{refused} refused, {hinted} at the hint");
    println!("compared {compared}");
}
