//! Ops with sums over many elements: convolution, products of matrices, means, softmax; and chains
//! that a compiler makes one task of.

use dflow::DType::{Float32, Int32};

use super::{Case, Run, SUMS, Sample, sample, samples};
use crate::conformance::onnx::{Attr, Onnx};
use crate::conformance::reference::{
    Array, Window, batch_normalization, conv, global_average, mat_mul, softmax,
};
use crate::conformance::tensor::ints;

samples! {
    "Conv/one-dim": conv_one_dim,
    "Conv/strides-pads-dilations": conv_window,
    "Conv/depthwise": conv_depthwise,
    "Conv/groups": conv_groups,
    "Conv/same-upper": conv_same_upper,
    "Conv/same-lower": conv_same_lower,
    "Conv/three-dims": conv_three_dims,
    "MatMul/matrices": matrices,
    "MatMul/batches": batches,
    "MatMul/vectors": vectors,
    "MatMul/int32": matrices_of_ints,
    "GlobalAveragePool/maps": pool,
    "Softmax/last-axis": softmax_last,
    "Softmax/inner-axis": softmax_inner,
    "Softmax/opset-11-flat": softmax_flat,
    "chain/conv-norm-relu": chain,
    "chain/residual": residual,
}

fn dims_of(array: &Array) -> Vec<i64> {
    array.tensor().shape
}

/// A convolution of random values, with and without a bias.
fn convolution(x: &[usize], w: &[usize], window: &Window, attributes: &[(&str, Attr)]) -> Sample {
    let (x, w, bias) = (Array::random(x, 1), Array::random(w, 2), Array::random(&w[..1], 3));
    let bias = (window.group == 1).then_some(bias);
    let y = conv(&x, &w, bias.as_ref(), window);
    let mut model = Onnx::new(11).input("x", Float32, &dims_of(&x)).constant("w", &w.tensor());
    let mut operands = vec!["x", "w"];
    if let Some(bias) = &bias {
        model = model.constant("b", &bias.tensor());
        operands.push("b");
    }
    let model = model.node("Conv", &operands, "y", attributes).output("y", Float32, &dims_of(&y));
    Sample::new(model, [("x", x.tensor())], y.tensor()).within(SUMS)
}

fn conv_one_dim() -> Sample {
    convolution(&[2, 3, 11], &[4, 3, 3], &Window::plain(1), &[])
}

fn conv_window() -> Sample {
    let window = Window {
        strides: vec![2, 1],
        dilations: vec![1, 2],
        before: vec![1, 0],
        after: vec![0, 3],
        group: 1,
    };
    let attributes = [
        ("strides", Attr::Ints(vec![2, 1])),
        ("dilations", Attr::Ints(vec![1, 2])),
        ("pads", Attr::Ints(vec![1, 0, 0, 3])),
        ("kernel_shape", Attr::Ints(vec![3, 2])),
    ];
    convolution(&[1, 3, 9, 8], &[5, 3, 3, 2], &window, &attributes)
}

fn conv_depthwise() -> Sample {
    let (before, after) = (vec![1, 1], vec![1, 1]);
    let window = Window { before, after, group: 6, ..Window::plain(2) };
    let attributes = [("pads", Attr::Ints(vec![1; 4])), ("group", Attr::Int(6))];
    convolution(&[1, 6, 7, 7], &[6, 1, 3, 3], &window, &attributes)
}

fn conv_groups() -> Sample {
    let window = Window { group: 2, ..Window::plain(2) };
    convolution(&[2, 4, 5, 5], &[6, 2, 2, 2], &window, &[("group", Attr::Int(2))])
}

/// 6 elements by a kernel of 2 and a stride of 1 lack one: it is added at one of the ends.
fn same(mode: &'static str, before: Vec<usize>, after: Vec<usize>) -> Sample {
    let window = Window { before, after, ..Window::plain(2) };
    let attributes = [("auto_pad", Attr::Text(mode))];
    convolution(&[1, 2, 6, 6], &[3, 2, 2, 2], &window, &attributes)
}

fn conv_same_upper() -> Sample {
    same("SAME_UPPER", vec![0, 0], vec![1, 1])
}

fn conv_same_lower() -> Sample {
    same("SAME_LOWER", vec![1, 1], vec![0, 0])
}

fn conv_three_dims() -> Sample {
    convolution(&[1, 2, 4, 5, 3], &[3, 2, 2, 3, 2], &Window::plain(3), &[])
}

fn product(a: &[usize], b: &[usize], y: &[usize]) -> Sample {
    let (a, b) = (Array::random(a, 4), Array::random(b, 5));
    let y = mat_mul(&a, &b, y);
    let model = Onnx::new(13)
        .input("a", Float32, &dims_of(&a))
        .input("b", Float32, &dims_of(&b))
        .node("MatMul", &["a", "b"], "y", &[])
        .output("y", Float32, &dims_of(&y));
    Sample::new(model, [("a", a.tensor()), ("b", b.tensor())], y.tensor()).within(SUMS)
}

fn matrices() -> Sample {
    product(&[17, 33], &[33, 9], &[17, 9])
}

