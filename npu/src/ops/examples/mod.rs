//! Examples of every op, as text: what a definition says of small tensors. They are tests of the
//! ops, seeds of hostile programs, and, but for those of nothing, cases of the suite for backends
//! (tests/src/conformance).

use crate::DataType;
use crate::half::{Bf16, F16};
use crate::ops::testing::{Case, Value, assert_close};
use crate::ops::{AttributeValue, TABLE, by_name};
use crate::tensor::Element;

/// The texts, by family.
const TEXTS: &[&str] = &[
    include_str!("empty.txt"),
    include_str!("layers.txt"),
    include_str!("movement.txt"),
    include_str!("pointwise.txt"),
];

/// An example: a node, and what comes of it.
pub(crate) struct Example {
    pub(crate) name: &'static str,
    pub(crate) case: Case,
    outputs: Vec<Value>,
    tolerance: f32,
}

/// All examples.
pub(crate) fn all() -> Vec<Example> {
    let lines = TEXTS.iter().flat_map(|text| text.lines());
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(parse).collect()
}

fn parse(line: &'static str) -> Example {
    let (head, rest) = line.split_once(" :").unwrap_or_else(|| panic!("no inputs: {line}"));
    let (inputs, outputs) = rest.split_once("->").unwrap_or_else(|| panic!("no outputs: {line}"));
    let mut words = head.split(' ');
    let name = words.next().unwrap();
    let opset = words.next().unwrap().strip_prefix('@').unwrap().parse().unwrap();
    let entry = by_name(name.split('/').next().unwrap());
    let mut case = Case::new(entry.unwrap_or_else(|| panic!("no such op: {line}")), opset);
    for word in words.filter(|word| !word.is_empty()) {
        let (name, value) = word.split_once('=').unwrap_or_else(|| panic!("{word}: {line}"));
        case = case.attribute(name, attribute(value));
    }
    for word in tensors(inputs) {
        case = match (word, word.strip_prefix('=')) {
            ("_", _) => case.absent(),
            (_, Some(constant)) => case.input(value(constant)),
            (variable, None) => case.variable(value(variable)),
        };
    }
    let (outputs, tolerance) = outputs.split_once('~').unwrap_or((outputs, "0"));
    let outputs: Vec<Value> = tensors(outputs).map(value).collect();
    let case = case.outputs(outputs.len());
    Example { name, case, outputs, tolerance: tolerance.trim().parse().unwrap() }
}

fn attribute(text: &str) -> AttributeValue {
    if let Some(text) = text.strip_prefix('\'') {
        return AttributeValue::Text(text.trim_end_matches('\'').to_owned());
    }
    if let Some(list) = text.strip_prefix('[') {
        let list = list.trim_end_matches(']').split(',').filter(|word| !word.is_empty());
        if text.contains('.') {
            return AttributeValue::Floats(list.map(|word| word.parse().unwrap()).collect());
        }
        return AttributeValue::Ints(list.map(|word| word.parse().unwrap()).collect());
    }
    match text.parse() {
        Ok(number) => AttributeValue::Int(number),
        Err(_) => AttributeValue::Float(text.parse().unwrap_or_else(|_| panic!("{text}"))),
    }
}

/// Words that end with `}`, and lone underscores.
fn tensors(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.split_inclusive(['}', '_']).map(str::trim).filter(|word| !word.is_empty())
}

fn value(text: &str) -> Value {
    let (dtype, rest) = text.split_once('[').unwrap_or_else(|| panic!("{text}"));
    let (dims, values) = rest.split_once("]{").unwrap_or_else(|| panic!("{text}"));
    let dims = dims.split(',').filter(|dim| !dim.is_empty());
    let dims: Vec<usize> = dims.map(|dim| dim.parse().unwrap()).collect();
    let values: Vec<f64> =
        values.trim_end_matches('}').split_whitespace().map(|x| x.parse().unwrap()).collect();
    match dtype {
        "f32" => filled::<f32>(&dims, &values),
        "f64" => filled::<f64>(&dims, &values),
        "f16" => filled::<F16>(&dims, &values),
        "bf16" => filled::<Bf16>(&dims, &values),
        "i8" => filled::<i8>(&dims, &values),
        "i16" => filled::<i16>(&dims, &values),
        "i32" => filled::<i32>(&dims, &values),
        "i64" => filled::<i64>(&dims, &values),
        "u8" => filled::<u8>(&dims, &values),
        "u16" => filled::<u16>(&dims, &values),
        "u32" => filled::<u32>(&dims, &values),
        "u64" => filled::<u64>(&dims, &values),
        "bool" => filled::<u8>(&dims, &values).of_type(DataType::BOOL),
        _ => panic!("{text}"),
    }
}

fn filled<T: Element>(dims: &[usize], values: &[f64]) -> Value {
    let count: usize = dims.iter().product();
    let values: Vec<T> = values.iter().map(|value| T::of_f64(*value)).collect();
    match values[..] {
        [one] => Value::new(dims, &vec![one; count]),
        _ => Value::new(dims, &values),
    }
}

#[test]
fn every_example_is_as_it_says() {
    for Example { name, case, outputs, tolerance } in all() {
        let accepted = case.import().map(|_| ());
        accepted.unwrap_or_else(|error| panic!("{name}: {error}"));
        let found = case.run_all();
        assert_eq!(found.len(), outputs.len(), "{name}");
        for (found, expected) in found.iter().zip(&outputs) {
            if tolerance > 0.0 && expected.info.dtype == DataType::FLOAT {
                assert_close(found, expected, tolerance);
            } else {
                assert_eq!(found, expected, "{name}");
            }
        }
    }
}

#[test]
fn every_op_has_an_example() {
    let examples = all();
    for entry in TABLE {
        let own = |example: &&Example| example.name.split('/').next() == Some(entry.name);
        assert!(examples.iter().any(|example| own(&example)), "no example of {}", entry.name);
    }
}
