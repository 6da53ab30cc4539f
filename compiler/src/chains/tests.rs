//! Which ops become one task, and that it has their results.

use crate::testing::{D, Draft, FLOAT, check, noise};

const X: [D; 3] = [D::N(2), D::N(3), D::N(40)];

fn draft() -> Draft {
    Draft::new(13)
        .input("x", FLOAT, &X)
        .floats("scale", &[40], &noise(40, 1))
        .floats("offset", &[3, 1], &noise(3, 2))
        .floats("two", &[], &[2.0])
}

#[test]
fn ops_in_a_row_are_one_task() {
    let own = draft()
        .node("Mul", &["x", "scale"], "a")
        .node("Add", &["offset", "a"], "b")
        .node("Tanh", &["b"], "c")
        .node("Sub", &["c", "x"], "d")
        .node("Mul", &["d", "d"], "y")
        .output("y", FLOAT, None);
    check(&own, &["Mul+Add+Tanh+Sub+Mul"], &noise(240, 3));
    let fates = own.compile(&[]).unwrap().fates;
    assert_eq!(fates[0].what, "task 0, Mul+Add+Tanh+Sub+Mul");
    assert_eq!(fates[4].what, "part of `Mul.a`: a step after it");
}

#[test]
fn what_others_read_and_other_shapes_end_a_chain() {
    let shared = draft()
        .node("Mul", &["x", "two"], "a")
        .node("Tanh", &["a"], "b")
        .node("Exp", &["b"], "c")
        .node("Softmax", &["b"], "d")
        .node("Add", &["c", "d"], "y")
        .output("y", FLOAT, None);
    check(&shared, &["Mul+Tanh", "Softmax", "Exp+Add"], &noise(240, 4));
    let wider = Draft::new(13)
        .input("x", FLOAT, &[D::N(40)])
        .floats("row", &[3, 1], &noise(3, 2))
        .node("Tanh", &["x"], "a")
        .node("Exp", &["a"], "b")
        .node("Add", &["b", "row"], "c")
        .node("Sin", &["c"], "y")
        .output("y", FLOAT, None);
    check(&wider, &["Tanh+Exp", "Add+Sin"], &noise(40, 5));
    let read = draft()
        .node("Mul", &["x", "two"], "a")
        .node("Tanh", &["a"], "y")
        .output("a", FLOAT, None)
        .output("y", FLOAT, None);
    check(&read, &["Mul", "Tanh"], &noise(240, 6));
}

#[test]
fn long_chains_are_cut_and_two_meet() {
    let mut long = draft();
    let names: Vec<String> = (0..11).map(|index| format!("t{index}")).collect();
    let mut before = "x";
    for name in &names {
        long = long.node("Sin", &[before], name);
        before = name;
    }
    let sines = |count: usize| vec!["Sin"; count].join("+");
    check(&long.output("t10", FLOAT, None), &[&sines(8), &sines(3)], &noise(240, 7));
    let two = draft()
        .node("Sin", &["x"], "a")
        .node("Cos", &["x"], "b")
        .node("Exp", &["b"], "c")
        .node("Mul", &["a", "c"], "y")
        .output("y", FLOAT, None);
    check(&two, &["Cos+Exp", "Sin+Mul"], &noise(240, 8));
}
