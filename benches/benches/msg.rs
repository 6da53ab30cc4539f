//! Control messages: decoding a request, encoding a response. Set-up only, never in the data path.
//!
//! Measured: bounded decoding of bytes to a message; encoding into a fresh vector. Excluded: making
//! the bytes.
#![allow(missing_docs, reason = "criterion's macros make a public function")]
#![allow(clippy::unwrap_used, reason = "a bench that can't be set up has no result")]

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use executor_rt::proto::{
    BatchLoadModelMessage, ClearModelRequest, ExecutorRequest, ExecutorResponse, LoadModelRequest,
    decode_request,
};
use prost::Message;

fn msg(criterion: &mut Criterion) {
    let clear = ClearModelRequest { model_id: 4, clear_msg_type: 1 };
    let clear = ExecutorRequest { clear_model_message: Some(clear), ..Default::default() };
    let models = vec![LoadModelRequest::default(); 16];
    let load = BatchLoadModelMessage { models, ..Default::default() };
    let load = ExecutorRequest { batch_load_model_message: Some(load), ..Default::default() };
    let mut group = criterion.benchmark_group("msg/decode");
    for (name, request) in [("clear", clear), ("load16", load)] {
        let bytes = request.encode_to_vec();
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(name, |bencher| {
            bencher.iter(|| decode_request(black_box(&bytes)).unwrap());
        });
    }
    group.finish();
    let text = "success".to_owned();
    let response = ExecutorResponse { error_message: text, ..Default::default() };
    let mut group = criterion.benchmark_group("msg/encode");
    group.throughput(Throughput::Elements(1));
    group.bench_function("response", |bencher| {
        bencher.iter(|| black_box(&response).encode_to_vec());
    });
    group.finish();
}

criterion_group!(groups, msg);
criterion_main!(groups);
