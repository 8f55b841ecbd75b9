//! The calls of stacks.c through Rust's trait objects, generics, closures and iterators.

use std::ffi::{c_char, c_int, c_void};

unsafe extern "C" {
    fn leaf(what: *const c_char, n: c_int) -> *mut c_void;
    fn backtrace(frames: *mut *mut c_void, size: c_int) -> c_int;
    fn fflush(file: *mut c_void) -> c_int;
}

trait Shape {
    fn call(&self, draw: &mut Draw, n: i32) -> usize;
}
struct Round;
struct Square(Vec<u8>);

impl Shape for Round {
    #[inline(never)]
    fn call(&self, draw: &mut Draw, n: i32) -> usize {
        deeper(draw, n - 1) + 1
    }
}
impl Shape for Square {
    #[inline(never)]
    fn call(&self, draw: &mut Draw, n: i32) -> usize {
        deeper(draw, n - 1) + self.0.len()
    }
}

struct Draw(u64);
impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }
}

#[inline(never)]
fn generic<T: Copy + Into<i64>, const N: usize>(draw: &mut Draw, n: T) -> usize {
    let all = std::hint::black_box([n; N]);
    deeper(draw, all[0].into() as i32 - 1) + all.len()
}

#[inline(never)]
fn with(call: &mut dyn FnMut(i32) -> usize, n: i32) -> usize {
    (0..1).map(|by| call(n - by)).sum::<usize>() + 1
}

#[inline(never)]
fn deeper(draw: &mut Draw, n: i32) -> usize {
    if n <= 0 {
        return unsafe { leaf(c"deeper".as_ptr(), n) } as usize + 1;
    }
    let shape: Box<dyn Shape> = match draw.next() % 5 {
        0 => Box::new(Round),
        1 => Box::new(Square(vec![1; 5])),
        2 => return generic::<i16, 7>(draw, n as i16) + 1,
        3 => return generic::<i64, 90>(draw, n as i64) + 1,
        _ => return with(&mut |n| deeper(draw, n - 1) + 1, n) + 1,
    };
    shape.call(draw, n) + 1
}

#[inline(never)]
fn run() {
    let mut draw = Draw(12345);
    for i in 0..100 {
        std::hint::black_box(deeper(&mut draw, i % 24));
    }
}

fn main() {
    let mut frames = [std::ptr::null_mut(); 2];
    unsafe { backtrace(frames.as_mut_ptr(), 2) }; // loads what it needs
    run();
    std::thread::spawn(run).join().unwrap();
    unsafe { fflush(std::ptr::null_mut()) };
}
