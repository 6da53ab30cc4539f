//! The two files of the chain, written field by field as protobuf has it: no exporter is needed.
//!
//! * [`onnx`]: convolution with an offset, Relu, mean of 2 × 2 places; maps in front.
//! * [`frozen`]: a TensorFlow graph of convolution, offset, Relu, mean, weights, Softmax; maps
//!   last.

use crate::weights::{self, CLASSES, IMAGE, INNER, MAPS};

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

/// A field with a number.
fn number(field: u64, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    varint(field << 3, &mut out);
    varint(value, &mut out);
    out
}

/// A field with bytes, a text or a message.
fn block(field: u64, content: impl AsRef<[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    varint(field << 3 | 2, &mut out);
    varint(content.as_ref().len() as u64, &mut out);
    out.extend(content.as_ref());
    out
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The first model: `image` `[1, 3, 12, 12]` to `features` `[1, 8, 6, 6]`.
#[must_use]
pub fn onnx() -> Vec<u8> {
    let tensor = |name: &str, dims: &[usize], values: &[f32]| {
        let dims: Vec<u8> = dims.iter().flat_map(|dim| number(1, *dim as u64)).collect();
        [dims, number(2, 1), block(8, name), block(9, bytes(values))].concat()
    };
    let declared = |name: &str, dims: [usize; 4]| {
        let dims = dims.iter().flat_map(|dim| block(1, number(1, *dim as u64)));
        let shape: Vec<u8> = dims.collect();
        let tensor = [number(1, 1), block(2, shape)].concat();
        [block(1, name), block(2, block(1, tensor))].concat()
    };
    // Numbers of a list; 7 is the kind of such an attribute.
    let ints = |name: &str, values: &[u64]| {
        let values: Vec<u8> = values.iter().flat_map(|value| number(8, *value)).collect();
        block(5, [block(1, name), values, number(20, 7)].concat())
    };
    let node = |op: &str, inputs: &[&str], output: &str, attributes: &[Vec<u8>]| {
        let inputs: Vec<u8> = inputs.iter().flat_map(|name| block(1, name)).collect();
        let named = [block(2, output), block(3, output), block(4, op)].concat();
        [inputs, named, attributes.concat()].concat()
    };
    let (filters, offsets) = weights::first();
    let pads = ints("pads", &[1, 1, 1, 1]);
    let halves = [ints("kernel_shape", &[2, 2]), ints("strides", &[2, 2])];
    let [maps, height, width] = IMAGE;
    let graph = [
        block(1, node("Conv", &["image", "filters", "offsets"], "maps", &[pads])),
        block(1, node("Relu", &["maps"], "positive", &[])),
        block(1, node("AveragePool", &["positive"], "features", &halves)),
        block(2, "first"),
        block(5, tensor("filters", &[MAPS, maps, 3, 3], &filters)),
        block(5, tensor("offsets", &[MAPS], &offsets)),
        block(11, declared("image", [1, maps, height, width])),
        block(12, declared("features", [1, MAPS, height / 2, width / 2])),
    ];
    [number(1, 8), block(7, graph.concat()), block(8, number(2, 13))].concat()
}

/// The second model: `features` `[1, 6, 6, 8]` to `probabilities` `[1, 5]`.
#[must_use]
pub fn frozen() -> Vec<u8> {
    let shape = |dims: &[usize]| -> Vec<u8> {
        dims.iter().flat_map(|dim| block(2, number(1, *dim as u64))).collect()
    };
    let attribute = |key: &str, value: Vec<u8>| block(5, [block(1, key), block(2, value)].concat());
    let node = |op: &str, name: &str, inputs: &[&str], attributes: &[Vec<u8>]| {
        let inputs: Vec<u8> = inputs.iter().flat_map(|input| block(3, input)).collect();
        block(1, [block(1, name), block(2, op), inputs, attributes.concat()].concat())
    };
    // 1: float32, 3: int32.
    let tensor = |dtype: u64, dims: &[usize], content: &[u8]| {
        let own = [number(1, dtype), block(2, shape(dims)), block(4, content)].concat();
        [attribute("dtype", number(6, dtype)), attribute("value", block(8, own))]
    };
    let floats = |name: &str, dims: &[usize], values: &[f32]| {
        node("Const", name, &[], &tensor(1, dims, &bytes(values)))
    };
    let (filters, offsets, classes) = weights::second();
    let axes: Vec<u8> = [1i32, 2].iter().flat_map(|axis| axis.to_le_bytes()).collect();
    let ones = attribute("strides", block(1, block(3, [1, 1, 1, 1])));
    let same = attribute("padding", block(2, "SAME"));
    let [_, height, width] = IMAGE;
    let image = attribute("shape", block(7, shape(&[1, height / 2, width / 2, MAPS])));
    [
        node("Placeholder", "features", &[], &[attribute("dtype", number(6, 1)), image]),
        floats("filters", &[3, 3, MAPS, INNER], &filters),
        floats("offsets", &[INNER], &offsets),
        floats("classes", &[INNER, CLASSES], &classes),
        node("Const", "axes", &[], &tensor(3, &[2], &axes)),
        node("Conv2D", "maps", &["features", "filters"], &[ones, same]),
        node("BiasAdd", "moved", &["maps", "offsets"], &[]),
        node("Relu", "positive", &["moved"], &[]),
        node("Mean", "means", &["positive", "axes"], &[]),
        node("MatMul", "logits", &["means", "classes"], &[]),
        node("Softmax", "probabilities", &["logits"], &[]),
    ]
    .concat()
}
