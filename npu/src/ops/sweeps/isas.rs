//! Every ISA of this machine makes of every length what the portable code makes, but for rounding:
//! where a form fuses a product and a sum. Whole numbers, bools and indices have the same bits.

use super::case;
use crate::DataType;
use crate::isa::{Isa, at_most};
use crate::ops::testing::{Case, Value, float, int64, noise};

/// Lengths of a row: of no whole vector, of some with each rest, and of tiles.
const LENGTHS: std::ops::RangeInclusive<usize> = 1..=67;

/// Asserts that all outputs are those of the portable code within some units of the last place,
/// of 1 where a value is below 1. A NaN is one on both sides, an infinity the same.
fn check(what: &str, case: &Case, units: f32) {
    let portable = at_most(Isa::Portable, || case.run_all());
    for isa in Isa::ALL {
        let found = at_most(isa, || case.run_all());
        assert_eq!(found.len(), portable.len());
        for (found, expected) in found.iter().zip(&portable) {
            if found.info.dtype != DataType::FLOAT {
                assert_eq!(found, expected, "{what} on {isa:?}");
                continue;
            }
            assert_eq!(found.info, expected.info, "{what}");
            let pairs = found.elements::<f32>().iter().zip(expected.elements::<f32>());
            for (at, (own, expected)) in pairs.enumerate() {
                let limit = units * f32::EPSILON * expected.abs().max(1.0);
                let same = own.to_bits() == expected.to_bits() || own.is_nan() && expected.is_nan();
                let close = expected.is_finite() && (own - expected).abs() <= limit;
                assert!(same || close, "{what} on {isa:?}: [{at}] {own}, portable {expected}");
            }
        }
    }
}

/// Values from `low` to `high`.
fn values(count: usize, low: f32, high: f32) -> Vec<f32> {
    noise(count, 7).iter().map(|x| low + (x + 1.0) / 2.0 * (high - low)).collect()
}

fn row(count: usize, low: f32, high: f32) -> Value {
    float(&[count], &values(count, low, high))
}

#[test]
fn functions_of_one_element() {
    let everywhere = [
        "Abs",
        "Atan",
        "Asinh",
        "Ceil",
        "Celu",
        "Cos",
        "Cosh",
        "Elu",
        "Erf",
        "Exp",
        "Floor",
        "Gelu",
        "HardSigmoid",
        "HardSwish",
        "LeakyRelu",
        "Mish",
        "Neg",
        "Reciprocal",
        "Relu",
        "Round",
        "Selu",
        "Shrink",
        "Sigmoid",
        "Sign",
        "Sin",
        "Sinh",
        "Softplus",
        "Softsign",
        "Swish",
        "Tan",
        "Tanh",
        "ThresholdedRelu",
        "IsNaN",
        "IsInf",
        "Identity",
        "Clip",
    ];
    let inside = ["Acos", "Asin", "Atanh", "Log", "Sqrt"];
    let strange =
        [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1e30, -1e30, 1e-40, -90.0];
    for count in LENGTHS {
        for name in everywhere {
            check(name, &case(name, 24).variable(row(count, -9.0, 9.0)), 8.0);
            let x: Vec<f32> = strange.into_iter().cycle().skip(count % 9).take(count).collect();
            check(name, &case(name, 24).variable(float(&[count], &x)), 8.0);
        }
        for name in inside {
            check(name, &case(name, 24).variable(row(count, 0.01, 0.99)), 8.0);
        }
        check("Acosh", &case("Acosh", 24).variable(row(count, 1.0, 50.0)), 8.0);
        let nearly = case("Gelu", 24).text("approximate", "tanh").variable(row(count, -9.0, 9.0));
        check("Gelu by tanh", &nearly, 8.0);
    }
}

#[test]
fn functions_of_two_elements() {
    for count in LENGTHS {
        let (x, y) = (values(2 * count, 0.1, 3.0), values(count, -2.0, 2.0));
        for name in ["Add", "Sub", "Mul", "Div", "Pow", "PRelu", "Max", "Min", "Less", "Equal"] {
            for (dims, y) in [(&[count][..], &y[..]), (&[1], &y[..1]), (&[2, 1], &[0.5, -1.5])] {
                let case = case(name, 16).variable(float(&[2, count], &x));
                check(name, &case.variable(float(dims, y)), 8.0);
            }
        }
    }
}

