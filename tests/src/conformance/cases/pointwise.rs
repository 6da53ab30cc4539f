//! Ops of one element: sums, products, activations.

use dflow::DType::{Float32, Int32, Int64};

use super::{Case, FEW, Run, Sample, sample, samples};
use crate::conformance::onnx::{Attr, Onnx};
use crate::conformance::reference::{Array, batch_normalization, hard_sigmoid};
use crate::conformance::tensor::{floats, ints, longs};

samples! {
    "Add/broadcast": add_broadcast,
    "Add/int64-wraps": add_wraps,
    "Add/opset-6-axis": add_axis,
    "Mul/broadcast": mul_broadcast,
    "Mul/int32-outer": mul_outer,
    "Relu/float32": relu,
    "Relu/int32": relu_ints,
    "HardSigmoid/default": hard_sigmoid_default,
    "HardSigmoid/alpha-beta": hard_sigmoid_given,
    "HardSwish/opset-14": hard_swish,
    "BatchNormalization/epsilon": batch_norm,
}

fn add_broadcast() -> Sample {
    let (a, b) = (Array::random(&[2, 3, 4], 1), Array::random(&[3, 1], 2));
    let sum = Array::made(&a.dims, |at| a.at(at) + b.broadcast_at(at));
    let model = Onnx::new(14)
        .input("a", Float32, &[2, 3, 4])
        .input("b", Float32, &[3, 1])
        .node("Add", &["a", "b"], "y", &[])
        .output("y", Float32, &[2, 3, 4]);
    Sample::new(model, [("a", a.tensor()), ("b", b.tensor())], sum.tensor()).within(FEW)
}

fn add_wraps() -> Sample {
    let model = Onnx::new(14)
        .input("a", Int64, &[3])
        .input("b", Int64, &[])
        .node("Add", &["a", "b"], "y", &[])
        .output("y", Int64, &[3]);
    let (a, b) = (longs(&[3], &[i64::MAX, -1, 1 << 40]), longs(&[], &[1]));
    Sample::new(model, [("a", a), ("b", b)], longs(&[3], &[i64::MIN, 0, (1 << 40) + 1]))
}

fn add_axis() -> Sample {
    let attributes = [("broadcast", Attr::Int(1)), ("axis", Attr::Int(0))];
    let model = Onnx::new(6)
        .input("a", Float32, &[2, 2])
        .constant("b", &floats(&[2], &[10.0, 20.0]))
        .node("Add", &["a", "b"], "y", &attributes)
        .output("y", Float32, &[2, 2]);
    let a = floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
    Sample::new(model, [("a", a)], floats(&[2, 2], &[11.0, 12.0, 23.0, 24.0]))
}

fn mul_broadcast() -> Sample {
    let (a, b) = (Array::random(&[1, 3, 2, 2], 3), Array::random(&[1, 3, 1, 1], 4));
    let product = Array::made(&a.dims, |at| a.at(at) * b.broadcast_at(at));
    let model = Onnx::new(13)
        .input("a", Float32, &[1, 3, 2, 2])
        .constant("b", &b.tensor())
        .node("Mul", &["a", "b"], "y", &[])
        .output("y", Float32, &[1, 3, 2, 2]);
    Sample::new(model, [("a", a.tensor())], product.tensor()).within(FEW)
}

fn mul_outer() -> Sample {
    let model = Onnx::new(7)
        .input("a", Int32, &[2, 1])
        .input("b", Int32, &[3])
        .node("Mul", &["a", "b"], "y", &[])
        .output("y", Int32, &[2, 3]);
    let (a, b) = (ints(&[2, 1], &[2, -3]), ints(&[3], &[5, 7, 1 << 30]));
    // 2³¹ wraps to −2³¹, −3·2³⁰ to 2³⁰.
    let y = ints(&[2, 3], &[10, 14, i32::MIN, -15, -21, 1 << 30]);
    Sample::new(model, [("a", a), ("b", b)], y)
}

fn relu() -> Sample {
    let model = Onnx::new(14).input("x", Float32, &[5]).node("Relu", &["x"], "y", &[]).output(
        "y",
        Float32,
        &[5],
    );
    let x = floats(&[5], &[-1.5, -1e-30, 0.0, 2.5, f32::INFINITY]);
    Sample::new(model, [("x", x)], floats(&[5], &[0.0, 0.0, 0.0, 2.5, f32::INFINITY]))
}

fn relu_ints() -> Sample {
    let model = Onnx::new(14).input("x", Int32, &[2, 2]).node("Relu", &["x"], "y", &[]).output(
        "y",
        Int32,
        &[2, 2],
    );
    let x = ints(&[2, 2], &[i32::MIN, -1, 0, i32::MAX]);
    Sample::new(model, [("x", x)], ints(&[2, 2], &[0, 0, 0, i32::MAX]))
}

/// One op on 60 values from −8 to 8.
fn of_one(op: &str, attributes: &[(&str, Attr)], value: impl Fn(f64) -> f64) -> Sample {
    let x = Array::random(&[3, 20], 5).map(|x| 4.0 * x);
    let model = Onnx::new(14)
        .input("x", Float32, &[3, 20])
        .node(op, &["x"], "y", attributes)
        .output("y", Float32, &[3, 20]);
    Sample::new(model, [("x", x.tensor())], x.map(value).tensor()).within(FEW)
}

fn hard_sigmoid_default() -> Sample {
    of_one("HardSigmoid", &[], |x| hard_sigmoid(x, 0.2, 0.5))
}

fn hard_sigmoid_given() -> Sample {
    let attributes = [("alpha", Attr::Float(0.375)), ("beta", Attr::Float(0.25))];
    of_one("HardSigmoid", &attributes, |x| hard_sigmoid(x, 0.375, 0.25))
}

fn hard_swish() -> Sample {
    of_one("HardSwish", &[], |x| x * hard_sigmoid(x, 1.0 / 6.0, 0.5))
}

fn batch_norm() -> Sample {
    let x = Array::random(&[2, 3, 2, 3], 6);
    let param = |seed| Array::random(&[3], seed);
    let (scale, bias, mean) = (param(7), param(8), param(9));
    let variance = param(10).map(|value| value.abs() + 0.25);
    let y = batch_normalization(&x, [&scale, &bias, &mean, &variance], 0.125);
    let model = Onnx::new(15)
        .input("x", Float32, &[2, 3, 2, 3])
        .constant("scale", &scale.tensor())
        .constant("bias", &bias.tensor())
        .constant("mean", &mean.tensor())
        .constant("variance", &variance.tensor())
        .node(
            "BatchNormalization",
            &["x", "scale", "bias", "mean", "variance"],
            "y",
            &[("epsilon", Attr::Float(0.125))],
        )
        .output("y", Float32, &[2, 3, 2, 3]);
    Sample::new(model, [("x", x.tensor())], y.tensor()).within(1e-5)
}
