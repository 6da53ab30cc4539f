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
    let with = |number: f32| {
        let draft = Draft::new(15).input("x", FLOAT, &[D::N(1), D::N(40)]);
        let draft = draft.floats("k", &[1], &[number]).node("Mul", &["k", "x"], "scaled");
        draft
            .node("Sigmoid", &["scaled"], "part")
            .node("Mul", &["x", "part"], "y")
            .output("y", FLOAT, None)
    };
    check(&with(1.0), &["Swish"], &values());
    check(&with(1.702), &["Swish"], &values());
}

#[test]
fn numbers_that_change_nothing_go() {
    let draft = || {
        let own = Draft::new(15).input("x", FLOAT, &[D::N(1), D::N(40)]);
        own.floats("one", &[1], &[1.0]).floats("zero", &[], &[0.0]).floats(
            "wide",
            &[2, 1],
            &[1.0; 2],
        )
    };
    for (op, inputs) in [
        ("Mul", ["one", "x"]),
        ("Div", ["x", "one"]),
        ("Sub", ["x", "zero"]),
        ("Pow", ["x", "one"]),
    ] {
        let own = draft().node(op, &inputs, "a").node("Tanh", &["a"], "y");
        check(&own.output("y", FLOAT, None), &["Tanh"], &values());
    }
    for (op, inputs) in [
        ("Mul", ["wide", "x"]),
        ("Div", ["one", "x"]),
        ("Sub", ["zero", "x"]),
        ("Pow", ["one", "x"]),
        ("Add", ["zero", "x"]),
    ] {
        let own = draft().node(op, &inputs, "a").node("Tanh", &["a"], "y");
        check(&own.output("y", FLOAT, None), &[&format!("{op}+Tanh")], &values());
    }
}

#[test]
fn what_is_nearly_a_pattern_stays() {
    let other = x_and_numbers()
        .node("Mul", &["shifted", "clipped"], "product")
        .node("Div", &["product", "six"], "y")
        .output("y", FLOAT, None);
    check(&other, &["Add", "Clip+Mul+Div"], &values());
    let third = x_and_numbers().node("Div", &["clipped", "three"], "y").output("y", FLOAT, None);
    check(&third, &["Add+Clip+Div"], &values());
    let upside = x_and_numbers()
        .floats("high", &[], &[9.0])
        .node("Clip", &["shifted", "zero", "high"], "wide")
        .node("Div", &["wide", "six"], "y")
        .output("y", FLOAT, None);
    check(&upside, &["Add+Clip+Div"], &values());
    let grown = x_and_numbers()
        .floats("sixes", &[2, 1], &[6.0; 2])
        .node("Div", &["clipped", "sixes"], "y")
        .output("y", FLOAT, None);
    check(&grown, &["Add+Clip", "Div"], &values());
}

#[test]
fn what_others_read_of_a_pattern_is_still_there() {
    let draft = x_and_numbers()
        .node("Div", &["clipped", "six"], "y")
        .output("clipped", FLOAT, None)
        .output("y", FLOAT, None);
    check(&draft, &["Add+Clip", "HardSigmoid"], &values());
}

/// x [2, 3, 40], and numbers
fn tokens() -> Draft {
    Draft::new(17)
        .input("x", FLOAT, &[D::N(2), D::N(3), D::N(40)])
        .floats("half", &[], &[0.5])
        .floats("one", &[1], &[1.0])
        .floats("two", &[], &[2.0])
        .floats("three", &[], &[3.0])
        .floats("root", &[], &[std::f32::consts::SQRT_2])
        .floats("inverse", &[], &[std::f32::consts::FRAC_1_SQRT_2])
        .floats("part", &[], &[0.044_715])
        .floats("factor", &[], &[0.797_884_6])
        .floats("epsilon", &[], &[1e-5])
        .floats("scale", &[40], &noise(40, 2))
        .floats("offset", &[1, 1, 40], &noise(40, 3))
}

fn of_tokens() -> Vec<f32> {
    noise(240, 1).iter().map(|x| x * 4.0).collect()
}

