//! One step of the message server: bytes of a request in, its reply out.
//!
//! Measured: `receive` of a clear request and `complete`, for both dialects. Excluded: queues and
//! what the executor does in between.
#![allow(missing_docs, reason = "criterion's macros make a public function")]
#![allow(clippy::unwrap_used, reason = "a bench that can't be set up has no result")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use executor_rt::proto::{ClearModelRequest, ExecutorRequest};
use executor_rt::server::{Dialect, MessageServer};
use prost::Message;

fn server_step(criterion: &mut Criterion) {
    let clear = ClearModelRequest { model_id: 4, clear_msg_type: 1 };
    let request = ExecutorRequest { clear_model_message: Some(clear), ..Default::default() };
    let bytes = request.encode_to_vec();
    let mut group = criterion.benchmark_group("server_step/clear");
    group.throughput(Throughput::Elements(1));
    for (name, dialect) in [("built_in", Dialect::BuiltIn), ("udf", Dialect::Udf)] {
        let mut server = MessageServer::new(dialect);
        server.init(Ok(())).unwrap();
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                black_box(server.receive(0, black_box(&bytes)));
                server.complete(Ok(())).unwrap()
            });
        });
    }
    group.finish();
}

criterion_group!(groups, server_step);
criterion_main!(groups);
