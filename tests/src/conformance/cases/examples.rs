//! Examples of ops that stand beside the op table as text: one case an op. What they expect is what
//! ONNX's definitions say of small tensors, written down by hand.
//!
//! Examples of one op and one opset are nodes of one model.

use std::collections::BTreeMap;

use dflow::{DType, Tensor};

use super::{Case, Run, Sample};
use crate::conformance::onnx::{Attr, Onnx};
use crate::conformance::{Backend, Step, Stop, Values, tensor};

/// The texts, by family.
const TEXTS: &[&str] = &[
    include_str!("../../../../npu/src/ops/examples/layers.txt"),
    include_str!("../../../../npu/src/ops/examples/movement.txt"),
    include_str!("../../../../npu/src/ops/examples/pointwise.txt"),
];

/// Where a line is not as it should be.
fn wrong(line: &str) -> Stop {
    Stop::failed(format_args!("no example: {line}"))
}

/// One case an op, called after its first example.
pub(super) fn cases() -> Vec<Case> {
    let mut by_op: BTreeMap<&str, Vec<&'static str>> = BTreeMap::new();
    let lines = TEXTS.iter().flat_map(|text| text.lines());
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        by_op.entry(line.split('/').next().unwrap_or_default()).or_default().push(line);
    }
    let case = |lines: Vec<&'static str>| {
        let name = lines[0].split(' ').next().unwrap_or_default();
        Case { name, run: Run::Examples(lines) }
    };
    by_op.into_values().map(case).collect()
}

/// Runs the examples of one op twice.
pub(super) fn run(backend: &dyn Backend, lines: &[&'static str]) -> Step {
    let mut models: BTreeMap<i64, Sample> = BTreeMap::new();
    let mut tolerances = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let opset = line.split(' ').nth(1).and_then(|word| word.strip_prefix('@'));
        let opset = opset.and_then(|word| word.parse().ok()).ok_or_else(|| wrong(line))?;
        let sample = models.entry(opset).or_insert_with(|| empty(opset));
        let first = sample.expected.len();
        let tolerance = add(sample, index, line).ok_or_else(|| wrong(line))?;
        let names = sample.expected[first..].iter().map(|(name, _)| name.clone());
        tolerances.extend(names.map(|name| (name, tolerance)));
    }
    let (mut onnx, mut inputs, mut expected) = (Vec::new(), Values::new(), Values::new());
    for sample in models.into_values() {
        inputs.extend(sample.inputs);
        expected.extend(sample.expected);
        onnx.push(sample.model);
    }
    let mut loaded = backend.load(&onnx)?;
    for _ in 0..2 {
        let found = super::data(&mut *loaded, &inputs)?;
        for (name, tolerance) in &tolerances {
            let (found, expected) = (tensor::of(&found, name)?, tensor::of(&expected, name)?);
            tensor::compare(name, found, expected, *tolerance)?;
        }
        if found.len() != expected.len() {
            return Err(Stop::failed(format_args!("{} outputs", found.len())));
        }
    }
    loaded.unload()
}

fn empty(opset: i64) -> Sample {
    let (inputs, expected) = (Values::new(), Values::new());
    Sample { model: Onnx::new(opset), inputs, expected, tolerance: 0.0 }
}

/// Adds a line to a model; the tolerance.
fn add(to: &mut Sample, index: usize, line: &'static str) -> Option<f64> {
    let (head, rest) = line.split_once(" :")?;
    let (inputs, outputs) = rest.split_once("->")?;
    let (outputs, tolerance) = outputs.split_once('~').unwrap_or((outputs, "0"));
    let mut words = head.split(' ').filter(|word| !word.is_empty());
    let op = words.next()?.split('/').next()?;
    let attributes = words.skip(1).map(|word| {
        let (name, value) = word.split_once('=')?;
        Some((name, attribute(value)?))
    });
    let attributes = attributes.collect::<Option<Vec<_>>>()?;
    let mut model = to.model.clone();
    let mut operands = Vec::new();
    for (place, word) in tensors(inputs).enumerate() {
        let name = format!("x{index}_{place}");
        if word == "_" {
            operands.push(String::new());
            continue;
        }
        if let Some(constant) = word.strip_prefix('=') {
            model = model.constant(&name, &value(constant)?);
        } else {
            let own = value(word)?;
            model = model.input(&name, own.dtype, &own.shape);
            to.inputs.push((name.clone(), own));
        }
        operands.push(name);
    }
    if tensors(inputs).all(|word| word.starts_with('=')) {
        // A flow feeds each of its nodes.
        let (name, own) = (format!("x{index}_fed"), value("f32[1]{1}")?);
        model = model.input(&name, own.dtype, &own.shape);
        model = model.node("Identity", &[&name], &format!("y{index}_fed"), &[]);
        model = model.output(&format!("y{index}_fed"), own.dtype, &own.shape);
        to.inputs.push((name, own.clone()));
        to.expected.push((format!("y{index}_fed"), own));
    }
    let mut results = Vec::new();
    for (place, word) in tensors(outputs).enumerate() {
        let (name, own) = (format!("y{index}_{place}"), value(word)?);
        model = model.output(&name, own.dtype, &own.shape);
        to.expected.push((name.clone(), own));
        results.push(name);
    }
    let operands: Vec<&str> = operands.iter().map(String::as_str).collect();
    let results: Vec<&str> = results.iter().map(String::as_str).collect();
    to.model = model.node_of(op, &operands, &results, &attributes);
    tolerance.trim().parse().ok()
}