fn batches() -> Sample {
    product(&[2, 1, 3, 4], &[5, 4, 2], &[2, 5, 3, 2])
}

/// A vector on the left is a row, whose dim is then taken away: `[2] · [3, 2, 2]`.
fn vectors() -> Sample {
    let (a, b) = (Array::random(&[1, 2], 16), Array::random(&[3, 2, 2], 17));
    let y = mat_mul(&a, &b, &[3, 1, 2]);
    let model = Onnx::new(9)
        .input("a", Float32, &[2])
        .input("b", Float32, &[3, 2, 2])
        .node("MatMul", &["a", "b"], "y", &[])
        .output("y", Float32, &[3, 2]);
    let (a, y) = (Array { dims: vec![2], ..a }, Array { dims: vec![3, 2], ..y });
    Sample::new(model, [("a", a.tensor()), ("b", b.tensor())], y.tensor()).within(SUMS)
}

fn matrices_of_ints() -> Sample {
    let model = Onnx::new(13)
        .input("a", Int32, &[2, 2])
        .input("b", Int32, &[2, 1])
        .node("MatMul", &["a", "b"], "y", &[])
        .output("y", Int32, &[2, 1]);
    let (a, b) = (ints(&[2, 2], &[1, 2, -3, 4]), ints(&[2, 1], &[10, -100]));
    Sample::new(model, [("a", a), ("b", b)], ints(&[2, 1], &[-190, -430]))
}

fn pool() -> Sample {
    let x = Array::random(&[2, 3, 5, 7], 6);
    let model = Onnx::new(1)
        .input("x", Float32, &[2, 3, 5, 7])
        .node("GlobalAveragePool", &["x"], "y", &[])
        .output("y", Float32, &[2, 3, 1, 1]);
    Sample::new(model, [("x", x.tensor())], global_average(&x).tensor()).within(SUMS)
}

/// Values from −100 to 100: without a shift, exponentials of them would overflow.
fn softmax_over(opset: i64, attributes: &[(&str, Attr)], from: usize, to: usize) -> Sample {
    let x = Array::random(&[2, 3, 4], 7).map(|value| 50.0 * value);
    let model = Onnx::new(opset)
        .input("x", Float32, &[2, 3, 4])
        .node("Softmax", &["x"], "y", attributes)
        .output("y", Float32, &[2, 3, 4]);
    // What is summed up is what the message has: float32.
    let given = Array::of(&x.tensor());
    let y = softmax(&given, from, to);
    Sample::new(model, [("x", given.tensor())], y.tensor()).within(SUMS)
}

fn softmax_last() -> Sample {
    softmax_over(13, &[], 2, 3)
}

fn softmax_inner() -> Sample {
    softmax_over(13, &[("axis", Attr::Int(-2))], 1, 2)
}

fn softmax_flat() -> Sample {
    softmax_over(11, &[], 1, 3)
}

fn chain() -> Sample {
    let (x, w) = (Array::random(&[1, 3, 6, 6], 8), Array::random(&[4, 3, 3, 3], 9));
    let param = |seed| Array::random(&[4], seed);
    let (scale, bias, mean) = (param(10), param(11), param(12));
    let variance = param(13).map(|value| value.abs() + 0.5);
    let z = conv(&x, &w, None, &Window::plain(2));
    let z = batch_normalization(&z, [&scale, &bias, &mean, &variance], 1e-5);
    let y = z.map(|value| value.max(0.0));
    let model = Onnx::new(14)
        .input("x", Float32, &[1, 3, 6, 6])
        .constant("w", &w.tensor())
        .constant("scale", &scale.tensor())
        .constant("bias", &bias.tensor())
        .constant("mean", &mean.tensor())
        .constant("variance", &variance.tensor())
        .node("Conv", &["x", "w"], "c", &[])
        .node("BatchNormalization", &["c", "scale", "bias", "mean", "variance"], "n", &[])
        .node("Relu", &["n"], "y", &[])
        .output("y", Float32, &[1, 4, 4, 4]);
    // A division by the root of a variance of 0.5 makes sums larger.
    Sample::new(model, [("x", x.tensor())], y.tensor()).within(4.0 * SUMS)
}

/// What a task needs again must not be overwritten before: `y = conv(x) + x`, `z = relu(y)`.
fn residual() -> Sample {
    let (x, w) = (Array::random(&[1, 2, 5, 5], 14), Array::random(&[2, 2, 1, 1], 15));
    let c = conv(&x, &w, None, &Window::plain(2));
    let y = Array::made(&x.dims, |at| c.at(at) + x.at(at));
    let z = y.map(|value| value.max(0.0));
    let model = Onnx::new(14)
        .input("x", Float32, &[1, 2, 5, 5])
        .constant("w", &w.tensor())
        .node("Conv", &["x", "w"], "c", &[])
        .node("Add", &["c", "x"], "y", &[])
        .node("Relu", &["y"], "z", &[])
        .output("y", Float32, &[1, 2, 5, 5])
        .output("z", Float32, &[1, 2, 5, 5]);
    let mut sample = Sample::new(model, [("x", x.tensor())], y.tensor()).within(SUMS);
    sample.expected.push(("z".to_owned(), z.tensor()));
    sample
}
