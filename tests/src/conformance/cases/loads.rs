//! Loading and running: what does not fit, several models at once, sizes, many runs.

use dflow::DType::{Float32, Int32};

use super::{Case, Run, Sample, data, sample};
use crate::conformance::onnx::Onnx;
use crate::conformance::tensor::{self, floats, ints, named};
use crate::conformance::{Backend, Loaded, Step, Stop, Values};

/// `PARAM_INVALID`: what a run on an input of another type or shape ends with.
const PARAM_INVALID: u32 = 145_000;

pub(super) const CASES: &[Case] = &[
    Case { name: "load/unknown-op-is-refused", run: Run::Steps(unknown_op) },
    Case { name: "load/several-at-once", run: Run::Steps(several) },
    Case { name: "load/side-by-side-and-again", run: Run::Steps(side_by_side) },
    Case { name: "run/wrong-shape", run: Run::Steps(wrong_shape) },
    Case { name: "run/wrong-rank", run: Run::Steps(wrong_rank) },
    Case { name: "run/wrong-type", run: Run::Steps(wrong_type) },
    Case { name: "run/many", run: Run::Steps(many) },
    Case { name: "size/large", run: Run::Steps(|backend| sample(backend, &large())) },
    Case { name: "size/zero", run: Run::Steps(|backend| sample(backend, &zero())) },
    Case { name: "size/zero-between", run: Run::Steps(|backend| sample(backend, &zero_between())) },
    Case { name: "size/scalar", run: Run::Steps(|backend| sample(backend, &scalar())) },
];

/// A model that adds `values` to its input `x`, named after `tag`.
pub(super) fn plus(tag: &str, values: &[f32]) -> Onnx {
    let (x, y) = (format!("x{tag}"), format!("y{tag}"));
    let dims = [i64::try_from(values.len()).unwrap_or(0)];
    Onnx::new(14)
        .input(&x, Float32, &dims)
        .constant("c", &floats(&dims, values))
        .node("Add", &[&x, "c"], &y, &[])
        .output(&y, Float32, &dims)
}

/// Expects the code for what does not fit.
fn refused(loaded: &mut dyn Loaded, inputs: &Values) -> Step {
    match loaded.run(inputs)? {
        Err(PARAM_INVALID) => Ok(()),
        Err(code) => Err(Stop::failed(format_args!("code {code}, expected {PARAM_INVALID}"))),
        Ok(_) => Err(Stop::failed(format_args!("data, expected code {PARAM_INVALID}"))),
    }
}

/// Runs what does not fit and what does, in turn.
fn does_not_fit(backend: &dyn Backend, wrong: &[dflow::Tensor]) -> Step {
    let mut loaded = backend.load(&[plus("", &[1.0, 2.0])])?;
    for (wrong, value) in wrong.iter().zip([1.0f32, 2.0, 3.0, 4.0]) {
        refused(&mut *loaded, &named([("x", wrong.clone())]))?;
        let good = data(&mut *loaded, &named([("x", floats(&[2], &[value, 0.0]))]))?;
        let expected = floats(&[2], &[value + 1.0, 2.0]);
        tensor::compare_all(&good, &named([("y", expected)]), 0.0)?;
    }
    loaded.unload()
}

fn wrong_shape(backend: &dyn Backend) -> Step {
    does_not_fit(backend, &[floats(&[3], &[0.0; 3]), floats(&[1], &[0.0]), floats(&[0], &[])])
}

fn wrong_rank(backend: &dyn Backend) -> Step {
    does_not_fit(backend, &[floats(&[1, 2], &[0.0; 2]), floats(&[], &[0.0])])
}

fn wrong_type(backend: &dyn Backend) -> Step {
    does_not_fit(backend, &[ints(&[2], &[1, 2])])
}

fn unknown_op(backend: &dyn Backend) -> Step {
    let model = Onnx::new(14).input("x", Float32, &[1]).node("NoSuchOp", &["x"], "y", &[]).output(
        "y",
        Float32,
        &[1],
    );
    match backend.load(&[model]) {
        Err(Stop::Refused(why)) if why.contains("NoSuchOp") => {}
        Err(Stop::Refused(why)) => {
            return Err(Stop::failed(format_args!("refused without the op's name: {why}")));
        }
        Err(other) => return Err(other),
        Ok(_) => return Err(Stop::failed("a model with an unknown op was loaded")),
    }
    let mut loaded = backend.load(&[plus("", &[1.0])])?;
    let good = data(&mut *loaded, &named([("x", floats(&[1], &[4.0]))]))?;
    tensor::compare_all(&good, &named([("y", floats(&[1], &[5.0]))]), 0.0)?;
    loaded.unload()
}

