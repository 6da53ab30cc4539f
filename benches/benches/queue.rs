//! Enqueue and dequeue in one thread, the same mbuf again and again.
//!
//! Measured: both verbs with journal and ownership; `batch` fills the queue first and then drains
//! it. Excluded: alloc and free. Names say kind, payload size, depth.
#![allow(missing_docs, reason = "criterion's macros make a public function")]
#![allow(clippy::unwrap_used, reason = "a bench that can't be set up has no result")]

use std::hint::black_box;

use benches::ours::group::{Memory, Sizes};
use benches::ours::queue::pair;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use executor_core::mbuf::Mbuf;
use executor_core::pool::Head;
use executor_rt::waiter::ring;

fn one_by_one(criterion: &mut Criterion, depth: u32) {
    let sizes = Sizes { block_size: 64, block_count: 4, depth };
    let mut worker = Memory::create(sizes).unwrap().worker().unwrap();
    let (mut producer, mut consumer) = pair(&worker, depth).unwrap();
    let mut held = Some(worker.alloc(64, Head::Zeroed).unwrap());
    let mut group = criterion.benchmark_group("queue/spsc/64B");
    group.throughput(Throughput::Elements(1));
    group.bench_function(format!("depth{depth}"), |bencher| {
        bencher.iter(|| {
            let mbuf = black_box(held.take().unwrap());
            let wakes = producer.enqueue(&mut worker, mbuf).unwrap();
            ring(&worker.memory, wakes);
            let (mbuf, wakes) = consumer.dequeue(&mut worker).unwrap();
            ring(&worker.memory, wakes);
            held = Some(mbuf);
        });
    });
    group.finish();
}

fn batch(criterion: &mut Criterion, depth: u32) {
    let sizes = Sizes { block_size: 64, block_count: depth, depth };
    let mut worker = Memory::create(sizes).unwrap().worker().unwrap();
    let (mut producer, mut consumer) = pair(&worker, depth).unwrap();
    let mut held: Vec<Mbuf> = (0..depth).map(|_| worker.alloc(64, Head::Zeroed).unwrap()).collect();
    let mut group = criterion.benchmark_group("queue/batch/64B");
    group.throughput(Throughput::Elements(u64::from(depth)));
    group.bench_function(format!("depth{depth}"), |bencher| {
        bencher.iter(|| {
            for mbuf in held.drain(..) {
                let wakes = producer.enqueue(&mut worker, mbuf).unwrap();
                ring(&worker.memory, wakes);
            }
            for _ in 0..depth {
                let (mbuf, wakes) = consumer.dequeue(&mut worker).unwrap();
                ring(&worker.memory, wakes);
                held.push(black_box(mbuf));
            }
        });
    });
    group.finish();
}

fn queue(criterion: &mut Criterion) {
    one_by_one(criterion, 2);
    one_by_one(criterion, 64);
    batch(criterion, 64);
}

criterion_group!(groups, queue);
criterion_main!(groups);
