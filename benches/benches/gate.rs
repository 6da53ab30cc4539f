//! What a core of a device costs a set when one is free: in and out again.
//!
//! Measured: `try_enter` and `try_leave`, alone (`free`) and as one of two threads on two cores
//! that do nothing else (`shared`). Excluded: the run in between.
#![allow(missing_docs, reason = "criterion's macros make a public function")]

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use executor_core::gate::Gate;

fn in_and_out(gate: &Gate) {
    if black_box(gate).try_enter(1) {
        black_box(gate.try_leave(1));
    }
}

fn gate(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("gate");
    group.throughput(Throughput::Elements(1));
    let gate = Gate::new(2);
    group.bench_function("free", |bencher| bencher.iter(|| in_and_out(&gate)));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                in_and_out(&gate);
            }
        });
        group.bench_function("shared", |bencher| bencher.iter(|| in_and_out(&gate)));
        stop.store(true, Ordering::Relaxed);
    });
    group.finish();
}

criterion_group!(groups, gate);
criterion_main!(groups);
