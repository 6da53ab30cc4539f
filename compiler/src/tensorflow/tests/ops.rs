//! Ops that compute: each of the same meaning by its function, products, reductions.

use super::*;
use crate::testing::noise;

/// A function of one element.
type Function = fn(f32) -> f32;

/// A function of two.
type Pair = fn(f32, f32) -> f32;

/// A comparison of two.
type Comparison = fn(f32, f32) -> bool;

const FUNCTIONS: &[(&str, Function)] = &[
    ("Abs", f32::abs),
    ("Acos", f32::acos),
    ("Acosh", f32::acosh),
    ("Asin", f32::asin),
    ("Asinh", f32::asinh),
    ("Atan", f32::atan),
    ("Atanh", f32::atanh),
    ("Ceil", f32::ceil),
    ("Cos", f32::cos),
    ("Cosh", f32::cosh),
    ("Elu", |x| if x < 0.0 { x.exp_m1() } else { x }),
    ("Exp", f32::exp),
    ("Floor", f32::floor),
    ("Identity", |x| x),
    ("Inv", f32::recip),
    ("LeakyRelu", |x| if x < 0.0 { 0.2 * x } else { x }),
    ("Log", f32::ln),
    ("Neg", |x| -x),
    ("Reciprocal", f32::recip),
    ("Relu", |x| x.max(0.0)),
    ("Relu6", |x| x.clamp(0.0, 6.0)),
    ("Rint", f32::round_ties_even),
    ("Round", f32::round_ties_even),
    ("Rsqrt", |x| x.sqrt().recip()),
    ("Sigmoid", |x| (1.0 + (-x).exp()).recip()),
    ("Sign", |x| if x == 0.0 { 0.0 } else { x.signum() }),
    ("Sin", f32::sin),
    ("Sinh", f32::sinh),
    ("Softplus", |x| x.exp().ln_1p()),
    ("Softsign", |x| x / (1.0 + x.abs())),
    ("Sqrt", f32::sqrt),
    ("Square", |x| x * x),
    ("StopGradient", |x| x),
    ("Tan", f32::tan),
    ("Tanh", f32::tanh),
];

#[test]
fn functions_of_one_element() {
    let ranges: [&[f32]; 3] = [&[-3.5, -0.5, 0.0, 2.5, 7.0], &[0.25, 0.5, 0.75], &[1.0, 1.5, 4.0]];
    for (op, function) in FUNCTIONS {
        for values in ranges {
            let expected: Vec<f32> = values.iter().map(|x| function(*x)).collect();
            if expected.iter().any(|y| !y.is_finite()) {
                continue;
            }
            let dims = [i64::try_from(values.len()).unwrap()];
            let own = Frozen::default().input("x", &dims);
            let own = own.node(op, "y", &["x"], &[("T", Value::Type(FLOAT))]);
            near(&own.run(&[values])[0], &expected);
        }
    }
}

#[test]
fn functions_of_two_elements() {
    let cases: [(&str, Pair); 9] = [
        ("Add", |a, b| a + b),
        ("AddV2", |a, b| a + b),
        ("Sub", |a, b| a - b),
        ("Mul", |a, b| a * b),
        ("RealDiv", |a, b| a / b),
        ("Maximum", f32::max),
        ("Minimum", f32::min),
        ("SquaredDifference", |a, b| (a - b) * (a - b)),
        ("Pow", f32::powf),
    ];
    let (a, b) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [2.0, -1.0, 3.0]);
    for (op, function) in cases {
        let own = Frozen::default().input("a", &[2, 3]).input("b", &[3]).node(
            op,
            "y",
            &["a", "b"],
            &[("T", Value::Type(FLOAT))],
        );
        let expected: Vec<f32> =
            a.iter().enumerate().map(|(at, a)| function(*a, b[at % 3])).collect();
        near(&own.run(&[&a, &b])[0], &expected);
    }
    let sum = Frozen::default().input("a", &[6]).node("AddN", "y", &["a", "a", "a"], &[]);
    near(&sum.run(&[&a])[0], &a.map(|x| 3.0 * x));
}

#[test]
fn what_is_compared_selects() {
    let cases: [(&str, Comparison); 6] = [
        ("Equal", |a, b| a == b),
        ("NotEqual", |a, b| a != b),
        ("Greater", |a, b| a > b),
        ("GreaterEqual", |a, b| a >= b),
        ("Less", |a, b| a < b),
        ("LessEqual", |a, b| a <= b),
    ];
    let (a, b) = ([1.0, 2.0, 3.0], [2.0, 2.0, 2.0]);
    for (op, function) in cases {
        let own = Frozen::default()
            .input("a", &[3])
            .input("b", &[3])
            .node(op, "c", &["a", "b"], &[])
            .node("LogicalNot", "not", &["c"], &[])
            .node("LogicalAnd", "never", &["c", "not"], &[])
            .node("LogicalOr", "own", &["c", "never"], &[])
            .node("SelectV2", "y", &["own", "a", "b"], &[]);
        let expected: Vec<f32> =
            a.iter().zip(b).map(|(a, b)| if function(*a, b) { *a } else { b }).collect();
        near(&own.run(&[&a, &b])[0], &expected);
    }
}