#[test]
fn casts_between_types() {
    let types = [
        DataType::FLOAT,
        DataType::DOUBLE,
        DataType::FLOAT16,
        DataType::BF16,
        DataType::INT32,
        DataType::INT64,
        DataType::INT8,
        DataType::UINT8,
        DataType::BOOL,
    ];
    for count in LENGTHS {
        for to in types {
            let cast = |x: Value| case("Cast", 19).int("to", to_onnx(to)).variable(x);
            let from_floats = cast(row(count, 0.0, 99.0));
            check("Cast", &from_floats, 0.0);
            let there = from_floats.run();
            check("Cast back", &case("Cast", 19).int("to", 1).variable(there), 0.0);
        }
    }
}

/// The number of a type in a model.
fn to_onnx(dtype: DataType) -> i64 {
    match dtype {
        DataType::FLOAT => 1,
        DataType::UINT8 => 2,
        DataType::INT8 => 3,
        DataType::INT32 => 6,
        DataType::INT64 => 7,
        DataType::BOOL => 9,
        DataType::FLOAT16 => 10,
        DataType::DOUBLE => 11,
        _ => 16,
    }
}

#[test]
fn shares_and_normalizations_of_every_length() {
    for count in LENGTHS {
        let x = values(6 * count, -4.0, 4.0);
        let (scale, bias) = (row(count, 0.5, 2.0), row(count, -1.0, 1.0));
        let (rows, planes) = (float(&[6, count], &x), float(&[1, 2, 3, count], &x));
        for name in ["Softmax", "LogSoftmax", "Hardmax"] {
            check(name, &case(name, 13).variable(rows.clone()), 32.0);
            check(name, &case(name, 13).int("axis", 0).variable(rows.clone()), 32.0);
            check(name, &case(name, 11).int("axis", 2).variable(planes.clone()), 32.0);
        }
        let layer = case("LayerNormalization", 17).variable(rows.clone()).variable(scale.clone());
        check("LayerNormalization", &layer.clone().outputs(3), 64.0);
        check("LayerNormalization", &layer.variable(bias.clone()), 64.0);
        let rms = case("RMSNormalization", 23).variable(rows.clone()).variable(scale);
        check("RMSNormalization", &rms, 64.0);
        let two = |low, high| row(2, low, high);
        for name in ["InstanceNormalization", "BatchNormalization"] {
            let mut own = case(name, 22).variable(planes.clone());
            own = own.variable(two(0.5, 1.0)).variable(two(-1.0, 1.0));
            if name == "BatchNormalization" {
                own = own.variable(two(-1.0, 1.0)).variable(two(0.5, 1.0));
            }
            check(name, &own, 64.0);
        }
        let group = case("GroupNormalization", 21).int("num_groups", 1).variable(planes.clone());
        check("GroupNormalization", &group.variable(two(0.5, 1.0)).variable(two(0.0, 1.0)), 64.0);
        check("LRN", &case("LRN", 13).int("size", 3).variable(planes.clone()), 32.0);
        let mean_variance = case("MeanVarianceNormalization", 13).variable(planes.clone());
        check("MeanVarianceNormalization", &mean_variance, 64.0);
        check("LpNormalization", &case("LpNormalization", 22).variable(planes), 32.0);
    }
}

#[test]
fn reductions_of_every_length() {
    let names = [
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "ReduceSumSquare",
    ];
    for count in LENGTHS {
        for (dims, axis) in [([3, count], 1), ([count, 3], 0), ([count, 5], 1)] {
            let x = float(&dims, &values(dims[0] * dims[1], 0.5, 1.5));
            for name in names {
                let own = case(name, 18).variable(x.clone()).input(int64(&[1], &[axis]));
                check(name, &own, 32.0);
            }
            check("ArgMax", &case("ArgMax", 13).int("axis", axis).variable(x.clone()), 0.0);
            check("CumSum", &case("CumSum", 14).variable(x).input(int64(&[], &[axis])), 32.0);
        }
    }
}

