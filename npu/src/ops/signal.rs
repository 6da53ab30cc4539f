//! HannWindow, HammingWindow and BlackmanWindow: weights of a signal. Their size is a constant, so
//! they are made when the node is imported.

use std::f64::consts::TAU;

use crate::DataType;
use crate::aligned::AlignedBytes;
use crate::numbers::NumbersMut;
use crate::ops::literal::Literal;
use crate::ops::sample::from_size;
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