#[test]
fn products_of_either_way_round() {
    let (a, b) = (noise(6, 1), noise(12, 2));
    for (first, second) in [(false, false), (false, true), (true, false), (true, true)] {
        let dims =
            |turned: bool, rows, columns| if turned { [columns, rows] } else { [rows, columns] };
        let flags = [("transpose_a", Value::B(first)), ("transpose_b", Value::B(second))];
        let own = Frozen::default()
            .input("a", &dims(first, 2, 3))
            .input("b", &dims(second, 3, 4))
            .node("MatMul", "y", &["a", "b"], &flags);
        let at_a = |i: usize, k: usize| if first { a[k * 2 + i] } else { a[i * 3 + k] };
        let at_b = |k: usize, j: usize| if second { b[j * 3 + k] } else { b[k * 4 + j] };
        let places = (0..2).flat_map(|i| (0..4).map(move |j| (i, j)));
        let one = |(i, j)| (0..3).map(|k| at_a(i, k) * at_b(k, j)).sum();
        near(&own.run(&[&a, &b])[0], &places.map(one).collect::<Vec<f32>>());
        // Many matrices, the same one twice.
        let twice = |own: [i64; 2]| [vec![2], own.to_vec()].concat();
        let flags = [("adj_x", Value::B(first)), ("adj_y", Value::B(second))];
        let many = Frozen::default()
            .input("a", &twice(dims(first, 2, 3)))
            .input("b", &twice(dims(second, 3, 4)))
            .node("BatchMatMulV2", "y", &["a", "b"], &flags);
        let expected = own.run(&[&a, &b])[0].repeat(2);
        near(&many.run(&[&a.repeat(2), &b.repeat(2)])[0], &expected);
    }
}

#[test]
fn softmax_is_of_the_last_dim() {
    let x = [1.0f32, 2.0, 3.0, -1.0, 0.0, 4.0];
    for (op, last) in [("Softmax", f32::exp as Function), ("LogSoftmax", |x| x)] {
        let own = Frozen::default().input("x", &[2, 3]).node(op, "y", &["x"], &[]);
        let expected = x.chunks(3).flat_map(|row| {
            let sum: f32 = row.iter().map(|x| x.exp()).sum();
            row.iter().map(move |x| last(x - sum.ln()))
        });
        near(&own.run(&[&x])[0], &expected.collect::<Vec<f32>>());
    }
}

#[test]
fn reductions_along_axes() {
    let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
    let with = |op: &str, axes: &[i32], keep: bool| {
        let count = i64::try_from(axes.len()).unwrap();
        let own = Frozen::default().input("x", &[2, 3]).ints("axes", &[count], axes).node(
            op,
            "y",
            &["x", "axes"],
            &[("keep_dims", Value::B(keep))],
        );
        let dims = own.compile(&[]).unwrap().report.outputs[0].info.shape.dims().to_vec();
        (own.run(&[&x]).remove(0), dims)
    };
    assert_eq!(with("Mean", &[1], false), (vec![2.0, 5.0], vec![2]));
    assert_eq!(with("Mean", &[0, -1], true), (vec![3.5], vec![1, 1]));
    assert_eq!(with("Sum", &[0], false), (vec![5.0, 7.0, 9.0], vec![3]));
    assert_eq!(with("Max", &[-1], true), (vec![3.0, 6.0], vec![2, 1]));
    assert_eq!(with("Min", &[0], false), (vec![1.0, 2.0, 3.0], vec![3]));
    assert_eq!(with("Prod", &[1], false), (vec![6.0, 120.0], vec![2]));
    assert_eq!(with("Sum", &[], false), (x.to_vec(), vec![2, 3]), "no axis, no sum");
    let arg = |op: &str| {
        let own = Frozen::default().input("x", &[2, 3]).ints("axis", &[], &[-1]).node(
            op,
            "y",
            &["x", "axis"],
            &[("output_type", Value::Type(9))],
        );
        own.run(&[&[3.0, 9.0, 4.0, 1.0, 0.0, 2.0]]).remove(0)
    };
    assert_eq!((arg("ArgMax"), arg("ArgMin")), (vec![1.0, 2.0], vec![0.0, 1.0]));
}