fn several(backend: &dyn Backend) -> Step {
    let mut loaded =
        backend.load(&[plus("0", &[1.0]), plus("1", &[10.0, 20.0]), plus("2", &[100.0])])?;
    for value in [1.0f32, 2.0, 3.0] {
        let (one, two) = (floats(&[1], &[value]), floats(&[2], &[value, -value]));
        let inputs = named([("x0", one.clone()), ("x1", two), ("x2", one)]);
        let expected = named([
            ("y0", floats(&[1], &[value + 1.0])),
            ("y1", floats(&[2], &[value + 10.0, 20.0 - value])),
            ("y2", floats(&[1], &[value + 100.0])),
        ]);
        tensor::compare_all(&data(&mut *loaded, &inputs)?, &expected, 0.0)?;
    }
    loaded.unload()
}

fn side_by_side(backend: &dyn Backend) -> Step {
    let run = |loaded: &mut dyn Loaded, plus: f32| {
        let found = data(loaded, &named([("x", floats(&[1], &[1.0]))]))?;
        tensor::compare_all(&found, &named([("y", floats(&[1], &[1.0 + plus]))]), 0.0)
    };
    let mut stays = backend.load(&[plus("", &[1.0])])?;
    for round in [2.0f32, 3.0] {
        let mut other = backend.load(&[plus("", &[round])])?;
        run(&mut *other, round)?;
        run(&mut *stays, 1.0)?;
        run(&mut *other, round)?;
        other.unload()?;
        run(&mut *stays, 1.0)?;
    }
    stays.unload()
}

fn many(backend: &dyn Backend) -> Step {
    let model = Onnx::new(14)
        .input("x", Float32, &[2])
        .constant("a", &floats(&[2], &[3.0, -3.0]))
        .node("Mul", &["x", "a"], "m", &[])
        .node("Relu", &["m"], "y", &[])
        .output("y", Float32, &[2]);
    let mut loaded = backend.load(&[model])?;
    for round in 0..300u16 {
        let value = f32::from(round % 7) - 3.0;
        let found = data(&mut *loaded, &named([("x", floats(&[2], &[value, value]))]))?;
        // +0.0 or -0.0 of 0: both are what Relu may give.
        let expected = [(3.0 * value).max(0.0), (-3.0 * value).max(0.0)];
        tensor::compare_all(&found, &named([("y", floats(&[2], &expected))]), f64::EPSILON)?;
    }
    loaded.unload()
}

/// Four MiB in and out.
fn large() -> Sample {
    const COUNT: u16 = 1024;
    let side = i64::from(COUNT);
    let all = || (0..COUNT).flat_map(|row| (0..COUNT).map(move |column| (row, column)));
    let x: Vec<f32> = all().map(|(row, column)| f32::from(row) - f32::from(column)).collect();
    let y: Vec<f32> = x.iter().map(|value| value + 0.5).collect();
    let model = Onnx::new(14)
        .input("x", Float32, &[side, side])
        .constant("c", &floats(&[1], &[0.5]))
        .node("Add", &["x", "c"], "y", &[])
        .output("y", Float32, &[side, side]);
    Sample::new(model, [("x", floats(&[side, side], &x))], floats(&[side, side], &y))
}

fn zero() -> Sample {
    let model = Onnx::new(14).input("x", Float32, &[0, 3]).node("Relu", &["x"], "y", &[]).output(
        "y",
        Float32,
        &[0, 3],
    );
    Sample::new(model, [("x", floats(&[0, 3], &[]))], floats(&[0, 3], &[]))
}

/// A tensor without elements beside one with some.
fn zero_between() -> Sample {
    let model = Onnx::new(13)
        .input("a", Int32, &[0, 2])
        .input("b", Int32, &[1, 2])
        .node("Concat", &["a", "b"], "y", &[("axis", crate::conformance::onnx::Attr::Int(0))])
        .output("y", Int32, &[1, 2]);
    let b = ints(&[1, 2], &[4, 5]);
    Sample::new(model, [("a", ints(&[0, 2], &[])), ("b", b.clone())], b)
}

fn scalar() -> Sample {
    let model = Onnx::new(14)
        .input("x", Float32, &[])
        .constant("c", &floats(&[], &[0.5]))
        .node("Mul", &["x", "c"], "y", &[])
        .output("y", Float32, &[]);
    Sample::new(model, [("x", floats(&[], &[3.0]))], floats(&[], &[1.5]))
}
