//! HannWindow, HammingWindow and BlackmanWindow: weights of a signal; MelWeightMatrix: weights of
//! its frequencies. Their sizes are constants, so they are made when the node is imported.

use std::f64::consts::TAU;

use crate::DataType;
use crate::aligned::AlignedBytes;
use crate::numbers::NumbersMut;
use crate::ops::literal::Literal;
use crate::ops::sample::{from_size, to_size};
use crate::ops::{Imported, Node, OpEntry, OpError, always};
use crate::shape::Shape;
use crate::tensor::TensorInfo;

/// The line of HannWindow.
pub static HANN: OpEntry = OpEntry {
    name: "HannWindow",
    code: 170,
    import: |node| window(node, const { HANN.code }, [0.5, 0.5, 0.0]),
    decode: |from| Literal::decode(const { HANN.code }, from),
    ..BASE
};

/// The line of HammingWindow.
pub static HAMMING: OpEntry = OpEntry {
    name: "HammingWindow",
    code: 171,
    import: |node| window(node, const { HAMMING.code }, [25.0 / 46.0, 21.0 / 46.0, 0.0]),
    decode: |from| Literal::decode(const { HAMMING.code }, from),
    ..BASE
};

/// The line of BlackmanWindow.
pub static BLACKMAN: OpEntry = OpEntry {
    name: "BlackmanWindow",
    code: 172,
    import: |node| window(node, const { BLACKMAN.code }, [0.42, 0.5, 0.08]),
    decode: |from| Literal::decode(const { BLACKMAN.code }, from),
    ..BASE
};

/// What their lines have in common.
const BASE: OpEntry = OpEntry {
    versions: &[17],
    attributes: &[always("output_datatype"), always("periodic")],
    operands: (0, 0),
    types: &[(DataType::INT32, 17), (DataType::INT64, 17)],
    refused: "a `size` that is computed from data, a window of 1 that is not periodic",
    ..OpEntry::BASE
};

/// The sum of a constant and of one and two waves over the window.
fn window(node: &Node<'_>, code: u16, waves: [f64; 3]) -> Result<Imported, OpError> {
    let dtype = node.data_type("output_datatype")?.unwrap_or(DataType::FLOAT);
    if dtype == DataType::BOOL {
        return Err(OpError::attribute("output_datatype", "bool", "floats, whole numbers"));
    }
    let given = node.integers(0, "size")?;
    let shape = match given[..] {
        [size] => Shape::from_i64(&[size])?,
        _ => return Err(OpError::shape("`size` is not one number")),
    };
    let size = shape.elements();
    if size > LARGEST {
        return Err(OpError::shape(format!("a window of {size}; at most {LARGEST} are supported")));
    }
    let length = if node.flag("periodic", true)? { size } else { size.saturating_sub(1) };
    if length == 0 && size > 0 {
        return Err(OpError::attribute("periodic", 0, "1 for a window of 1"));
    }
    let info = TensorInfo::new(dtype, shape);
    let mut bytes = AlignedBytes::zeroed(info.bytes());
    let mut to = NumbersMut::<f64>::new(dtype, &mut bytes);
    let to = to.as_mut().map_err(|fault| OpError::shape(fault.to_string()))?;
    for index in 0..size {
        let at = TAU * from_size(index) / from_size(length);
        to.set(index, waves[0] - waves[1] * at.cos() + waves[2] * (2.0 * at).cos());
    }
    let op = Literal::new(code, info, bytes.to_vec());
    Ok(Imported { op: Box::new(op), operands: Vec::new() })
}

/// The line of MelWeightMatrix.
pub static MEL: OpEntry = OpEntry {
    name: "MelWeightMatrix",
    code: 195,
    versions: &[17],
    attributes: &[always("output_datatype")],
    inputs: (5, 5),
    operands: (0, 0),
    types: &[(DataType::INT32, 17), (DataType::INT64, 17)],
    refused: "inputs that are computed from data",
    import: mel,
    decode: |from| Literal::decode(const { MEL.code }, from),
    ..OpEntry::BASE
};

/// Triangles over the frequencies of a transform, at the same distance on the mel scale.
fn mel(node: &Node<'_>) -> Result<Imported, OpError> {
    let number = |index: usize, name: &'static str| match node.numbers(index, name)?[..] {
        [one] => Ok(one),
        _ => Err(OpError::shape(format!("`{name}` is not one number"))),
    };
    let size = |index: usize, name: &'static str, least: i64| {
        let (own, _) = number(index, name)?;
        let fits = usize::try_from(own).ok().filter(|_| (least..1 << 24).contains(&own));
        fits.ok_or_else(|| OpError::shape(format!("`{name}` is {own}; expected {least} to 2^24")))
    };
    let (bands, length) = (size(0, "num_mel_bins", 0)?, size(1, "dft_length", 0)?);
    let rate = size(2, "sample_rate", 1)?;
    let (low, high) = (number(3, "lower_edge_hertz")?.1, number(4, "upper_edge_hertz")?.1);
    let dtype = node.data_type("output_datatype")?.unwrap_or(DataType::FLOAT);
    if dtype == DataType::BOOL {
        return Err(OpError::attribute("output_datatype", "bool", "floats, whole numbers"));
    }
    let on_scale = |hertz: f64| 2595.0 * (hertz / 700.0).ln_1p() / std::f64::consts::LN_10;
    let step = (on_scale(high) - on_scale(low)) / from_size(bands + 2);
    // The frequency of the transform below an edge of a triangle.
    let edge = |at: usize| {
        let mel = from_size(at) * step + on_scale(low);
        let hertz = 700.0 * (mel / 2595.0 * std::f64::consts::LN_10).exp_m1();
        (from_size(length + 1) * hertz / from_size(rate)).floor()
    };
    let places = length / 2 + 1;
    let ordered = edge(0) >= 0.0 && step >= 0.0 && edge(bands + 1) <= from_size(places);
    if !ordered || edge(bands) >= from_size(places) {
        let what = format!("from {low} to {high} hertz: not all within 0 to {rate} / 2");
        return Err(OpError::shape(what));
    }
    let info = TensorInfo::new(dtype, Shape::new(&[places, bands])?);
    if info.shape.elements() > LARGEST {
        return Err(OpError::shape(format!("{info}; at most {LARGEST} elements are supported")));
    }
    let mut bytes = AlignedBytes::zeroed(info.bytes());
    let mut to = NumbersMut::<f64>::new(dtype, &mut bytes);
    let to = to.as_mut().map_err(|fault| OpError::shape(fault.to_string()))?;
    for band in 0..bands {
        let [begin, middle, end] = [0, 1, 2].map(|next| to_size(edge(band + next)));
        let part = |x: usize, y: usize| from_size(x) / from_size(y);
        for at in begin..middle {
            to.set(at * bands + band, part(at - begin, middle - begin));
        }
        if middle < places {
            to.set(middle * bands + band, 1.0);
        }
        for at in middle + 1..end {
            to.set(at * bands + band, part(end - at, end - middle));
        }
    }
    let op = Literal::new(const { MEL.code }, info, bytes.to_vec());
    Ok(Imported { op: Box::new(op), operands: Vec::new() })
}

/// Most elements of a tensor that is made when a node is imported.
const LARGEST: usize = 1 << 26;