#[test]
fn pools_of_every_width() {
    for width in 1..=35 {
        let x = float(&[2, 3, 3, width], &noise(18 * width, 5));
        for name in ["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"] {
            check(name, &case(name, 22).variable(x.clone()), 32.0);
        }
        for (kernel, stride, dilation) in [(1, 1, 1), (2, 2, 1), (3, 1, 1), (3, 2, 1), (2, 1, 2)] {
            for name in ["AveragePool", "MaxPool", "LpPool"] {
                let pads = [(kernel - 1) / 2 * dilation, (kernel - 1) * dilation];
                let own = case(name, 22).ints("kernel_shape", &[2, kernel]);
                let own = own.ints("strides", &[1, stride]).ints("dilations", &[1, dilation]);
                let own = own.ints("pads", &[1, pads[0], 0, pads[1]]).int("ceil_mode", stride - 1);
                let own = own.variable(x.clone());
                check(name, &own, 32.0);
                if name == "MaxPool" {
                    check(name, &own.outputs(2), 0.0);
                }
            }
        }
    }
    for name in ["AveragePool", "MaxPool"] {
        let line = case(name, 22).ints("kernel_shape", &[3]);
        check(name, &line.variable(float(&[1, 2, 40], &noise(80, 3))), 32.0);
        let space = case(name, 22).ints("kernel_shape", &[2, 2, 3]).ints("strides", &[2, 1, 2]);
        check(name, &space.variable(float(&[1, 2, 4, 3, 19], &noise(456, 3))), 32.0);
    }
}

#[test]
fn resizing_to_every_width() {
    for width in 1..=35 {
        let x = float(&[1, 2, 3, 5], &noise(30, 5));
        for mode in ["nearest", "linear", "cubic"] {
            for how in ["half_pixel", "align_corners", "asymmetric"] {
                let own = case("Resize", 19).text("mode", mode);
                let own = own.text("coordinate_transformation_mode", how).variable(x.clone());
                let own = own.absent().absent().input(int64(&[4], &[1, 2, 4, width]));
                check(&format!("Resize {mode} {how}"), &own, 32.0);
            }
        }
    }
}

#[test]
fn convolutions_back_of_every_width() {
    for width in 1..=35 {
        for (group, stride, dilation) in [(1, 1, 1), (1, 2, 1), (2, 1, 1), (2, 3, 2), (4, 2, 1)] {
            let x = float(&[2, 4, 2, width], &noise(16 * width, 5));
            let w = float(&[4, 3, 2, 3], &noise(72, 6));
            let own = case("ConvTranspose", 11).int("group", group);
            let own = own.ints("strides", &[1, stride]).ints("dilations", &[1, dilation]);
            let own = own.ints("pads", &[0, 0, 1, 1]).variable(x).variable(w);
            let bias = noise(3 * usize::try_from(group).unwrap(), 7);
            check("ConvTranspose", &own.clone().variable(float(&[bias.len()], &bias)), 64.0);
            check("ConvTranspose", &own, 64.0);
        }
    }
}

#[test]
fn products_of_every_width() {
    for width in LENGTHS {
        let a = float(&[2, 3, width], &noise(6 * width, 5));
        let b = float(&[2, width, 5], &noise(10 * width, 6));
        check("MatMul", &case("MatMul", 13).variable(a).variable(b), 128.0);
        let a = float(&[2, 7, 4], &noise(56, 5));
        let b = float(&[2, 4, width], &noise(8 * width, 6));
        check("MatMul", &case("MatMul", 13).variable(a).variable(b), 64.0);
        let a = float(&[3, 4], &noise(12, 5));
        let b = float(&[width, 4], &noise(4 * width, 6));
        let own = case("Gemm", 13).int("transB", 1).variable(a).variable(b);
        check("Gemm", &own.variable(row(width, -1.0, 1.0)), 64.0);
        let x = float(&[1, 3, 3, width], &noise(9 * width, 5));
        let w = float(&[5, 3, 2, 1], &noise(30, 6));
        check("Conv", &case("Conv", 11).variable(x).variable(w), 64.0);
    }
}

#[test]
fn cells_of_every_size() {
    for size in 1..=35 {
        for (name, gates) in [("RNN", 1), ("GRU", 3), ("LSTM", 4)] {
            let own = case(name, 14).text("direction", "bidirectional");
            let own = own.int("hidden_size", i64::try_from(size).unwrap());
            let (rows, input) = (gates * size, size % 5 + 1);
            let own = own.variable(float(&[3, 2, input], &noise(6 * input, 1)));
            let own = own.variable(float(&[2, rows, input], &noise(2 * rows * input, 2)));
            let own = own.variable(float(&[2, rows, size], &noise(2 * rows * size, 3)));
            let own = own.variable(float(&[2, 2 * rows], &noise(4 * rows, 4)));
            check(name, &own.outputs(if name == "LSTM" { 3 } else { 2 }), 128.0);
        }
    }
}
