//! Alloc and free in one thread, from a pool that is empty but for one block, or all free.
//!
//! Measured: alloc with an unset head, free. Excluded: touching the payload. Names say block size,
//! blocks of the pool, blocks held by somebody else.
#![allow(missing_docs, reason = "criterion's macros make a public function")]
#![allow(clippy::unwrap_used, reason = "a bench that can't be set up has no result")]

use std::hint::black_box;

use benches::ours::group::{Memory, Sizes};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use executor_core::mbuf::Mbuf;
use executor_core::pool::Head;
use executor_rt::port::free;

fn case(criterion: &mut Criterion, block_size: u64, block_count: u32, held: u32) {
    let sizes = Sizes { block_size, block_count, depth: 2 };
    let mut worker = Memory::create(sizes).unwrap().worker().unwrap();
    let held: Vec<Mbuf> =
        (0..held).map(|_| worker.alloc(block_size, Head::Unset).unwrap()).collect();
    let mut group = criterion.benchmark_group("pool/alloc_free");
    group.throughput(Throughput::Elements(1));
    let name = format!("{block_size}B/of{block_count}/held{}", held.len());
    group.bench_function(name, |bencher| {
        bencher.iter(|| {
            let mbuf = worker.alloc(black_box(block_size), Head::Unset).unwrap();
            free(&mut worker, black_box(mbuf));
        });
    });
    group.finish();
    for mbuf in held {
        free(&mut worker, mbuf);
    }
}

fn pool(criterion: &mut Criterion) {
    case(criterion, 64, 4, 0);
    case(criterion, 64, 256, 0);
    case(criterion, 64, 256, 255);
    case(criterion, 4 << 20, 4, 0);
}

criterion_group!(groups, pool);
criterion_main!(groups);
