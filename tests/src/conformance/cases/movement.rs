//! Ops that move values or tell of shapes; their bits are kept.

use dflow::DType::{Float32, Int32, Int64};

use super::{Case, Run, Sample, sample, samples};
use crate::conformance::onnx::{Attr, Onnx};
use crate::conformance::reference::Array;
use crate::conformance::tensor::{floats, ints, longs};

samples! {
    "Concat/inner-axis": concat,
    "Concat/int64-last-axis": concat_longs,
    "Identity/bits": identity,
    "Identity/int64": identity_longs,
    "Reshape/keep-and-rest": reshape,
    "Reshape/allowzero": reshape_to_zero,
    "Reshape/opset-1-attribute": reshape_attribute,
    "Shape/whole": shape,
    "Shape/start-end": shape_part,
    "Slice/steps": slice,
    "Slice/opset-9-attributes": slice_attributes,
}

fn concat() -> Sample {
    let (a, b) = (Array::random(&[2, 1, 3], 1), Array::random(&[2, 2, 3], 2));
    let y = Array::made(&[2, 3, 3], |at| match at[1] {
        0 => a.at(at),
        row => b.at(&[at[0], row - 1, at[2]]),
    });
    let model = Onnx::new(13)
        .input("a", Float32, &[2, 1, 3])
        .input("b", Float32, &[2, 2, 3])
        .node("Concat", &["a", "b"], "y", &[("axis", Attr::Int(1))])
        .output("y", Float32, &[2, 3, 3]);
    Sample::new(model, [("a", a.tensor()), ("b", b.tensor())], y.tensor())
}

fn concat_longs() -> Sample {
    let model = Onnx::new(11)
        .input("a", Int64, &[2, 1])
        .constant("b", &longs(&[2, 2], &[i64::MIN, 5, 6, 7]))
        .node("Concat", &["b", "a", "b"], "y", &[("axis", Attr::Int(-1))])
        .output("y", Int64, &[2, 5]);
    let y = longs(&[2, 5], &[i64::MIN, 5, -1, i64::MIN, 5, 6, 7, -2, 6, 7]);
    Sample::new(model, [("a", longs(&[2, 1], &[-1, -2]))], y)
}

fn identity() -> Sample {
    let model = Onnx::new(16).input("x", Float32, &[4]).node("Identity", &["x"], "y", &[]).output(
        "y",
        Float32,
        &[4],
    );
    let x = floats(&[4], &[f32::from_bits(0x7fc0_1234), -0.0, f32::MIN_POSITIVE / 2.0, 1.5]);
    Sample::new(model, [("x", x.clone())], x)
}

fn identity_longs() -> Sample {
    let model = Onnx::new(13).input("x", Int64, &[1, 2]).node("Identity", &["x"], "y", &[]).output(
        "y",
        Int64,
        &[1, 2],
    );
    let x = longs(&[1, 2], &[i64::MIN, 1 << 53]);
    Sample::new(model, [("x", x.clone())], x)
}

fn reshape() -> Sample {
    let x = Array::random(&[2, 3, 4], 3).tensor();
    let model = Onnx::new(14)
        .input("x", Float32, &[2, 3, 4])
        .constant("to", &longs(&[3], &[0, -1, 2]))
        .node("Reshape", &["x", "to"], "y", &[])
        .output("y", Float32, &[2, 6, 2]);
    let y = floats(&[2, 6, 2], &super::tensor::as_floats(&x));
    Sample::new(model, [("x", x)], y)
}

fn reshape_to_zero() -> Sample {
    let model = Onnx::new(14)
        .input("x", Float32, &[3, 0])
        .constant("to", &longs(&[3], &[0, 2, 5]))
        .node("Reshape", &["x", "to"], "y", &[("allowzero", Attr::Int(1))])
        .output("y", Float32, &[0, 2, 5]);
    Sample::new(model, [("x", floats(&[3, 0], &[]))], floats(&[0, 2, 5], &[]))
}

fn reshape_attribute() -> Sample {
    let model = Onnx::new(1)
        .input("x", Float32, &[2, 2])
        .node("Reshape", &["x"], "y", &[("shape", Attr::Ints(vec![4, 1]))])
        .output("y", Float32, &[4, 1]);
    let values = [1.0, 2.0, 3.0, 4.0];
    Sample::new(model, [("x", floats(&[2, 2], &values))], floats(&[4, 1], &values))
}

fn shape() -> Sample {
    let model = Onnx::new(13)
        .input("x", Float32, &[2, 1, 3])
        .node("Shape", &["x"], "y", &[])
        .output("y", Int64, &[3]);
    Sample::new(model, [("x", floats(&[2, 1, 3], &[0.0; 6]))], longs(&[3], &[2, 1, 3]))
}

fn shape_part() -> Sample {
    let attributes = [("start", Attr::Int(-3)), ("end", Attr::Int(-1))];
    let model = Onnx::new(15)
        .input("x", Int32, &[4, 2, 1, 3])
        .node("Shape", &["x"], "y", &attributes)
        .output("y", Int64, &[2]);
    Sample::new(model, [("x", ints(&[4, 2, 1, 3], &[0; 24]))], longs(&[2], &[2, 1]))
}

/// `x[:, 5:0:-2, 1:3]`
fn slice() -> Sample {
    let x = Array::random(&[2, 6, 4], 4);
    let y = Array::made(&[2, 3, 2], |at| x.at(&[at[0], 5 - 2 * at[1], 1 + at[2]]));
    let model = Onnx::new(13)
        .input("x", Float32, &[2, 6, 4])
        .constant("starts", &longs(&[2], &[1, 100]))
        .constant("ends", &longs(&[2], &[-1, 0]))
        .constant("axes", &longs(&[2], &[2, -2]))
        .constant("steps", &longs(&[2], &[1, -2]))
        .node("Slice", &["x", "starts", "ends", "axes", "steps"], "y", &[])
        .output("y", Float32, &[2, 3, 2]);
    Sample::new(model, [("x", x.tensor())], y.tensor())
}

fn slice_attributes() -> Sample {
    let attributes = [
        ("starts", Attr::Ints(vec![-2])),
        ("ends", Attr::Ints(vec![1000])),
        ("axes", Attr::Ints(vec![1])),
    ];
    let model = Onnx::new(9)
        .input("x", Int32, &[2, 3])
        .node("Slice", &["x"], "y", &attributes)
        .output("y", Int32, &[2, 2]);
    let x = ints(&[2, 3], &[1, 2, 3, 4, 5, 6]);
    Sample::new(model, [("x", x)], ints(&[2, 2], &[2, 3, 5, 6]))
}
