//! Tests of patterns: which tasks a graph has, and the same results as without the pass.

use crate::testing::{D, Draft, FLOAT, check, noise};

/// x [1, 40], and numbers
fn x_and_numbers() -> Draft {
    Draft::new(15)
        .input("x", FLOAT, &[D::N(1), D::N(40)])
        .floats("zero", &[], &[0.0])
        .floats("three", &[1], &[3.0])
        .floats("six", &[], &[6.0])
        .floats("sixth", &[], &[1.0 / 6.0])
        .node("Add", &["x", "three"], "shifted")
        .node("Clip", &["shifted", "zero", "six"], "clipped")
}

fn values() -> Vec<f32> {
    noise(40, 1).iter().map(|x| x * 6.0).collect()
}

#[test]
fn hard_functions_by_clip() {
    let sigmoid = x_and_numbers().node("Div", &["clipped", "six"], "y").output("y", FLOAT, None);
    check(&sigmoid, &["HardSigmoid"], &values());
    let product = x_and_numbers()
        .node("Mul", &["x", "clipped"], "product")
        .node("Mul", &["sixth", "product"], "y")
        .output("y", FLOAT, None);
    check(&product, &["HardSwish"], &values());
    let part = x_and_numbers()
        .node("Div", &["clipped", "six"], "part")
        .node("Mul", &["part", "x"], "y")
        .output("y", FLOAT, None);
    check(&part, &["HardSwish"], &values());
}

#[test]
fn swishes() {
    let draft = Draft::new(15)
        .input("x", FLOAT, &[D::N(1), D::N(40)])
        .node("Sigmoid", &["x"], "part")
        .node("Mul", &["part", "x"], "y")
        .output("y", FLOAT, None);
    check(&draft, &["Swish"], &values());
}

#[test]
fn what_is_nearly_a_pattern_stays() {
    let other = x_and_numbers()
        .node("Mul", &["shifted", "clipped"], "product")
        .node("Div", &["product", "six"], "y")
        .output("y", FLOAT, None);
    check(&other, &["Add", "Clip", "Mul", "Div"], &values());
    let third = x_and_numbers().node("Div", &["clipped", "three"], "y").output("y", FLOAT, None);
    check(&third, &["Add", "Clip", "Div"], &values());
    let upside = x_and_numbers()
        .floats("high", &[], &[9.0])
        .node("Clip", &["shifted", "zero", "high"], "wide")
        .node("Div", &["wide", "six"], "y")
        .output("y", FLOAT, None);
    check(&upside, &["Add", "Clip", "Div"], &values());
    let grown = x_and_numbers()
        .floats("sixes", &[2, 1], &[6.0; 2])
        .node("Div", &["clipped", "sixes"], "y")
        .output("y", FLOAT, None);
    check(&grown, &["Add", "Clip", "Div"], &values());
}

#[test]
fn what_others_read_of_a_pattern_is_still_there() {
    let draft = x_and_numbers()
        .node("Div", &["clipped", "six"], "y")
        .output("clipped", FLOAT, None)
        .output("y", FLOAT, None);
    check(&draft, &["Add", "Clip", "HardSigmoid"], &values());
}
