//! What one mbuf costs apart from its queue: `MsgInfo`, a second reference, a chain.
//!
//! Measured: the verb named and what undoes it. Excluded: making the group and the first mbuf.
//! Back of the envelope: `MsgInfo` is one line; `copy_ref` one CAS and one fetch_add.
#![allow(missing_docs, reason = "criterion's macros make a public function")]
#![allow(clippy::unwrap_used, reason = "a bench that can't be set up has no result")]

use std::hint::black_box;

use benches::ours::group::{Memory, Sizes};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use executor_core::abi::MsgInfo;
use executor_core::pool::Head;
use executor_rt::port::free;

fn mbuf(criterion: &mut Criterion) {
    let sizes = Sizes { block_size: 64, block_count: 16, depth: 2 };
    let mut worker = Memory::create(sizes).unwrap().worker().unwrap();
    let mbuf = worker.alloc(64, Head::Zeroed).unwrap();
    let mut group = criterion.benchmark_group("mbuf");
    group.throughput(Throughput::Elements(1));
    group.bench_function("msg_info/write_read", |bencher| {
        let view = worker.of(&mbuf);
        bencher.iter(|| {
            view.set_msg_info(black_box(&MsgInfo { trans_id: 7, ..MsgInfo::default() }));
            black_box(view.msg_info())
        });
    });
    group.bench_function("copy_ref/free", |bencher| {
        bencher.iter(|| {
            let copy = worker.copy_ref(black_box(&mbuf)).unwrap();
            free(&mut worker, copy);
        });
    });
    group.bench_function("chain/append8_free", |bencher| {
        bencher.iter(|| {
            let head = worker.alloc(64, Head::Unset).unwrap();
            for _ in 0..8 {
                let member = worker.alloc(64, Head::Unset).unwrap();
                worker.chain_append(&head, member).unwrap();
            }
            free(&mut worker, black_box(head));
        });
    });
    group.finish();
}

criterion_group!(groups, mbuf);
criterion_main!(groups);
