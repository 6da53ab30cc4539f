//! A run allocates nothing: counted by an allocator around the system's.
#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use npu::DataType;
use npu::aligned::AlignedBytes;
use npu::engine::{Input, Model};
use npu::ops::add::Add;
use npu::ops::blocked::{Finish, QuantisedDense, pack_pairs};
use npu::ops::conv::Conv;
use npu::ops::relu::Relu;
use npu::ops::{Activation, Broadcast, Op};
use npu::program::{self, Place, Writer};
use npu::shape::Shape;
use npu::team::Team;
use npu::tensor::TensorInfo;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

/// Of all threads.
static ALL: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call is handed on to `System` unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        ALL.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promises are those of `System.alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: `place` came from `System.alloc` with this layout, as the caller promises.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn info(dims: &[usize]) -> TensorInfo {
    TensorInfo::new(DataType::FLOAT, Shape::new(dims).expect("a shape"))
}

#[test]
fn a_run_allocates_nothing() {
    let conv = Conv {
        rank: 2,
        strides: [1, 2, 2],
        dilations: [1; 3],
        pads_begin: [0, 1, 1],
        pads_end: [0, 1, 1],
        group: 1,
        activation: Activation::HardSwish,
    };
    let (x, w, y) = (info(&[1, 2, 9, 9]), info(&[4, 2, 3, 3]), info(&[1, 4, 5, 5]));
    let mut writer = Writer::new();
    let input = writer.tensor("x", &x, Place::Input(0));
    let output = writer.tensor("y", &y, Place::Output(0));
    writer.input(input);
    writer.output(output);
    let weights = writer.constant("w", &w, &[0; 4 * 2 * 9 * 4]);
    let scratch = conv.scratch_bytes(&[x, w], &y);
    writer.task("conv", &conv, &[input, weights], &[output], (0, scratch));
    let model = Model::load(writer.finish(scratch.next_multiple_of(64)).unwrap()).unwrap();
    let bytes = AlignedBytes::zeroed(x.bytes());
    let (mut out, mut arena) =
        (AlignedBytes::zeroed(y.bytes()), AlignedBytes::zeroed(model.arena_bytes()));
    let inputs = [Input { info: x, bytes: &bytes }];
    let wrong = [Input { info: y, bytes: &bytes }];
    let before = COUNT.get();
    assert!(before > 0, "loading is counted");
    for _ in 0..100 {
        model.run(&inputs, &mut [&mut out], &mut arena).unwrap();
        model.run(&wrong, &mut [&mut out], &mut arena).unwrap_err();
    }
    assert_eq!(COUNT.get(), before);
    a_run_on_packed_weights_allocates_nothing();
    // Here, since it counts what all threads do.
    let x = info(&[1 << 18]);
    a_run_of_a_team_allocates_nothing(&large(&x), &x);
    a_run_of_a_team_allocates_nothing(&branches(&x), &x);
}

/// Weights are packed at load, once.
fn a_run_on_packed_weights_allocates_nothing() {
    let of = |dtype, dims: &[usize]| TensorInfo::new(dtype, Shape::new(dims).expect("a shape"));
    let (x, y) = (of(DataType::INT8, &[2, 7]), of(DataType::INT32, &[2, 16]));
    let (dims, pairs) = pack_pairs([7, 16], |k, _| if k == 3 { 5 } else { 0 });
    let pairs: Vec<u8> = pairs.iter().flat_map(|own| own.to_le_bytes()).collect();
    let mut writer = Writer::new();
    let input = writer.tensor("x", &x, Place::Input(0));
    let output = writer.tensor("y", &y, Place::Output(0));
    writer.input(input);
    writer.output(output);
    let weights = writer.constant("w", &of(DataType::INT16, &dims), &pairs);
    let bias = writer.constant("bias", &of(DataType::INT32, &[1, 16]), &[0; 64]);
    let factors = writer.constant("factors", &info(&[1, 16]), &[0; 64]);
    let dense = QuantisedDense { columns: 16, zero: -1, finish: Finish::SUM };
    writer.task("dense", &dense, &[input, weights, bias, factors], &[output], (0, 64));
    let model = Model::load_as(writer.finish(64).expect("it fits"), program::Layout::Fours);
    let model = model.expect("a program");
    assert_eq!(model.program().packed_bytes(), 192);
    let bytes = AlignedBytes::copy_of(&[2; 14]);
    let (mut out, mut arena) = (AlignedBytes::zeroed(y.bytes()), AlignedBytes::zeroed(64));
    let inputs = [Input { info: x, bytes: &bytes }];
    let before = COUNT.get();
    for _ in 0..100 {
        model.run(&inputs, &mut [&mut out], &mut arena).expect("a run");
    }
    assert_eq!(COUNT.get(), before);
    assert_eq!(out[..4], 15i32.to_le_bytes());
}

/// One task that is large enough for a team.
fn large(x: &TensorInfo) -> Model<AlignedBytes> {
    let mut writer = Writer::new();
    let (input, output) =
        (writer.tensor("x", x, Place::Input(0)), writer.tensor("y", x, Place::Output(0)));
    writer.input(input);
    writer.output(output);
    writer.task("relu", &Relu, &[input], &[output], (0, 0));
    Model::load(writer.finish(0).expect("it fits")).expect("a program")
}

/// Two tasks of two streams, and one that joins them.
fn branches(x: &TensorInfo) -> Model<AlignedBytes> {
    let (mut writer, bytes) = (Writer::new(), x.bytes());
    let (input, output) =
        (writer.tensor("x", x, Place::Input(0)), writer.tensor("y", x, Place::Output(0)));
    writer.input(input);
    writer.output(output);
    let parts = [0, bytes].map(|offset| writer.tensor("part", x, Place::Arena(offset)));
    for (stream, part) in (0..).zip(parts) {
        writer.task("relu", &Relu, &[input], &[part], (0, 0));
        writer.order(stream, &[]);
    }
    writer.task("add", &Add::new(Broadcast::Numpy), &parts, &[output], (0, 0));
    writer.order(0, &[1]);
    Model::load(writer.finish(2 * bytes).expect("it fits")).expect("a program")
}

fn a_run_of_a_team_allocates_nothing(model: &Model<AlignedBytes>, x: &TensorInfo) {
    let mut arena = AlignedBytes::zeroed(model.arena_bytes());
    let (bytes, mut out) = (AlignedBytes::zeroed(x.bytes()), AlignedBytes::zeroed(x.bytes()));
    let inputs = [Input { info: *x, bytes: &bytes }];
    let team = Team::new(3, || {}).expect("threads");
    let mut run =
        || model.run_with(&inputs, &mut [&mut out], &mut arena, Some(&team), |_| {}).is_ok();
    assert!(run());
    let before = ALL.load(Ordering::Relaxed);
    for _ in 0..100 {
        assert!(run());
    }
    assert_eq!(ALL.load(Ordering::Relaxed), before);
}
