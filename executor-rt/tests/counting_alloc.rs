//! The fallback for targets without glibc: a counting global allocator sees Rust's allocations.

use executor_rt::interpose::{CountingAlloc, counts, in_user_code, seal};

#[global_allocator]
static ALLOCATOR: CountingAlloc = CountingAlloc;

fn main() {
    let before = counts().setup;
    let mut numbers = Vec::with_capacity(4);
    numbers.extend(0_u64..4);
    numbers.push(5);
    let zeroes = vec![0_u8; 4096];
    assert_eq!(counts().setup - before, 3, "alloc, realloc, alloc_zeroed");
    drop(zeroes);
    assert_eq!(counts().setup - before, 3, "dealloc is not counted");

    seal();
    let boxed = in_user_code(|| Box::new(7_u64));
    let sum = boxed.wrapping_add(numbers.iter().sum());
    let now = counts();
    assert_eq!((now.runtime, now.user, sum), (0, 1, 18));
    // A runtime allocation (this text) must not abort any more.
    executor_rt::interpose::finalise();
    println!("counting_alloc: ok, {now:?}");
}