fn attribute(text: &'static str) -> Option<Attr> {
    if let Some(text) = text.strip_prefix('\'') {
        return Some(Attr::Text(text.trim_end_matches('\'')));
    }
    if let Some(list) = text.strip_prefix('[') {
        let list = list.trim_end_matches(']').split(',').filter(|word| !word.is_empty());
        if text.contains('.') {
            return Some(Attr::Floats(list.map(|word| word.parse().ok()).collect::<Option<_>>()?));
        }
        return Some(Attr::Ints(list.map(|word| word.parse().ok()).collect::<Option<_>>()?));
    }
    let number = text.parse().map(Attr::Int);
    number.or_else(|_| text.parse().map(Attr::Float)).ok()
}

/// Words that end with `}`, and lone underscores.
fn tensors(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.split_inclusive(['}', '_']).map(str::trim).filter(|word| !word.is_empty())
}

fn value(text: &str) -> Option<Tensor> {
    let (dtype, rest) = text.split_once('[')?;
    let (dims, values) = rest.split_once("]{")?;
    let dims = dims.split(',').filter(|dim| !dim.is_empty());
    let shape = dims.map(|dim| dim.parse().ok()).collect::<Option<Vec<i64>>>()?;
    let values = values.trim_end_matches('}').split_whitespace();
    let values = values.map(|word| element(dtype, word)).collect::<Option<Vec<_>>>()?;
    let dtype = DType::all().find(|own| short(*own) == dtype)?;
    let count = usize::try_from(shape.iter().product::<i64>()).ok()?;
    let values = if values.len() == 1 { vec![values[0].clone(); count] } else { values };
    (values.len() == count).then(|| Tensor { dtype, shape, bytes: values.concat() })
}

/// Name of a type in the examples.
fn short(dtype: DType) -> String {
    if dtype == DType::Bool {
        return "bool".to_owned();
    }
    let kind = match dtype {
        DType::Bfloat16 => "bf",
        DType::Float32 | DType::Float64 | DType::Float16 => "f",
        DType::Int8 | DType::Int16 | DType::Int32 | DType::Int64 => "i",
        _ => "u",
    };
    format!("{kind}{}", 8 * dtype.element_bytes())
}

/// An element as bytes.
fn element(dtype: &str, word: &str) -> Option<Vec<u8>> {
    Some(match dtype {
        "f32" => word.parse::<f32>().ok()?.to_le_bytes().to_vec(),
        "f64" => word.parse::<f64>().ok()?.to_le_bytes().to_vec(),
        "f16" => half(word.parse().ok()?).to_le_bytes().to_vec(),
        "bf16" => word.parse::<f32>().ok()?.to_le_bytes()[2..].to_vec(),
        "i8" => word.parse::<i8>().ok()?.to_le_bytes().to_vec(),
        "i16" => word.parse::<i16>().ok()?.to_le_bytes().to_vec(),
        "i32" => word.parse::<i32>().ok()?.to_le_bytes().to_vec(),
        "i64" => word.parse::<i64>().ok()?.to_le_bytes().to_vec(),
        "u16" => word.parse::<u16>().ok()?.to_le_bytes().to_vec(),
        "u32" => word.parse::<u32>().ok()?.to_le_bytes().to_vec(),
        "u64" => word.parse::<u64>().ok()?.to_le_bytes().to_vec(),
        _ => word.parse::<u8>().ok()?.to_le_bytes().to_vec(),
    })
}

/// A float of 16 bits that the examples write without a rest: sign, exponent, fraction.
fn half(value: f32) -> u16 {
    let bits = value.to_bits();
    let sign = u16::try_from(bits >> 31).unwrap_or(0) << 15;
    if value == 0.0 {
        return sign;
    }
    if !value.is_finite() {
        return sign | if value.is_nan() { 0x7e00 } else { 0x7c00 };
    }
    let exponent = (bits >> 23 & 0xff).saturating_sub(127 - 15);
    sign | u16::try_from(exponent << 10 | bits >> 13 & 0x3ff).unwrap_or(0)
}
