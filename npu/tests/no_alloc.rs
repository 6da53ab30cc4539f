//! A run allocates nothing: counted by an allocator around the system's.
#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use npu::DataType;
use npu::aligned::AlignedBytes;
use npu::engine::{Input, Model};
use npu::ops::conv::Conv;
use npu::ops::{Activation, Op};
use npu::program::{Place, Writer};
use npu::shape::Shape;
use npu::tensor::TensorInfo;

thread_local! {
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is handed on to `System` unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
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
}
