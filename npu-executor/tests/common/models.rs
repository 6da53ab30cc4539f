//! Tiny programs, made by hand.

use npu::DataType;
use npu::aligned::AlignedBytes;
use npu::ops::global_average_pool::GlobalAveragePool;
use npu::ops::{Op, add};
use npu::params::{ParamReader, ParamWriter};
use npu::program::{Place, Writer};
use npu::shape::Shape;
use npu::tensor::TensorInfo;

/// An addition by numpy's rule, as the table makes it.
fn addition() -> Box<dyn Op> {
    let mut params = ParamWriter::default();
    params.u32(0);
    params.size(0);
    let bytes = params.into_bytes();
    (add::ENTRY.decode)(&mut ParamReader::new(&bytes)).unwrap()
}

fn info(dims: &[usize]) -> TensorInfo {
    TensorInfo::new(DataType::FLOAT, Shape::new(dims).unwrap())
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// One input; adds these values to it.
pub(crate) fn plus(values: &[f32]) -> AlignedBytes {
    let mut writer = Writer::new();
    let shape = info(&[values.len()]);
    let x = writer.tensor("x", &shape, Place::Input(0));
    let c = writer.constant("c", &shape, &bytes(values));
    let y = writer.tensor("y", &shape, Place::Output(0));
    writer.input(x);
    writer.output(y);
    writer.task("add", &*addition(), &[x, c], &[y], (0, 0));
    writer.finish(0).unwrap()
}

/// One input of one value; its sum with each of many ones, and the mean of those: enough work for
/// several threads, and a whole number for a whole number.
pub(crate) fn mean_of_many() -> AlignedBytes {
    const MANY: usize = 1 << 18;
    let mut writer = Writer::new();
    let (one, many, mean) = (info(&[1]), info(&[1, 1, MANY]), info(&[1, 1, 1]));
    let x = writer.tensor("x", &one, Place::Input(0));
    let c = writer.constant("c", &many, &bytes(&vec![1.0; MANY]));
    let sums = writer.tensor("sums", &many, Place::Arena(0));
    let y = writer.tensor("y", &mean, Place::Output(0));
    writer.input(x);
    writer.output(y);
    writer.task("add", &*addition(), &[x, c], &[sums], (0, 0));
    writer.task("mean", &GlobalAveragePool, &[sums], &[y], (0, 0));
    writer.finish(4 * MANY).unwrap()
}

/// Two inputs of `count` values; two outputs: their sum, and twice the first.
pub(crate) fn sum(count: usize) -> AlignedBytes {
    sum_within(count, 0)
}

/// The same with so much working memory.
pub(crate) fn sum_within(count: usize, arena_bytes: usize) -> AlignedBytes {
    let mut writer = Writer::new();
    let shape = info(&[count]);
    let a = writer.tensor("a", &shape, Place::Input(0));
    let b = writer.tensor("b", &shape, Place::Input(1));
    let y = writer.tensor("y", &shape, Place::Output(0));
    let z = writer.tensor("z", &shape, Place::Output(1));
    writer.input(a);
    writer.input(b);
    writer.output(y);
    writer.output(z);
    writer.task("sum", &*addition(), &[a, b], &[y], (0, 0));
    writer.task("twice", &*addition(), &[a, a], &[z], (0, 0));
    writer.finish(arena_bytes).unwrap()
}

/// One input `[1, 1, 1]`, one output `[1, 1, 1]` that equals it: the mean of many copies, to which
/// zeros were added `rounds` times. A round takes a millisecond or more.
pub(crate) fn slow(rounds: usize) -> AlignedBytes {
    const WIDE: usize = 1 << 20;
    let mut writer = Writer::new();
    let (small, large) = (info(&[1, 1, 1]), info(&[1, 1, WIDE]));
    let x = writer.tensor("x", &small, Place::Input(0));
    let zeros = writer.constant("zeros", &large, &vec![0; 4 * WIDE]);
    let y = writer.tensor("y", &small, Place::Output(0));
    writer.input(x);
    writer.output(y);
    let mut from = x;
    for round in 0..rounds {
        let place = Place::Arena(round % 2 * 4 * WIDE);
        let to = writer.tensor("t", &large, place);
        writer.task("round", &*addition(), &[from, zeros], &[to], (0, 0));
        from = to;
    }
    writer.task("mean", &GlobalAveragePool, &[from], &[y], (0, 0));
    writer.finish(8 * WIDE).unwrap()
}