fn found(draft: Draft, tasks: &[&str]) {
    check(&draft.output("y", FLOAT, None), tasks, &of_tokens());
}

#[test]
fn gelus_in_any_order() {
    let share = || {
        let inner = tokens().node("Div", &["x", "root"], "inner").node("Erf", &["inner"], "erf");
        inner.node("Add", &["erf", "one"], "share")
    };
    let last = share().node("Mul", &["x", "share"], "xs").node("Mul", &["xs", "half"], "y");
    found(last, &["Gelu"]);
    let first = share().node("Mul", &["half", "x"], "hx").node("Mul", &["share", "hx"], "y");
    found(first, &["Gelu"]);
    let inner = share().node("Mul", &["share", "half"], "hs").node("Mul", &["hs", "x"], "y");
    found(inner, &["Gelu"]);
    let scaled = tokens()
        .node("Mul", &["x", "inverse"], "inner")
        .node("Erf", &["inner"], "erf")
        .node("Add", &["one", "erf"], "share")
        .node("Mul", &["share", "x"], "xs")
        .node("Mul", &["half", "xs"], "y");
    found(scaled, &["Gelu"]);
    // Twice it is something else, and so is the share of another number.
    let twice = share().node("Mul", &["x", "share"], "xs").node("Mul", &["xs", "two"], "y");
    found(twice, &["Div+Erf+Add+Mul+Mul"]);
    let other = share().node("Relu", &["x"], "r").node("Mul", &["r", "share"], "xs").node(
        "Mul",
        &["xs", "half"],
        "y",
    );
    found(other, &["Relu", "Div+Erf+Add+Mul+Mul"]);
}

#[test]
fn gelus_by_tanh() {
    let with = |draft: Draft| {
        draft
            .node("Mul", &["cube", "part"], "p")
            .node("Add", &["x", "p"], "sum")
            .node("Mul", &["sum", "factor"], "inner")
            .node("Tanh", &["inner"], "tanh")
            .node("Add", &["tanh", "one"], "share")
            .node("Mul", &["x", "half"], "hx")
            .node("Mul", &["hx", "share"], "y")
    };
    found(with(tokens().node("Pow", &["x", "three"], "cube")), &["Gelu"]);
    let products =
        tokens().node("Mul", &["x", "x"], "square").node("Mul", &["square", "x"], "cube");
    found(with(products), &["Gelu"]);
    let square = with(tokens().node("Pow", &["x", "two"], "cube"));
    found(square, &["Mul", "Pow+Mul+Add+Mul+Tanh+Add+Mul"]);
}

/// d / sqrt(mean(square) + epsilon) * scale + offset, where d is x less its mean along `axis`.
fn layer(axis: i64, square: (&str, [&str; 2])) -> Draft {
    let mean = |draft: Draft, of: &str, to: &str| {
        let axes = [("axes", npu::ops::AttributeValue::Ints(vec![axis]))];
        draft.node_with("ReduceMean", &[of], to, &axes)
    };
    let centred = mean(tokens(), "x", "mean").node("Sub", &["x", "mean"], "d");
    mean(centred.node(square.0, &square.1, "square"), "square", "variance")
        .node("Add", &["variance", "epsilon"], "v")
        .node("Sqrt", &["v"], "deviation")
        .node("Div", &["d", "deviation"], "n")
        .node("Mul", &["n", "scale"], "scaled")
        .node("Add", &["offset", "scaled"], "y")
}

#[test]
fn layer_normalizations() {
    found(layer(-1, ("Pow", ["d", "two"])), &["LayerNormalization"]);
    found(layer(2, ("Mul", ["d", "d"])), &["LayerNormalization"]);
    let spelt = ["ReduceMean", "Sub", "Pow", "ReduceMean", "Add+Sqrt", "Div+Mul+Add"];
    found(layer(1, ("Pow", ["d", "two"])), &spelt);
    // The mean square of something else is no variance.
    let other = ["ReduceMean", "Pow", "ReduceMean", "Add+Sqrt", "Sub+Div+Mul+Add"];
    found(layer(-1, ("Pow", ["x", "two"])), &other);
}
